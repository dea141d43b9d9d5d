//! One training step: forward, backward, clip, Adam.
//!
//! With several devices, the rows of a window are divided among them. The first device has the
//! parameters and the optimizer. The other devices get copies and return gradients.

use std::ops::Range;

use burn::module::Module;
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::optim::{AdamConfig, GradientsAccumulator, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};

use crate::clip::clip_norm;
use crate::data::Window;
use crate::error::Error;
use crate::model::CharGru;

/// A model in training.
pub struct Learner {
    pub model: CharGru,
    pub optimizer: ModuleOptimizer,
    workers: Vec<Worker>,
    max_norm: f64,
}

/// A device, and its state from window to window.
struct Worker {
    device: Device,
    cross_entropy: CrossEntropyLoss,
    /// The state of its rows after the last window, without its graph. Zeros before the first window.
    state: Option<Tensor<3>>,
}

/// Two results of a step, still on the device.
pub struct Outcome {
    /// Mean cross-entropy in nats per character.
    pub loss: Tensor<1>,
    /// Global norm of the gradient before clipping.
    pub gradient_norm: Tensor<1>,
}

/// Adam with the usual settings: betas 0.9 and 0.999, epsilon 1e-8, no weight decay.
pub fn adam() -> ModuleOptimizer {
    AdamConfig::new().with_epsilon(1e-8).init()
}

impl Learner {
    /// Trains `model`, which is on the first of `devices`. Gradients are clipped to `max_norm`.
    pub fn new(model: CharGru, max_norm: f64, devices: &[Device]) -> Self {
        let worker = |device: &Device| Worker {
            device: device.clone(),
            cross_entropy: CrossEntropyLossConfig::new().init(device),
            state: None,
        };
        Self {
            model,
            optimizer: adam(),
            workers: devices.iter().map(worker).collect(),
            max_norm,
        }
    }

    /// Trains on a window that continues the previous window: the state is carried, and gradients stop
    /// at the start of the window.
    ///
    /// # Errors
    /// If a device reports an error.
    pub fn step(&mut self, window: &Window, rate: f64) -> Result<Outcome, Error> {
        let (loss, gradients) = self.gradients(window)?;
        let (gradients, gradient_norm) = clip_norm(&self.model, gradients, self.max_norm);
        self.model = self.optimizer.step(rate, self.model.clone(), gradients);
        Ok(Outcome {
            loss,
            gradient_norm,
        })
    }

    /// The loss of a window and its gradient, on the first device.
    fn gradients(&mut self, window: &Window) -> Result<(Tensor<1>, GradientsParams), Error> {
        let parts = cut(window.count(), self.workers.len());
        let (model, workers) = (&self.model, &mut self.workers);
        // Each device answers in order, so all copies are requested before any long work, and all
        // gradients after it.
        let copies: Vec<CharGru> = workers
            .iter()
            .enumerate()
            .map(|(k, worker)| match k {
                0 => model.clone(),
                _ => model.clone().fork(&worker.device),
            })
            .collect();
        let learnt = workers
            .iter_mut()
            .zip(&copies)
            .zip(parts)
            .filter(|(_, rows)| !rows.is_empty())
            .map(|((worker, copy), rows)| {
                let share = rows.len() as f64 / window.count() as f64;
                worker.learn(copy, &window.rows(rows), share)
            })
            .collect::<Result<Vec<_>, Error>>()?;

        let first = &workers[0].device;
        let mut gradients = GradientsAccumulator::new();
        let mut loss: Option<Tensor<1>> = None;
        for (part_of_loss, of_part) in learnt {
            gradients.accumulate(model, of_part.to_device(first, model));
            let part_of_loss = part_of_loss.to_device(&first.clone().inner());
            loss = Some(match loss {
                Some(loss) => loss + part_of_loss,
                None => part_of_loss,
            });
        }
        Ok((loss.expect("a window has rows"), gradients.grads()))
    }

    /// Seeds the random numbers of the next step.
    pub fn seed(&self, seed: u64) {
        for (k, worker) in (0..).zip(&self.workers) {
            worker.device.seed(seed.wrapping_add(k << 32));
        }
    }

    /// The state of all rows, `[L, N, H]`, or none before the first window.
    pub fn state(&self) -> Option<Tensor<3>> {
        let states = self
            .workers
            .iter()
            .filter_map(|worker| worker.state.clone());
        let states: Vec<_> = states
            .map(|state| state.to_device(&self.workers[0].device))
            .collect();
        (!states.is_empty()).then(|| Tensor::cat(states, 1))
    }

