//! A training run: settings, windows, learning rates, random numbers.
//!
//! The random numbers of a step depend only on the seed and the step. So a resumed run has the same losses as a run
//! without a break.

use std::{f64::consts::PI, ops::RangeInclusive};

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{Device, Tensor};
use clap::{Parser, builder::RangedU64ValueParser};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};
use web_time::Instant;

use crate::data::{Streams, Text};
use crate::error::Error;
use crate::learner::Learner;
use crate::model::CharGru;

/// Adam divides by a running scale of the gradient, which is not accurate in the first steps.
const WARM_UP_STEPS: f64 = 50.0;
/// The final learning rate as a share of the peak, so that the last epochs still train.
const FINAL_RATE: f64 = 0.05;

/// The arguments of a run that determine its losses.
#[derive(Parser, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Size of an embedding
    #[arg(long, value_name = "E", default_value_t = 128, value_parser = count())]
    pub embed: usize, // dropout removes a part of it: the validation loss is 0.01 nats higher with 64

    /// Units in each GRU layer
    #[arg(long, value_name = "H", default_value_t = 192, value_parser = count())]
    pub hidden: usize,

    /// GRU layers
    #[arg(long, value_name = "L", default_value_t = 1, value_parser = count())]
    pub layers: usize,

    /// Dropout before, between and after the layers
    #[arg(long, value_name = "P", default_value_t = 0.2, value_parser = number(0.0..=0.99))]
    pub dropout: f64,

    /// Passes over the text
    #[arg(long, value_name = "K", default_value_t = 12, value_parser = count())]
    pub epochs: usize,

    /// Number of parallel streams of the text
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = count())]
    pub batch: usize,

    /// Characters per window. Gradients stop at its start, the state is carried
    #[arg(long, value_name = "T", default_value_t = 64, value_parser = count())]
    pub seq: usize,

    /// Peak learning rate of Adam, with a warm-up and a cosine decay
    #[arg(long, value_name = "RATE", default_value_t = 4e-3, value_parser = number(1e-9..=1.0))]
    pub lr: f64,

    /// Seed of parameters, dropout, windows and sample
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
}

/// An integer from 1, with an upper bound, so that a huge size is an argument error and not an allocation failure.
fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=65_536)
}

/// A number in a range.
pub fn number(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|x| range.contains(x));
        number.ok_or_else(|| format!("expected a number in {range:?}"))
    }
}

/// A finished step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// From 1.
    pub step: usize,
    /// From 1.
    pub epoch: usize,
    /// The start of the window in each stream.
    pub offset: usize,
    /// Mean cross-entropy in nats per character.
    pub loss: f32,
    /// Global norm of the gradient before clipping.
    pub gradient_norm: f32,
    /// Of Adam.
    pub learning_rate: f64,
    /// Wall time.
    pub seconds: f64,
}

/// The losses of a run, in nats per character.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// All finished steps.
    pub steps: Vec<Step>,
    /// Finished steps and validation loss at each validation.
    pub validations: Vec<(usize, f64)>,
}

/// A training run.
pub struct Trainer {
    /// The model and its optimizer.
    pub learner: Learner,
    /// The losses so far.
    pub progress: Progress,
    /// The arguments.
    pub settings: Settings,
    /// The data.
    pub text: Text,
}

impl Trainer {
    /// A run on a device. The parameters are drawn on the CPU, so that a seed gives the same model on all devices.
    pub fn new(settings: Settings, text: Text, device: &Device) -> Self {
        let cpu = Device::flex().autodiff();
        cpu.seed(settings.seed);
        let model = CharGru::new(&settings, text.vocabulary.characters().len(), &cpu);
        Self {
            learner: Learner::new(model, device.clone().autodiff()),
            progress: Progress::default(),
            settings,
            text,
        }
    }

    /// The number of steps of the whole run.
    pub fn steps(&self) -> usize {
        self.settings.epochs * self.windows()
    }

    /// The number of steps of an epoch.
    pub fn windows(&self) -> usize {
        (self.text.train.length - self.slack()) / self.settings.seq
    }

    /// Whether the next step starts an epoch.
    pub fn is_between_epochs(&self) -> bool {
        self.progress.steps.len().is_multiple_of(self.windows())
    }

    /// The largest shift of an epoch's first window. The shift moves the places where gradients are cut.
    fn slack(&self) -> usize {
        let seq = self.settings.seq;
        (seq - 1).min(self.text.train.length - seq)
    }

