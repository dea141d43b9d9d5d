//! The activations: value and slope.

use num_traits::Float;

/// An element-wise activation `y = φ(a)`.
///
/// Every derivative is a function of the output `y`, so backward requires only the saved gates. This
/// holds for a monotone `φ`. [`GruSpec::check`](crate::GruSpec::check) rejects parameters without this
/// property. For a NaN, output and derivative are NaN for every activation.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
#[non_exhaustive]
pub enum Activation {
    /// `1 / (1 + e^−a)`, derivative `y (1 − y)`.
    Sigmoid,
    /// `tanh a`, derivative `1 − y²`.
    Tanh,
    /// `max(0, a)`, derivative 1 where `y > 0`, else 0.
    Relu,
    /// `clamp(alpha·a + beta, 0, 1)`, derivative `alpha` inside. PyTorch and Keras 3 have alpha 1/6, ONNX and Keras 2
    /// have 0.2, all with beta 0.5. Parameters must be finite.
    HardSigmoid {
        /// Slope.
        alpha: f64,
        /// Offset.
        beta: f64,
    },
    /// `a`, derivative 1.
    Identity,
    /// `alpha·a + beta`, derivative `alpha`.
    Affine {
        /// Slope.
        alpha: f64,
        /// Offset.
        beta: f64,
    },
    /// `a` where positive, else `alpha·a`, with `alpha ≥ 0`; derivative 1 where `y > 0`, else
    /// `alpha`.
    LeakyRelu {
        /// Slope of the negative side.
        alpha: f64,
    },
    /// `a` where `a > alpha`, else 0, with `alpha ≥ 0`.
    ThresholdedRelu {
        /// The threshold.
        alpha: f64,
    },
    /// `alpha · tanh(beta·a)` with `alpha ≠ 0`, derivative `beta (alpha − y²/alpha)`.
    ScaledTanh {
        /// Scale of the output.
        alpha: f64,
        /// Scale of the input.
        beta: f64,
    },
    /// `a` where positive, else `alpha (e^a − 1)`, with `alpha ≥ 0`; derivative `y + alpha` there.
    Elu {
        /// Depth of the negative side.
        alpha: f64,
    },
    /// `a / (1 + |a|)`, derivative `(1 − |y|)²`.
    Softsign,
    /// `ln(1 + e^a)`, derivative `1 − e^−y`.
    Softplus,
}

/// The numbers of the activations.
macro_rules! numbers {
    (($alpha:ident, $beta:ident): $($number:literal $name:ident $({ $($parameter:ident),+ })?,)+) => {
        impl Activation {
            /// The number of this activation, and its parameters alpha and beta, zero if absent.
            #[doc(hidden)]
            pub fn numbered(&self) -> (u64, [f64; 2]) {
                let ($alpha, $beta) = (0.0, 0.0);
                match *self {
                    $(Self::$name $({ $($parameter),+ })? => ($number, [$alpha, $beta]),)+
                }
            }

            /// The activation with this number, or `None`. The inverse of [`numbered`](Self::numbered).
            #[doc(hidden)]
            pub fn from_number(number: u64, [$alpha, $beta]: [f64; 2]) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name $({ $($parameter),+ })?),)+
                    _ => None,
                }
            }
        }
    };
}

numbers! {
    (alpha, beta):
    0 Sigmoid,
    1 Tanh,
    2 Relu,
    3 HardSigmoid { alpha, beta },
    4 Identity,
    5 Affine { alpha, beta },
    6 LeakyRelu { alpha },
    7 ThresholdedRelu { alpha },
    8 ScaledTanh { alpha, beta },
    9 Elu { alpha },
    10 Softsign,
    11 Softplus,
}

