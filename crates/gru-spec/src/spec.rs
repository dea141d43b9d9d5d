//! [`GruSpec`]: every convention in which GRUs differ.

use crate::activation::{Activation, Activations};
use core::{error, fmt};

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

/// The role of the update gate `z` for the previous state.
///
/// Each rule has a name. The word "flipped" is not used, because Apple's own pages give `flipZ` opposite
/// meanings.
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

/// What one step computes: every convention in which GRUs differ. The default is PyTorch's GRU.
///
/// Memory layout and time direction belong to a call: [`Order`](crate::Order).
///
/// ```
/// use gru_spec::{GruSpec, Reset};
///
/// let spec = GruSpec::default().with_reset(Reset::BeforeMatmul).with_clip_gates(Some(3.0));
///
/// // The gates of Keras 2.
/// use gru_spec::Activation::{HardSigmoid, Tanh};
/// let hard = HardSigmoid { alpha: 0.2, beta: 0.5 };
/// let spec = spec.with_activations([hard, hard, Tanh].into());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[must_use]
#[non_exhaustive]
pub struct GruSpec {
    /// Where the reset gate acts.
    pub reset: Reset,
    /// The update rule.
    pub update: Update,
    /// Activations of the three gates.
    pub activations: Activations,
    /// ONNX's clip: pre-activations are bounded to `[−c, c]`. Infinity means no clip. If c is so small that a gate has
    /// one value only, its slope is 0.
    pub clip_gates: Option<f64>,
    /// Burn's clip: the new state is bounded to `[−c, c]`. Infinity means no clip.
    pub clip_state: Option<f64>,
}

impl GruSpec {
    /// Sets the place of the reset gate.
    pub fn with_reset(self, reset: Reset) -> Self {
        Self { reset, ..self }
    }

    /// Sets the update rule.
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

    /// This spec for arithmetic in a type whose largest finite number is `largest`: removes a clip
    /// beyond that number.
    ///
    /// Such a clip would be infinite in that type, and some activations have no value at infinity: `∞ /
    /// (1 + ∞)` and `0 · ∞` are NaN. `largest` belongs to the type of the arithmetic, not to the storage
    /// type.
    #[doc(hidden)]
    pub fn for_numbers_up_to(self, largest: f64) -> Self {
        let clip = |clip: Option<f64>| clip.filter(|&c| c <= largest);
        Self {
            clip_gates: clip(self.clip_gates),
            clip_state: clip(self.clip_state),
            ..self
        }
    }

    /// Floats per hidden unit and step that are saved for backward: r, z, n, and q_n if the reset gate
    /// acts after the product.
    pub fn saved_per_unit(&self) -> usize {
        match self.reset {
            Reset::AfterMatmul => 4,
            Reset::BeforeMatmul => 3,
        }
    }

    /// Rejects parameters for which backward would be wrong.
    ///
    /// # Panics
    /// If a clip is not positive, or an activation's derivative is not a function of its output
    /// (each variant of [`Activation`](crate::Activation) states its requirement).
    pub fn check(&self) {
        if let Err(error) = self.try_check() {
            panic!("{error}");
        }
    }

    /// [`check`](Self::check) for specs from files.
    ///
    /// ```
    /// use gru_spec::GruSpec;
    ///
    /// let error = GruSpec::default().with_clip_gates(Some(-1.0)).try_check().unwrap_err();
    /// assert!(error.to_string().contains("clip_gates"));
    /// ```
    ///
    /// # Errors
    /// With the text of the panic.
    pub fn try_check(&self) -> Result<(), SpecError> {
        for (name, clip) in [
            ("clip_gates", self.clip_gates),
            ("clip_state", self.clip_state),
        ] {
            if let Some(c) = clip
                && (c.is_nan() || c <= 0.0)
            {
                return Err(SpecError::Clip { name, clip: c });
            }
        }
        let gates = self.activations;
        for (gate, activation) in [
            ("reset", gates.reset),
            ("update", gates.update),
            ("candidate", gates.candidate),
        ] {
            if let Some(reason) = activation.violated_requirement() {
                return Err(SpecError::Activation {
                    gate,
                    activation,
                    reason,
                });
            }
        }
        Ok(())
    }
}

/// Why a [`GruSpec`] is not valid.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum SpecError {
    /// A clip is not positive.
    Clip {
        /// `clip_gates` or `clip_state`.
        name: &'static str,
        /// Its value.
        clip: f64,
    },
    /// The parameters of an activation do not fulfil its requirement.
    Activation {
        /// `reset`, `update` or `candidate`.
        gate: &'static str,
        /// The activation.
        activation: Activation,
        /// The requirement.
        reason: &'static str,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clip { name, clip } => {
                write!(
                    f,
                    "GruSpec: {name} must be positive, expected > 0, got {clip}"
                )
            }
            Self::Activation {
                gate,
                activation,
                reason,
            } => write!(f, "GruSpec: {gate} activation {activation:?}: {reason}"),
        }
    }
}

impl error::Error for SpecError {}
