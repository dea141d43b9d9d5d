//! A training run, step by step: which window, at which rate, with which random numbers.
//!
//! What a step draws is a number of the seed and the step alone. So a run that was stopped goes on
//! as if it had not been, and the same run in another program finds the same losses.

use burn::module::Module;
use burn::tensor::Device;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::data::{Corpus, Streams, Windows};
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
    /// N, the parallel streams that the text is cut into.
    pub batch: usize,
    /// T, the characters of a window.
    pub seq: usize,
    /// Peak learning rate.
    pub rate: f64,
    /// Largest norm of the whole gradient.
    pub clip: f64,
    /// Fixes dropout and windows.
    pub seed: u64,
}

/// Where a run is. The random numbers of a step depend on the seed and the step alone, so these are
/// their state too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Steps made.
    pub step: usize,
    /// Passes over the text that are finished.
    pub epoch: usize,
    /// Windows of this pass that were read.
    pub window: usize,
    /// Nats and characters since the last validation.
    pub loss_sum: f64,
    pub characters: usize,
    /// The best validation so far, and its step.
    pub best: Option<(f64, usize)>,
    /// Validations since then.
    pub since_best: usize,
    /// Step, training loss, validation loss of every validation.
    pub history: Vec<(usize, f64, f64)>,
}

/// A step that was made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Which one it was, from 1 on.
    pub step: usize,
    /// The pass over the text that it belongs to, from 1 on.
    pub epoch: usize,
    /// Whether it was the last one of the pass.
    pub ends_epoch: bool,
    /// Where the window begins in each stream.
    pub offset: usize,
    /// Characters learnt from, N·T.
    pub characters: usize,
    /// Mean cross-entropy in nats per character.
    pub loss: f32,
    /// Norm of the whole gradient, before it was clipped.
    pub gradient_norm: f32,
    pub learning_rate: f64,
}

/// What a validation found, in nats per character.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Validation {
    /// Since the last one.
    pub training: f64,
    pub validation: f64,
    /// Whether none was better.
    pub best: bool,
}

/// A training run.
pub struct Trainer {
    pub learner: Learner,
    pub progress: Progress,
    settings: Settings,
    streams: Streams,
    judges: Streams,
    /// For inference.
    device: Device,
    /// What is left of this pass; none before its first step.
    pass: Option<Pass>,
}

/// A pass over the text.
struct Pass {
    windows: Windows,
    /// Where its first window begins in each stream.
    shift: usize,
}

impl Trainer {
    /// Trains `model` on `corpus`, whose windows are of `settings.seq` characters. The model is on the
    /// first of `devices`, which record gradients.
    pub fn new(settings: Settings, corpus: &Corpus, model: CharGru, devices: &[Device]) -> Self {
        Self {
            learner: Learner::new(model, settings.clip, devices),
            progress: Progress::default(),
            streams: corpus.train_streams(settings.batch, settings.seq),
            judges: corpus.validation_streams(settings.batch),
            device: devices[0].clone().inner(),
            settings,
            pass: None,
        }
    }

    /// N: fewer than asked for where the text is short.
    pub fn rows(&self) -> usize {
        self.streams.count()
    }

    /// Steps of the whole run.
    pub fn steps(&self) -> usize {
        self.settings.epochs * self.windows_of_pass()
    }

    fn windows_of_pass(&self) -> usize {
        self.streams.full_windows(self.settings.seq)
    }

    /// Learns the next window.
    pub async fn step(&mut self) -> Result<Step, Error> {
        let Settings {
            seq, seed, rate, ..
        } = self.settings;
        let at = &self.progress;
        let pass = match &mut self.pass {
            Some(pass) => pass,
            none => {
                let shift = shift(seed, at.epoch, self.streams.slack(seq));
                let windows = self.streams.read(seq, shift + at.window * seq)?;
                none.insert(Pass { windows, shift })
            }
        };
        let window = pass.windows.read()?.ok_or(Error::TextChanged)?;
        let offset = pass.shift + at.window * seq;
        let golden = 0x9e37_79b9_7f4a_7c15; // spreads the steps over all seeds
        self.learner
            .seed(seed ^ (at.step as u64 + 1).wrapping_mul(golden));
        let rate = learning_rate(rate, at.step, self.steps());
        let outcome = self.learner.step(&window, rate)?;

        let windows_of_pass = self.windows_of_pass();
        let at = &mut self.progress;
        at.step += 1;
        at.window += 1;
        let loss = read(outcome.loss).await?;
        if !loss.is_finite() {
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
            gradient_norm: read(outcome.gradient_norm).await?,
            learning_rate: rate,
        };
        if made.ends_epoch {
            at.epoch += 1;
            at.window = 0;
            self.pass = None;
            self.learner.set_state(None); // the streams begin anew
        }
        Ok(made)
    }

    /// Judges the model by the text that is kept for it.
    pub async fn validate(&mut self) -> Result<Validation, Error> {
        let model = self.learner.model.valid();
        let validation = evaluate(&model, &self.judges, self.settings.seq, &self.device).await?;
        let at = &mut self.progress;
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

/// Where the windows of a pass begin: a number of the seed and the pass alone.
fn shift(seed: u64, epoch: usize, slack: usize) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut shift = 0;
    for _ in 0..=epoch {
        shift = rng.random_range(0..=slack);
    }
    shift
}
