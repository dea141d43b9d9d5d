//! The one description of which GRU is meant.
//!
//! A GRU is never "a GRU": systems differ in where the reset gate acts, what the update gate
//! keeps, which activations and clips they use, and how they order time. [`GruSpec`] names every
//! such choice; gate order and weight layout are not part of it, because only importers permute.

use std::ops::Range;

/// Where the reset gate `r` acts in the candidate `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Reset {
    /// `n = φ(p_n + r ⊙ (h·w_hn + b_hn))`: Cho et al. 2014 (v1), PyTorch, cuDNN, Keras' default,
    /// ONNX `linear_before_reset = 1`.
    #[default]
    AfterMatmul,
    /// `n = φ(p_n + (r ⊙ h)·w_hn + b_hn)`: Cho et al. 2014 (v3), TensorFlow's block cell, MPSGraph's
    /// default, ONNX `linear_before_reset = 0`.
    BeforeMatmul,
}

/// What the update gate `z` does with the previous state.
///
/// The rule is named, never "flipped": Apple's own pages give `flipZ` opposite meanings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Update {
    /// `h' = z ⊙ h + (1 − z) ⊙ n`: Cho et al. 2014, PyTorch, TensorFlow, Keras, ONNX.
    #[default]
    Keeps,
    /// `h' = (1 − z) ⊙ h + z ⊙ n`: MPSGraph's other rule, Haiku, Chung et al. 2014
    /// (<https://arxiv.org/abs/1412.3555>).
    Takes,
}

/// The order of the first two dimensions of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Layout {
    /// `[N, T, ·]`, Burn's own order.
    #[default]
    BatchMajor,
    /// `[T, N, ·]`, PyTorch's default.
    TimeMajor,
}

impl Layout {
    /// N and T of the first two dimensions of a sequence; or those of N and T: it is its own inverse.
    pub fn split<V>(self, [first, second]: [V; 2]) -> [V; 2] {
        match self {
            Self::BatchMajor => [first, second],
            Self::TimeMajor => [second, first],
        }
    }

    /// Which dimension of a sequence is time.
    pub fn time_dim(self) -> usize {
        let [_, time] = self.split([0, 1]);
        time
    }
}

/// The direction in which time is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Direction {
    /// From the first step to the last.
    #[default]
    Forward,
    /// From the last step to the first; output `t` still belongs to input `t`, and the final
    /// state is the one after step 0.
    Reverse,
}

impl Direction {
    /// The time index of the `s`-th of T steps walked; or which step walks time index `s`: it is its
    /// own inverse.
    pub fn time(self, s: usize, t: usize) -> usize {
        match self {
            Self::Forward => s,
            Self::Reverse => t - 1 - s,
        }
    }

    /// The time indices of the `steps` walked of T, from the lowest to the highest.
    pub fn times(self, steps: Range<usize>, t: usize) -> Range<usize> {
        match self {
            Self::Forward => steps,
            Self::Reverse => t - steps.end..t - steps.start,
        }
    }
}

/// What training keeps for backward, beyond the inputs and the states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Memory {
    /// The gates: 4·T·N·H floats with reset-after, 3·T·N·H with reset-before.
    #[default]
    Speed,
    /// Nothing: backward makes the gates anew from the states, some steps at a time, with about a
    /// third more arithmetic. On the CPU no memory but that of inputs, states and their gradients
    /// grows with T; on a GPU a piece of `x·w_ih` does, as large as a sixteenth of inputs and states.
    /// Where a framework's own operations stand in for kernels, the gates of all steps are made at
    /// once.
    Lean,
}

/// An element-wise activation `y = φ(a)`.
///
/// Every derivative is a function of the output `y`, so backward needs nothing but the saved
/// gates. That asks for a monotone `φ`; [`GruSpec::check`] refuses parameters that break it. A NaN
/// has the output NaN and the derivative NaN, whatever the activation.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Activation {
    /// `1 / (1 + e^−a)`, derivative `y (1 − y)`.
    Sigmoid,
    /// `tanh a`, derivative `1 − y²`.
    Tanh,
    /// `max(0, a)`, derivative 1 where `y > 0`, else 0.
    Relu,
    /// `clamp(alpha·a + beta, 0, 1)`, derivative `alpha` inside.
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

impl Activation {
    /// `φ(a)` in float64, the definition. NaN where `a` is.
    pub fn value(&self, a: f64) -> f64 {
        match *self {
            Self::Sigmoid => 1.0 / (1.0 + (-a).exp()),
            Self::Tanh => a.tanh(),
            Self::Relu if a < 0.0 => 0.0,
            Self::HardSigmoid { alpha, beta } => (alpha * a + beta).clamp(0.0, 1.0),
            Self::Identity => a,
            Self::Affine { alpha, beta } => alpha * a + beta,
            Self::LeakyRelu { alpha } if a <= 0.0 => alpha * a,
            Self::ThresholdedRelu { alpha } if a <= alpha => 0.0,
            Self::Elu { alpha } if a <= 0.0 => alpha * a.exp_m1(),
            Self::Relu
            | Self::LeakyRelu { .. }
            | Self::ThresholdedRelu { .. }
            | Self::Elu { .. } => a,
            Self::ScaledTanh { alpha, beta } => alpha * (beta * a).tanh(),
            Self::Softsign => a / (1.0 + a.abs()),
            Self::Softplus => a.max(0.0) + (-a.abs()).exp().ln_1p(),
        }
    }

