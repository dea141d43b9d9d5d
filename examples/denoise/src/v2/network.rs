//! RNNoise 0.2's network. Convolutions read the frames `t−2`, `t−1`, `t`.
//!
//! ```text
//! c = tanh(conv1(features))      128
//! x = tanh(conv2(c))             384
//! a = GRU(x), b = GRU(a), d = GRU(b)
//! gains = σ(dense(x, a, b, d))    32
//! voice = σ(dense(x, a, b, d))     1
//! ```

use std::sync::Arc;

use gru_cpu::StackStream;

use super::bands::BANDS;
use super::model::{FIRST, FRAMES, Model};
use super::{FEATURES, UNITS};
use crate::denoiser::Gains;

/// The states of one channel. A frame allocates nothing.
pub struct Network {
    model: Arc<Model>,
    grus: StackStream,
    /// The features of the last frames, the oldest first.
    features: [f32; FRAMES * FEATURES],
    /// The outputs of the first convolution.
    first: [f32; FRAMES * FIRST],
    /// The output of the second convolution and the states of the GRUs.
    all: Box<[f32; 4 * UNITS]>,
}

impl Network {
    /// A network with zero states.
    pub fn new(model: &Arc<Model>) -> Self {
        Self {
            grus: StackStream::new(model.grus.clone(), 1),
            model: model.clone(),
            features: [0.0; FRAMES * FEATURES],
            first: [0.0; FRAMES * FIRST],
            all: Box::new([0.0; 4 * UNITS]),
        }
    }
}

impl Gains<FEATURES, BANDS> for Network {
    fn frame(&mut self, features: &[f32; FEATURES], gains: &mut [f32; BANDS]) -> f32 {
        let model = &self.model;
        self.features.copy_within(FEATURES.., 0);
        self.features[(FRAMES - 1) * FEATURES..].copy_from_slice(features);
        self.first.copy_within(FIRST.., 0);
        model
            .conv1
            .apply(&self.features, &mut self.first[(FRAMES - 1) * FIRST..]);
        let (x, states) = self.all.split_at_mut(UNITS);
        model.conv2.apply(&self.first, x);
        self.grus.step(x);
        states.copy_from_slice(self.grus.state());
        model.gains.apply(&self.all[..], gains);
        let mut voice = [0.0];
        model.voice.apply(&self.all[..], &mut voice);
        voice[0]
    }
}
