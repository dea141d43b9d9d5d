//! One step of training: forward, backward, clip, Adam.

use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};

use crate::clip::clip_norm;
use crate::data::Window;
use crate::model::CharGru;

/// What is learnt, and how.
pub struct Learner {
    pub model: CharGru,
    pub optimizer: ModuleOptimizer,
    /// The state behind the last window, without its graph; zeros before the first.
    pub state: Option<Tensor<3>>,
    cross_entropy: CrossEntropyLoss,
    max_norm: f64,
}

/// Two numbers of a step, still on the device.
pub struct Outcome {
    /// Mean cross-entropy in nats per character.
    pub loss: Tensor<1>,
    /// Norm of the whole gradient, before it was clipped.
    pub gradient_norm: Tensor<1>,
}

/// Adam as everybody has it: betas 0.9 and 0.999, epsilon 1e-8, no weight decay.
pub fn adam() -> ModuleOptimizer {
    AdamConfig::new().with_epsilon(1e-8).init()
}

impl Learner {
    /// Learns `model` on `device`; gradients are clipped to `max_norm`.
    pub fn new(model: CharGru, max_norm: f64, device: &Device) -> Self {
        Self {
            model,
            optimizer: adam(),
            state: None,
            cross_entropy: CrossEntropyLossConfig::new().init(device),
            max_norm,
        }
    }

    /// Learns a window that continues the one before: the state flows on, gradients stop at the
    /// window's start.
    pub fn step(&mut self, window: &Window, rate: f64, device: &Device) -> Outcome {
        let (logits, next) = self.model.forward(window.inputs(device), self.state.take());
        self.state = Some(next.detach());
        let loss = self.cross_entropy.forward(logits, window.targets(device));
        let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
        let (gradients, gradient_norm) = clip_norm(&self.model, gradients, self.max_norm);
        self.model = self.optimizer.step(rate, self.model.clone(), gradients);
        Outcome {
            loss,
            gradient_norm,
        }
    }
}