    /// `dφ/da` from the output `y = φ(a)`, in float64. NaN where `y` is.
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
            Self::Softplus => -(-y).exp_m1(),
        }
    }

    /// One of each, with parameters unlike the usual ones: what tests go through.
    #[doc(hidden)]
    pub const ALL: [Self; 12] = [
        Self::Sigmoid,
        Self::Tanh,
        Self::Relu,
        Self::HardSigmoid {
            alpha: 0.3,
            beta: 0.45,
        },
        Self::Identity,
        Self::Affine {
            alpha: -0.8,
            beta: 0.1,
        },
        Self::LeakyRelu { alpha: 0.2 },
        Self::ThresholdedRelu { alpha: 0.3 },
        Self::ScaledTanh {
            alpha: -0.9,
            beta: 1.1,
        },
        Self::Elu { alpha: 0.7 },
        Self::Softsign,
        Self::Softplus,
    ];

    /// Why the derivative cannot be told from the output, if it cannot.
    fn objection(&self) -> Option<&'static str> {
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
            _ => (true, ""),
        };
        (!ok).then_some(reason)
    }
}

/// One activation per gate.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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

/// Every convention in which GRUs differ. The default is PyTorch's, batch-major.
///
/// ```
/// use gru_cpu::spec::{GruSpec, Layout, Reset};
///
/// let spec = GruSpec::default()
///     .with_reset(Reset::BeforeMatmul)
///     .with_layout(Layout::TimeMajor);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct GruSpec {
    /// Where the reset gate acts.
    pub reset: Reset,
    /// What the update gate does with the previous state.
    pub update: Update,
    /// Activations of the three gates.
    pub activations: Activations,
    /// ONNX's clip: pre-activations are bounded to `[−c, c]`. Infinity is no clip.
    pub clip_gates: Option<f64>,
    /// Burn's clip: the new state is bounded to `[−c, c]`. Infinity is no clip.
    pub clip_state: Option<f64>,
    /// Order of the first two dimensions.
    pub layout: Layout,
    /// Direction of time.
    pub direction: Direction,
    /// What training keeps for backward. No number depends on it.
    pub memory: Memory,
}

impl GruSpec {
    /// Sets where the reset gate acts.
    pub fn with_reset(self, reset: Reset) -> Self {
        Self { reset, ..self }
    }

    /// Sets what the update gate does with the previous state.
    pub fn with_update(self, update: Update) -> Self {
        Self { update, ..self }
    }

    /// Sets the activations of the three gates.
    pub fn with_activations(self, activations: Activations) -> Self {
        Self {
            activations,
            ..self
        }
    }

    /// Sets the bound of the pre-activations.
    pub fn with_clip_gates(self, clip_gates: Option<f64>) -> Self {
        Self { clip_gates, ..self }
    }

    /// Sets the bound of the state.
    pub fn with_clip_state(self, clip_state: Option<f64>) -> Self {
        Self { clip_state, ..self }
    }

    /// Sets the order of the first two dimensions.
    pub fn with_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// Sets the direction of time.
    pub fn with_direction(self, direction: Direction) -> Self {
        Self { direction, ..self }
    }

    /// Sets what training keeps for backward.
    pub fn with_memory(self, memory: Memory) -> Self {
        Self { memory, ..self }
    }

    /// This spec for arithmetic in a type whose largest finite number is `largest`: a clip beyond that
    /// number is no clip.
    ///
    /// Such a clip would be infinite in that type. Its ends are then not numbers of which an activation
    /// has a value: `∞ / (1 + ∞)` and `0 · ∞` are NaN. What counts is the type in which pre-activations
    /// are bounded, not the type in which they are stored.
    #[must_use]
    pub fn for_numbers_up_to(self, largest: f64) -> Self {
        let clip = |clip: Option<f64>| clip.filter(|&c| c <= largest);
        Self {
            clip_gates: clip(self.clip_gates),
            clip_state: clip(self.clip_state),
            ..self
        }
    }

    /// Floats saved per hidden unit and step for backward: r, z, n, and q_n where the reset gate
    /// acts after the product.
    pub fn saved_per_unit(&self) -> usize {
        match self.reset {
            Reset::AfterMatmul => 4,
            Reset::BeforeMatmul => 3,
        }
    }

    /// Refuses parameters for which backward would be wrong.
    ///
    /// # Panics
    /// If a clip is not positive, or an activation's derivative is not a function of its output
    /// (each variant of [`Activation`] says what it asks for).
    pub fn check(&self) {
        if let Err(reason) = self.try_check() {
            panic!("{reason}");
        }
    }

    /// [`check`](Self::check) for a spec that was read from a file.
    ///
    /// # Errors
    /// The text of the panic.
    pub fn try_check(&self) -> Result<(), String> {
        for (name, clip) in [
            ("clip_gates", self.clip_gates),
            ("clip_state", self.clip_state),
        ] {
            if let Some(c) = clip
                && (c.is_nan() || c <= 0.0)
            {
                return Err(format!(
                    "GruSpec: {name} must be positive, expected > 0, got {c}"
                ));
            }
        }
        let gates = self.activations;
        for (name, activation) in [
            ("reset", gates.reset),
            ("update", gates.update),
            ("candidate", gates.candidate),
        ] {
            if let Some(reason) = activation.objection() {
                return Err(format!(
                    "GruSpec: {name} activation {activation:?}: {reason}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