    /// Continues from the state of all rows, or from none.
    pub fn set_state(&mut self, state: Option<Tensor<3>>) {
        let rows = state.as_ref().map_or(0, |state| state.dims()[1]);
        let parts = cut(rows, self.workers.len());
        for (worker, rows) in self.workers.iter_mut().zip(parts) {
            let state = state.clone().filter(|_| !rows.is_empty());
            worker.state = state.map(|state| state.narrow(1, rows.start, rows.len()));
            worker.state = worker.state.take().map(|s| s.to_device(&worker.device));
        }
    }
}

impl Worker {
    /// The loss and the gradient of this worker's rows.
    fn learn(
        &mut self,
        model: &CharGru,
        rows: &Window,
        share: f64,
    ) -> Result<(Tensor<1>, GradientsParams), Error> {
        let (logits, next) = model.forward(rows.inputs(&self.device), self.state.take());
        self.state = Some(next.detach());
        let loss = self
            .cross_entropy
            .forward(logits, rows.targets(&self.device));
        let loss = if share == 1.0 { loss } else { loss * share };
        let gradients = GradientsParams::from_grads(loss.backward(), model);
        // Starts the work now instead of on the first read, so that the devices work at the same time.
        let flushed = self.device.flush();
        flushed.map_err(Error::device)?;
        Ok((loss.inner(), gradients))
    }
}

/// Divides the rows into equal parts. With too few rows, some parts are empty, but never the first.
fn cut(rows: usize, parts: usize) -> Vec<Range<usize>> {
    let start = |part: usize| (part * rows).div_ceil(parts);
    (0..parts).map(|k| start(k)..start(k + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CharGruConfig;
    use burn::module::{ModuleVisitor, Param};
    use burn::tensor::{TensorData, Tolerance};

    const V: usize = 11;
    const N: usize = 5;
    const T: usize = 7;

    /// A different token in every place.
    fn window(k: usize) -> Window {
        let token = |place: usize| ((place * place + 3 * place + k) % V) as i32;
        let tokens = |from: usize| (from..from + N * T).map(token).collect();
        Window::new(tokens(0), tokens(1), N, T)
    }

    struct Collect<'a> {
        gradients: &'a GradientsParams,
        found: Vec<TensorData>,
    }

    impl ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = self.gradients.get::<D>(param.id);
            let gradient = gradient.expect("every parameter has a gradient");
            self.found.push(gradient.into_data());
        }
    }

    /// Losses, gradients and the final state of two consecutive windows.
    fn learnt(model: &CharGru, devices: &[Device]) -> Vec<TensorData> {
        let mut learner = Learner::new(model.clone(), 1.0, devices);
        let mut all = Vec::new();
        for k in 0..2 {
            let (loss, gradients) = learner.gradients(&window(k)).unwrap();
            let mut of_all = Collect {
                gradients: &gradients,
                found: vec![loss.into_data()],
            };
            learner.model.visit(&mut of_all);
            all.append(&mut of_all.found);
        }
        all.push(learner.state().unwrap().into_data());
        all
    }

    /// Includes more devices than rows.
    #[test]
    fn several_devices_find_the_gradient_of_one() {
        let _alone = crate::drawing();
        let device = Device::flex().autodiff();
        let model = CharGruConfig::new(V, 4, 6, 2, 0.0).init(&device);
        let of_one = learnt(&model, std::slice::from_ref(&device));
        assert_eq!(of_one.len(), 2 * (1 + 1 + 8 + 2) + 1);
        for count in [2, 3, N, N + 2] {
            let of_several = learnt(&model, &vec![device.clone(); count]);
            for (several, one) in of_several.iter().zip(&of_one) {
                several.assert_approx_eq::<f32>(one, Tolerance::rel_abs(1e-5, 1e-7));
            }
        }
    }

    #[test]
    fn a_state_goes_from_few_devices_to_many_and_back() {
        let _alone = crate::drawing();
        let device = Device::flex().autodiff();
        let model = CharGruConfig::new(V, 4, 6, 2, 0.0).init(&device);
        let state = Tensor::<3>::random([2, N, 6], burn::tensor::Distribution::Default, &device);
        for count in [1, 2, 4, N + 1] {
            let mut learner = Learner::new(model.clone(), 1.0, &vec![device.clone(); count]);
            assert!(learner.state().is_none());
            learner.set_state(Some(state.clone()));
            assert_eq!(
                learner.state().unwrap().into_data(),
                state.clone().into_data()
            );
            learner.set_state(None);
            assert!(learner.state().is_none());
        }
    }

    #[test]
    fn every_row_is_in_one_part() {
        for (rows, parts) in [(5, 2), (16, 3), (2, 4), (0, 3), (7, 1)] {
            let cut = cut(rows, parts);
            assert_eq!(cut.len(), parts);
            assert!(cut.iter().cloned().flatten().eq(0..rows), "{cut:?}");
            assert!(rows == 0 || !cut[0].is_empty(), "{cut:?}");
            let lengths = || cut.iter().map(ExactSizeIterator::len);
            assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1);
        }
    }
}