impl Activation {
    /// `φ(a)` in float64, the definition. NaN if `a` is NaN.
    pub fn value(&self, a: f64) -> f64 {
        match *self {
            Self::Sigmoid => 1.0 / (1.0 + Float::exp(-a)),
            Self::Tanh => Float::tanh(a),
            Self::Relu if a < 0.0 => 0.0,
            Self::HardSigmoid { alpha, beta } => (alpha * a + beta).clamp(0.0, 1.0),
            Self::Identity => a,
            Self::Affine { alpha, beta } => alpha * a + beta,
            Self::LeakyRelu { alpha } if a <= 0.0 => alpha * a,
            Self::ThresholdedRelu { alpha } if a <= alpha => 0.0,
            Self::Elu { alpha } if a <= 0.0 => alpha * Float::exp_m1(a),
            Self::Relu
            | Self::LeakyRelu { .. }
            | Self::ThresholdedRelu { .. }
            | Self::Elu { .. } => a,
            Self::ScaledTanh { alpha, beta } => alpha * Float::tanh(beta * a),
            Self::Softsign => a / (1.0 + a.abs()),
            Self::Softplus => a.max(0.0) + Float::ln_1p(Float::exp(-a.abs())),
        }
    }

    /// `dφ/da` from the output `y = φ(a)`, in float64. NaN if `y` is NaN.
    pub fn slope(&self, y: f64) -> f64 {
        match *self {
            _ if y.is_nan() => y,
            Self::Sigmoid => y * (1.0 - y),
            Self::Tanh => 1.0 - y * y,
            Self::Relu | Self::ThresholdedRelu { .. } if y <= 0.0 => 0.0,
            Self::HardSigmoid { .. } if y <= 0.0 || y >= 1.0 => 0.0,
            Self::HardSigmoid { alpha, .. } | Self::Affine { alpha, .. } => alpha,
            Self::LeakyRelu { alpha } if y <= 0.0 => alpha,
            Self::Elu { alpha } if y <= 0.0 => y + alpha,
            Self::Relu
            | Self::ThresholdedRelu { .. }
            | Self::LeakyRelu { .. }
            | Self::Elu { .. }
            | Self::Identity => 1.0,
            // β(α − y²/α), exactly 0 at ±α.
            Self::ScaledTanh { alpha, beta } => (alpha - y) * (alpha + y) * (beta / alpha),
            Self::Softsign => (1.0 - y.abs()) * (1.0 - y.abs()),
            Self::Softplus => -Float::exp_m1(-y),
        }
    }

    /// For crates that have no kernel for an activation of a later version.
    #[doc(hidden)]
    #[cold]
    pub fn unknown(self) -> ! {
        unreachable!("expected an activation that this version knows, got {self:?}")
    }

    /// Why the derivative is not a function of the output, or `None`.
    pub(crate) fn violated_requirement(&self) -> Option<&'static str> {
        let finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
        let (ok, reason) = match *self {
            Self::HardSigmoid { alpha, beta } | Self::Affine { alpha, beta } => {
                (finite(&[alpha, beta]), "alpha and beta must be finite")
            }
            Self::LeakyRelu { alpha } | Self::ThresholdedRelu { alpha } | Self::Elu { alpha } => (
                alpha.is_finite() && alpha >= 0.0,
                "alpha must be finite and not negative",
            ),
            Self::ScaledTanh { alpha, beta } => (
                finite(&[alpha, beta]) && alpha != 0.0,
                "alpha and beta must be finite, alpha not zero",
            ),
            Self::Sigmoid
            | Self::Tanh
            | Self::Relu
            | Self::Identity
            | Self::Softsign
            | Self::Softplus => (true, ""),
        };
        (!ok).then_some(reason)
    }
}

/// One activation per gate.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Activations {
    /// `φr`, of the reset gate.
    pub reset: Activation,
    /// `φz`, of the update gate.
    pub update: Activation,
    /// `φn`, of the candidate.
    pub candidate: Activation,
}

impl Default for Activations {
    fn default() -> Self {
        Self {
            reset: Activation::Sigmoid,
            update: Activation::Sigmoid,
            candidate: Activation::Tanh,
        }
    }
}

/// From the activations of r, z and n, in this order.
impl From<[Activation; 3]> for Activations {
    fn from([reset, update, candidate]: [Activation; 3]) -> Self {
        Self {
            reset,
            update,
            candidate,
        }
    }
}

impl Activations {
    /// The activations of r, z and n, in this order.
    pub fn into_array(self) -> [Activation; 3] {
        [self.reset, self.update, self.candidate]
    }
}
