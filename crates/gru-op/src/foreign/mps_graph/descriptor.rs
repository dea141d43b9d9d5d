//! Which GRU a call computes.

use crate::foreign::gate_order::GateOrder;
use gru_spec::{Activation, Activations, GruSpec, Reset, Update};

/// The hard sigmoid with slope and offset from older pages of Apple's documentation.
pub const HARD_SIGMOID: Activation = Activation::HardSigmoid {
    alpha: 0.2,
    beta: 0.5,
};

/// The meaning of `flipZ` on the page of `MPSGraphGRUDescriptor`.
pub fn flip_z_of_descriptor_page(flip_z: bool) -> Update {
    if flip_z { Update::Keeps } else { Update::Takes }
}

/// The meaning of `flipZ` on the pages of the GRU methods.
pub fn flip_z_of_method_pages(flip_z: bool) -> Update {
    if flip_z { Update::Takes } else { Update::Keeps }
}

/// `MPSGraphGRUDescriptor`, with [`update`](Self::update) in place of `flipZ`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct GruDescriptor {
    /// Whether time runs from the last step to the first. Ignored with `bidirectional`.
    pub reverse: bool,
    /// Whether there are two directions, each with its own weights.
    pub bidirectional: bool,
    /// Whether forward also returns the z state, which the gradients require.
    pub training: bool,
    /// Whether gates are packed r, z, o instead of z, r, o.
    pub reset_gate_first: bool,
    /// Whether the reset gate acts after the recurrent product.
    pub reset_after: bool,
    /// What the update gate does with the previous state.
    pub update: Update,
    /// `fz`.
    pub update_gate_activation: Activation,
    /// `fr`.
    pub reset_gate_activation: Activation,
    /// `fo`.
    pub output_gate_activation: Activation,
}

impl GruDescriptor {
    /// Apple's defaults, except for the update rule, on which Apple's pages disagree.
    pub fn new(update: Update) -> Self {
        Self {
            reverse: false,
            bidirectional: false,
            training: false,
            reset_gate_first: false,
            reset_after: false,
            update,
            update_gate_activation: Activation::Sigmoid,
            reset_gate_activation: Activation::Sigmoid,
            output_gate_activation: Activation::Tanh,
        }
    }

    /// D, directions: 1 or 2.
    pub(super) fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// The order of the gates in rows, by [`reset_gate_first`](Self::reset_gate_first).
    pub fn gate_order(&self) -> GateOrder {
        if self.reset_gate_first {
            GateOrder::ResetFirst
        } else {
            GateOrder::UpdateFirst
        }
    }

    /// What a step of the call computes.
    pub fn spec(&self) -> GruSpec {
        let reset = if self.reset_after {
            Reset::AfterMatmul
        } else {
            Reset::BeforeMatmul
        };
        let activations = Activations {
            reset: self.reset_gate_activation,
            update: self.update_gate_activation,
            candidate: self.output_gate_activation,
        };
        let spec = GruSpec::default().with_reset(reset);
        spec.with_update(self.update).with_activations(activations)
    }
}
