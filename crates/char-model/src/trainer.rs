//! A training run step by step: windows, learning rates and random numbers.
//!
//! The random numbers of a step depend only on the seed and the step. So a stopped run continues without
//! any difference, and another program with the same settings gets the same losses.

use burn::module::Module;
use burn::tensor::Device;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::data::{Corpus, Streams};
use crate::error::Error;
use crate::evaluate::{evaluate, read};
use crate::model::CharGru;
use crate::schedule::learning_rate;
use crate::step::Learner;

/// How a model is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Passes over the text.
    pub epochs: usize,
    /// N, the number of parallel streams of the text.
    pub batch: usize,
    /// T, the number of characters per window.
    pub seq: usize,
    /// Peak learning rate.
    pub rate: f64,
    /// Maximum global norm of the gradient.
    pub clip: f64,
    /// Seed of dropout and windows.
    pub seed: u64,
}

/// The position of a run. The random numbers of a step depend only on the seed and the step, so the
/// position includes their state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Finished steps.
    pub step: usize,
    /// Finished passes over the text.
    pub epoch: usize,
    /// Windows of this pass that were read.
    pub window: usize,
    /// Nats and characters since the last validation.
    pub loss_sum: f64,
    pub characters: usize,
    /// The lowest validation loss so far, and its step.
    pub best: Option<(f64, usize)>,
    /// Validations since then.
    pub since_best: usize,
    /// Step, training loss, validation loss of every validation.
    pub history: Vec<(usize, f64, f64)>,
}

/// A finished step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Its number, from 1.
    pub step: usize,
    /// Its pass over the text, from 1.
    pub epoch: usize,
    /// Whether it was the last step of the pass.
    pub ends_epoch: bool,
    /// The start of the window in each stream.
    pub offset: usize,
    /// Characters in the window, N·T.
    pub characters: usize,
    /// Mean cross-entropy in nats per character.
    pub loss: f32,
    /// Global norm of the gradient before clipping.
    pub gradient_norm: f32,
    pub learning_rate: f64,
}

/// The result of a validation, in nats per character.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Validation {
    /// Training loss since the last validation.
    pub training: f64,
    pub validation: f64,
    /// Whether this is the lowest validation loss so far.
    pub best: bool,
}

/// A training run.
pub struct Trainer {
    pub learner: Learner,
    pub progress: Progress,
    settings: Settings,
    streams: Streams,
    judges: Streams,
    /// A copy for inference.
    device: Device,
}

impl Trainer {
    /// Trains `model` on `corpus` with windows of `settings.seq` characters. The model is on the first
    /// of `devices`, which must support autodiff.
    pub fn new(settings: Settings, corpus: &Corpus, model: CharGru, devices: &[Device]) -> Self {
        Self {
            learner: Learner::new(model, settings.clip, devices),
            progress: Progress::default(),
            streams: corpus.train_streams(settings.batch, settings.seq),
            judges: corpus.validation_streams(settings.batch),
            device: devices[0].clone().inner(),
            settings,
        }
    }

    /// N, smaller than requested if the text is short.
    pub fn rows(&self) -> usize {
        self.streams.count()
    }

    /// The number of steps of the whole run.
    pub fn steps(&self) -> usize {
        self.settings.epochs * self.windows_of_pass()
    }

    /// Whether a run with these settings can be at `progress`.
    pub fn can_be_at(&self, progress: &Progress) -> bool {
        let windows = self.windows_of_pass();
        let before = progress.epoch.checked_mul(windows);
        let step = before.and_then(|before| before.checked_add(progress.window));
        progress.window < windows && step == Some(progress.step)
    }

    fn windows_of_pass(&self) -> usize {
        self.streams.full_windows(self.settings.seq)
    }

    /// Trains on the next window.
    pub async fn step(&mut self) -> Result<Step, Error> {
        let Settings {
            seq, seed, rate, ..
        } = self.settings;
        let at = &self.progress;
        let offset = shift(seed, at.epoch, self.streams.slack(seq)) + at.window * seq;
        let window = self.streams.window(offset, seq);
        let golden = 0x9e37_79b9_7f4a_7c15; // distributes the steps over all seeds
        self.learner
            .seed(seed ^ (at.step as u64 + 1).wrapping_mul(golden));
        let rate = learning_rate(rate, at.step, self.steps());
        let outcome = self.learner.step(&window, rate)?;

        let windows_of_pass = self.windows_of_pass();
        let at = &mut self.progress;
        at.step += 1;
        at.window += 1;
        let loss = read(outcome.loss).await?;
        let gradient_norm = read(outcome.gradient_norm).await?;
        if !(loss.is_finite() && gradient_norm.is_finite()) {
            let step = at.step;
            return Err(Error::Diverged { step, loss });
        }
        at.loss_sum += f64::from(loss) * window.len() as f64;
        at.characters += window.len();
        let made = Step {
            step: at.step,
            epoch: at.epoch + 1,
            ends_epoch: at.window == windows_of_pass,
            offset,
            characters: window.len(),
            loss,
            gradient_norm,
            learning_rate: rate,
        };
        if made.ends_epoch {
            at.epoch += 1;
            at.window = 0;
            self.learner.set_state(None); // the streams start again
        }
        Ok(made)
    }

    /// Computes the loss on the validation part. The last update may have made the parameters infinite or NaN, which is
    /// an error.
    pub async fn validate(&mut self) -> Result<Validation, Error> {
        let model = self.learner.model.valid();
        let validation = evaluate(&model, &self.judges, self.settings.seq, &self.device).await?;
        let at = &mut self.progress;
        if !validation.is_finite() {
            let (step, loss) = (at.step, validation as f32);
            return Err(Error::Diverged { step, loss });
        }
        let training = at.loss_sum / at.characters.max(1) as f64;
        (at.loss_sum, at.characters) = (0.0, 0);
        at.history.push((at.step, training, validation));
        let best = at.best.is_none_or(|(best, _)| validation < best);
        at.since_best += 1;
        if best {
            at.best = Some((validation, at.step));
            at.since_best = 0;
        }
        Ok(Validation {
            training,
            validation,
            best,
        })
    }
}

/// The start of a pass's windows. It depends only on the seed and the pass.
fn shift(seed: u64, epoch: usize, slack: usize) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut shift = 0;
    for _ in 0..=epoch {
        shift = rng.random_range(0..=slack);
    }
    shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CharGruConfig;
    use burn::module::{ModuleMapper, Param};
    use burn::tensor::{Tensor, read_sync};

    /// Parameters after an update that diverged.
    struct NotNumbers;

    impl ModuleMapper for NotNumbers {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|tensor| tensor * f32::NAN)
        }
    }

    #[test]
    fn a_model_without_numbers_is_never_the_best() {
        let device = Device::flex().autodiff();
        let corpus = Corpus::new(&"abcd ".repeat(40), 0.1, 8).unwrap();
        let model = CharGruConfig::new(5, 3, 4, 1, 0.0).init(&device);
        let settings = Settings {
            epochs: 1,
            batch: 2,
            seq: 8,
            rate: 0.01,
            clip: 1.0,
            seed: 1,
        };
        let mut trainer = Trainer::new(settings, &corpus, model.map(&mut NotNumbers), &[device]);
        let validated = read_sync(trainer.validate());
        assert!(matches!(validated, Err(Error::Diverged { .. })));
        assert_eq!(trainer.progress, Progress::default());
    }
}
