//! Setters of a configuration's spec.

use super::GruBlockConfig;
use gru_spec::{Activation, Activations, Reset, Update};

/// The options of [`spec`](Self::spec).
impl GruBlockConfig {
    /// Sets where the reset gate acts.
    pub fn with_reset(mut self, reset: Reset) -> Self {
        self.spec.reset = reset;
        self
    }

    /// Sets what the update gate does with the previous state.
    pub fn with_update(mut self, update: Update) -> Self {
        self.spec.update = update;
        self
    }

    /// Sets the activations of the three gates.
    pub fn with_activations(mut self, activations: Activations) -> Self {
        self.spec.activations = activations;
        self
    }

    /// Sets the bound of the pre-activations.
    pub fn with_clip_gates(mut self, clip_gates: Option<f64>) -> Self {
        self.spec.clip_gates = clip_gates;
        self
    }

    /// Sets the bound of the state.
    pub fn with_clip_state(mut self, clip_state: Option<f64>) -> Self {
        self.spec.clip_state = clip_state;
        self
    }
}

/// The names of Burn's `GruConfig`.
impl GruBlockConfig {
    /// Sets whether the reset gate acts after the recurrent product.
    pub fn with_reset_after(self, reset_after: bool) -> Self {
        self.with_reset(if reset_after {
            Reset::AfterMatmul
        } else {
            Reset::BeforeMatmul
        })
    }

    /// Sets the activation of the reset gate and the update gate.
    pub fn with_gate_activation(mut self, gate: Activation) -> Self {
        self.spec.activations.reset = gate;
        self.spec.activations.update = gate;
        self
    }

    /// Sets the activation of the candidate.
    pub fn with_hidden_activation(mut self, candidate: Activation) -> Self {
        self.spec.activations.candidate = candidate;
        self
    }

    /// Sets the bound of the state. Burn's clip bounds the state, ONNX' clip bounds the gates.
    pub fn with_clip(self, clip: Option<f64>) -> Self {
        self.with_clip_state(clip)
    }
}
