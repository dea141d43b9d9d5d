//! The model: weights that are ready to run, shared by all channels.

use std::sync::Arc;

use gru_cpu::spec::{Activations, GruSpec, Precision, Reset, Update};
use gru_cpu::{Stack, StackLayer};

use crate::weights::{Dense, Gru, Weights};

/// The layers of the network, with prepared weights of the GRUs.
pub struct Model {
    pub(crate) input: Dense,
    pub(crate) voice_gru: Arc<Stack>,
    pub(crate) noise_gru: Arc<Stack>,
    pub(crate) gain_gru: Arc<Stack>,
    pub(crate) gains: Dense,
    pub(crate) voice: Dense,
    /// Number of inputs of the noise GRU and of the gain GRU.
    pub(crate) widths: [usize; 2],
}

impl Model {
    /// The model with the published weights.
    pub fn published() -> Self {
        let weights = Weights::published();
        Self {
            widths: [weights.noise_gru.inputs, weights.gain_gru.inputs],
            input: weights.input,
            voice_gru: stack(&weights.voice_gru),
            noise_gru: stack(&weights.noise_gru),
            gain_gru: stack(&weights.gain_gru),
            gains: weights.gains,
            voice: weights.voice,
        }
    }

    /// The GRUs in execution order.
    pub fn grus(&self) -> [&Arc<Stack>; 3] {
        [&self.voice_gru, &self.noise_gru, &self.gain_gru]
    }
}

/// The conventions of RNNoise's GRUs.
fn spec(gru: &Gru) -> GruSpec {
    GruSpec::default()
        .with_reset(Reset::BeforeMatmul)
        .with_update(Update::Keeps)
        .with_activations(Activations {
            candidate: gru.activation,
            ..Activations::default()
        })
}

fn stack(gru: &Gru) -> Arc<Stack> {
    let layer = StackLayer {
        spec: spec(gru),
        ..StackLayer::new(gru_cpu::Weights {
            b_ih: Some(&gru.bias),
            ..gru_cpu::Weights::new(Some(&gru.w_ih), &gru.w_hh)
        })
    };
    let sizes = [gru.inputs, gru.units];
    Arc::new(Stack::new(Precision::Full, sizes, 1, &[layer]))
}
