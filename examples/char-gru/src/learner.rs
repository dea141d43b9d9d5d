//! One training step: forward, backward, clipping, Adam.
//!
//! With several devices, each device reads some of the rows. The first device has the parameters and the optimizer. In
//! each step, the others get copies of the parameters and return gradients.

use std::{mem, ops::Range};

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsAccumulator, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};

use crate::clip::clip_norm;
use crate::data::Streams;
use crate::error::Error;
use crate::model::CharGru;

/// Maximum global norm of the gradient. Recurrent gradients sometimes spike.
const MAX_NORM: f64 = 1.0;

/// A model in training.
pub struct Learner {
    /// On the first device.
    pub model: CharGru,
    /// Adam with PyTorch's defaults.
    pub optimizer: ModuleOptimizer,
    /// Each computes some of the rows.
    pub devices: Vec<Device>,
    /// The state `[L, rows, H]` on each device after the last window, or empty before the first window.
    pub states: Vec<Tensor<3>>,
}

impl Learner {
    /// Trains `model` on `devices`, which must support autodiff.
    pub fn new(model: CharGru, devices: Vec<Device>) -> Self {
        Self {
            model: model.fork(&devices[0]),
            optimizer: AdamConfig::new().with_epsilon(1e-8).init(),
            devices,
            states: Vec::new(),
        }
    }

    /// Trains on a window that continues the previous one: the state is carried, and gradients stop at its start.
    /// Returns two values: the mean cross-entropy in nats per character, and the norm of the gradient before clipping.
    ///
    /// # Errors
    /// If a device reports an error.
    pub fn step(
        &mut self,
        streams: &Streams,
        times: Range<usize>,
        learning_rate: f64,
    ) -> Result<Tensor<1>, Error> {
        let count = streams.count;
        let rows = count.div_ceil(self.devices.len());
        let mut states = mem::take(&mut self.states).into_iter();
        let mut parts = Vec::new();
        for (device, start) in self.devices.iter().zip((0..count).step_by(rows)) {
            let rows = start..count.min(start + rows);
            let share = rows.len() as f64 / count as f64;
            let model = self.model.clone().fork(device);
            let (inputs, targets) = streams.window(rows, times.clone(), device);
            let (scores, state) = model.forward(inputs, states.next());
            self.states.push(state.detach());
            let loss = CrossEntropyLossConfig::new().init(device);
            let loss = loss.forward(scores, targets) * share;
            let value = loss.clone().inner();
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            parts.push((value, gradients));
            // Starts the work now, so that all devices work at the same time.
            device.flush().map_err(Error::device)?;
        }

        let home = &self.devices[0];
        let mut sum = GradientsAccumulator::new();
        let mut losses = Vec::new();
        for (loss, gradients) in parts {
            losses.push(loss.to_device(&home.clone().inner()));
            sum.accumulate(&self.model, gradients.to_device(home, &self.model));
        }
        let model = self.model.clone();
        let (gradients, norm) = clip_norm(&model, sum.grads(), MAX_NORM);
        self.model = self.optimizer.step(learning_rate, model, gradients);
        let loss = Tensor::cat(losses, 0).sum();
        Ok(Tensor::cat(vec![loss, norm], 0))
    }

    /// Continues from a state `[L, N, H]`.
    pub fn set_state(&mut self, state: Tensor<3>) {
        let rows = state.dims()[1].div_ceil(self.devices.len());
        let parts = state.split(rows, 1).into_iter().zip(&self.devices);
        self.states = parts.map(|(part, device)| part.to_device(device)).collect();
    }

    /// Sets the random numbers of the next step.
    pub fn seed(&self, seed: u64) {
        for (k, device) in (0..).zip(&self.devices) {
            device.seed(seed.wrapping_add(k << 32));
        }
    }
}
