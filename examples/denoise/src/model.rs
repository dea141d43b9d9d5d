//! The model: weights that are ready to run, shared by all channels.

use std::sync::Arc;

use gru_cpu::PackedWeights;
use gru_cpu::spec::{Activations, GruSpec, Reset, Update};

use crate::weights::{Dense, Gru, Weights};

/// The layers of the network, with packed weights of the GRUs.
pub struct Model {
    pub(crate) input: Dense,
    pub(crate) voice_gru: Arc<PackedWeights<f32>>,
    pub(crate) noise_gru: Arc<PackedWeights<f32>>,
    pub(crate) gain_gru: Arc<PackedWeights<f32>>,
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
            voice_gru: pack(&weights.voice_gru),
            noise_gru: pack(&weights.noise_gru),
            gain_gru: pack(&weights.gain_gru),
            gains: weights.gains,
            voice: weights.voice,
        }
    }

    /// The GRUs in execution order.
    pub fn grus(&self) -> [&Arc<PackedWeights<f32>>; 3] {
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

fn pack(gru: &Gru) -> Arc<PackedWeights<f32>> {
    Arc::new(PackedWeights::new(
        &spec(gru),
        gru.inputs,
        gru.units,
        gru_cpu::Weights {
            b_ih: Some(&gru.bias),
            ..gru_cpu::Weights::new(Some(&gru.w_ih), &gru.w_hh)
        },
    ))
}
