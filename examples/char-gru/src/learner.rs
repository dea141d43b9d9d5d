//! One training step: forward, backward, clipping, Adam.

use std::ops::Range;

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};

use crate::clip::clip_norm;
use crate::data::Streams;
use crate::model::CharGru;

/// Maximum global norm of the gradient. Recurrent gradients sometimes spike.
const MAX_NORM: f64 = 1.0;

/// A model in training.
pub struct Learner {
    /// The parameters.
    pub model: CharGru,
    /// Adam with PyTorch's defaults.
    pub optimizer: ModuleOptimizer,
    /// With autodiff.
    pub device: Device,
    /// The state `[L,N,H]` after the last window, if there was one.
    pub state: Option<Tensor<3>>,
}

impl Learner {
    /// Trains `model` on a device that supports autodiff.
    pub fn new(model: CharGru, device: Device) -> Self {
        Self {
            model: model.fork(&device),
            optimizer: AdamConfig::new().with_epsilon(1e-8).init(),
            device,
            state: None,
        }
    }

    /// Trains on a window that continues the previous one: the state is carried, and gradients stop at its start.
    /// Returns two values: the mean cross-entropy in nats per character, and the norm of the gradient before clipping.
    pub fn step(
        &mut self,
        streams: &Streams,
        times: Range<usize>,
        learning_rate: f64,
    ) -> Tensor<1> {
        let (inputs, targets) = streams.window(times, &self.device);
        let (scores, state) = self.model.forward(inputs, self.state.take());
        self.state = Some(state.detach());
        let loss = CrossEntropyLossConfig::new().init(&self.device);
        let loss = loss.forward(scores, targets);
        let value = loss.clone().inner();
        let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
        let (gradients, norm) = clip_norm(&self.model, gradients, MAX_NORM);
        self.model = self
            .optimizer
            .step(learning_rate, self.model.clone(), gradients);
        Tensor::cat(vec![value, norm], 0)
    }
}