    /// Trains on the next window.
    ///
    /// # Errors
    /// If a device reports an error, or if the loss is not finite.
    pub async fn step(&mut self) -> Result<Step, Error> {
        let start = Instant::now();
        let Settings { seq, lr, seed, .. } = self.settings;
        let done = self.progress.steps.len();
        let (epoch, window) = (done / self.windows(), done % self.windows());
        if window == 0 {
            self.learner.state = None; // the streams start again
        }
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(epoch as u64));
        let offset = rng.random_range(0..=self.slack()) + window * seq;
        let learning_rate = learning_rate(lr, done, self.steps());
        self.learner.device.seed(seed.wrapping_add(done as u64));
        let times = offset..offset + seq;
        let outcome = self.learner.step(&self.text.train, times, learning_rate);
        let outcome = read(outcome).await?;
        let (loss, gradient_norm) = (outcome[0], outcome[1]);
        if !(loss.is_finite() && gradient_norm.is_finite()) {
            return Err(Error::NotFinite("training loss"));
        }
        let step = Step {
            step: done + 1,
            epoch: epoch + 1,
            offset,
            loss,
            gradient_norm,
            learning_rate,
            seconds: start.elapsed().as_secs_f64(),
        };
        self.progress.steps.push(step);
        Ok(step)
    }

    /// Computes the loss on the validation part. Returns whether it is the lowest so far.
    ///
    /// # Errors
    /// If a device reports an error, or if the loss is not finite.
    pub async fn validate(&mut self) -> Result<bool, Error> {
        let device = self.learner.device.clone().inner();
        let (model, seq) = (self.learner.model.valid(), self.settings.seq);
        let loss = evaluate(&model, &self.text.validation, seq, &device).await?;
        let (done, validations) = (self.progress.steps.len(), &mut self.progress.validations);
        let best = validations.iter().all(|&(_, earlier)| loss < earlier);
        validations.push((done, loss));
        Ok(best)
    }
}

/// Linear warm-up to `peak`, then half a cosine down: the rate of a step after `done` of `steps` steps.
fn learning_rate(peak: f64, done: usize, steps: usize) -> f64 {
    let warm_up = ((done + 1) as f64 / WARM_UP_STEPS).min(1.0);
    let cosine = (1.0 + (PI * done as f64 / steps as f64).cos()) / 2.0;
    peak * warm_up * (FINAL_RATE + (1.0 - FINAL_RATE) * cosine)
}

/// Mean loss of `model` in nats per character. The state is carried through the streams.
///
/// # Errors
/// If the device reports an error, or if the loss is not finite.
pub async fn evaluate(
    model: &CharGru,
    streams: &Streams,
    seq: usize,
    device: &Device,
) -> Result<f64, Error> {
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    let (mut state, mut sum) = (None, 0.0);
    for start in (0..streams.length).step_by(seq) {
        let times = start..streams.length.min(start + seq);
        let characters = times.len() as f64;
        let (inputs, targets) = streams.window(times, device);
        let (scores, next) = model.forward(inputs, state);
        state = Some(next);
        let loss = read(cross_entropy.forward(scores, targets)).await?;
        sum += f64::from(loss[0]) * characters;
    }
    let loss = sum / streams.length as f64;
    loss.is_finite()
        .then_some(loss)
        .ok_or(Error::NotFinite("loss"))
}

/// Reads values from a device.
pub(crate) async fn read<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, Error> {
    let data = tensor.into_data_async().await.map_err(Error::device)?;
    Ok(data.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::read_sync;

    #[test]
    fn a_model_without_numbers_is_never_the_best() {
        let text = Text::new(&"abcd ".repeat(40), 2, 8).unwrap();
        let settings =
            Settings::parse_from("char-gru --embed=4 --hidden=6 --batch=2 --seq=8".split(' '));
        let mut trainer = Trainer::new(settings, text, &Device::flex());
        let weight = &mut trainer.learner.model.head.weight;
        *weight = weight.clone().map(|weight| weight * f32::NAN);
        let validated = read_sync(trainer.validate());
        assert!(matches!(validated, Err(Error::NotFinite(_))));
        let step = read_sync(trainer.step());
        assert!(matches!(step, Err(Error::NotFinite(_))));
    }
}
