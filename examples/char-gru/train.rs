//! The training loop, top to bottom.

use std::f64::consts::{LN_2, PI};
use std::time::Instant;

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::Device;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::checkpoint;
use crate::clip::clip_norm;
use crate::config::Config;
use crate::data::{Corpus, Streams};
use crate::error::Error;
use crate::model::{CharGru, CharGruConfig};
use crate::progress::{Log, Progress, Step, say};

/// Adam divides by a running scale of the gradient before it has seen many.
const WARM_UP_STEPS: usize = 50;
/// The cosine ends here, as a part of the peak: the last epochs still learn something.
const FINAL_RATE: f64 = 0.05;

/// The model of the epoch that validated best, for inference.
pub struct Trained {
    pub model: CharGru,
    pub epoch: usize,
    pub validation: f64,
}

/// Train a model of `sizes` on `corpus`.
pub fn train(
    config: &Config,
    sizes: &CharGruConfig,
    corpus: &Corpus,
    device: &Device,
) -> Result<Trained, Error> {
    let training = device.clone().autodiff();
    training.seed(config.seed);
    let mut model = sizes.init(&training);
    if let Some(path) = &config.init {
        model = checkpoint::load(model, sizes, &corpus.vocabulary, path)?;
    }
    if let Some(path) = &config.save_init {
        checkpoint::save(&model, sizes, &corpus.vocabulary, path)?;
    }
    let mut log = Log::create(config.log.as_deref())?;

    let streams = corpus.train_streams(config.batch, config.seq);
    if streams.count() < config.batch {
        say(&format!(
            "The text is short: {} streams instead of {}.",
            streams.count(),
            config.batch
        ));
    }
    let all_steps = config.epochs * streams.full_windows(config.seq);
    let steps = config.max_steps.map_or(all_steps, |k| k.min(all_steps));

    let cross_entropy = CrossEntropyLossConfig::new().init(&training);
    let mut adam = AdamConfig::new().with_epsilon(1e-8).init();
    let mut shifts = StdRng::seed_from_u64(config.seed);
    let mut progress = Progress::new(steps);
    let mut best: Option<Trained> = None;
    let mut step = 0;

    for epoch in 1.. {
        let mut state = None; // the streams begin anew
        let mut loss_sum = 0.0;
        let mut characters = 0;
        let start = Instant::now();
        let shift = shifts.random_range(0..=streams.slack(config.seq));

        for window in streams
            .training_windows(config.seq, shift)
            .take(steps - step)
        {
            let (logits, next) = model.forward(window.inputs(&training), state);
            state = Some(next.detach()); // the state flows on, gradients stop here
            let loss = cross_entropy.forward(logits, window.targets(&training));

            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            let (gradients, norm) = clip_norm(&model, gradients, config.clip);
            let rate = learning_rate(config.lr, step, all_steps);
            model = adam.step(rate, model, gradients);

            step += 1;
            let loss = read(loss)?;
            if !loss.is_finite() {
                progress.finish();
                return Err(Error::Diverged { step, loss });
            }
            loss_sum += f64::from(loss) * window.len() as f64;
            characters += window.len();
            let speed = characters as f64 / start.elapsed().as_secs_f64();
            progress.step(epoch, loss, speed);
            log.write(&Step {
                step,
                epoch,
                loss,
                gradient_norm: read(norm)?,
                learning_rate: rate,
            })?;
        }

        let speed = characters as f64 / start.elapsed().as_secs_f64();
        let valid = model.valid();
        let validation = evaluate(
            &valid,
            corpus.validation_streams(config.batch),
            config.seq,
            device,
        )?;
        progress.say(&format!(
            "epoch {epoch:>3}   training {:.3}   validation {validation:.3} nats, {:.3} bits per \
             character   {:.1}k characters/s",
            loss_sum / characters as f64,
            validation / LN_2,
            speed / 1000.0,
        ));
        if best
            .as_ref()
            .is_none_or(|best| validation < best.validation)
        {
            best = Some(Trained {
                model: valid,
                epoch,
                validation,
            });
        }
        if step == steps {
            break;
        }
    }
    progress.finish();
    Ok(best.expect("there is at least one epoch"))
}

/// Mean loss in nats per character; the state is carried through the streams here too.
fn evaluate(
    model: &CharGru,
    streams: Streams<'_>,
    seq: usize,
    device: &Device,
) -> Result<f64, Error> {
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    let mut state = None;
    let mut loss_sum = 0.0;
    let mut characters = 0;
    for window in streams.all_windows(seq) {
        let (logits, next) = model.forward(window.inputs(device), state);
        state = Some(next);
        let loss = read(cross_entropy.forward(logits, window.targets(device)))?;
        loss_sum += f64::from(loss) * window.len() as f64;
        characters += window.len();
    }
    Ok(loss_sum / characters as f64)
}

/// Linear warm-up to `peak`, then half a cosine down, for the step after `step` steps of `steps`.
fn learning_rate(peak: f64, step: usize, steps: usize) -> f64 {
    let warm_up = ((step + 1) as f64 / WARM_UP_STEPS as f64).min(1.0);
    let cosine = (1.0 + (PI * step as f64 / steps as f64).cos()) / 2.0;
    peak * warm_up * (FINAL_RATE + (1.0 - FINAL_RATE) * cosine)
}

fn read(scalar: burn::tensor::Tensor<1>) -> Result<f32, Error> {
    scalar
        .try_into_scalar()
        .map_err(|reason| Error::Device(reason.to_string()))
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use clap::Parser;
    use std::fs;

    /// Train a tiny model with some more arguments; the log of its steps and its last loss.
    fn run(folder: &std::path::Path, arguments: &[&str]) -> (String, f64) {
        let log = folder.join("log");
        let mut all: Vec<&str> = "char-gru --embed 8 --hidden 16 --dropout 0 --batch 4 --seq 16 \
                                  --epochs 8 --lr 2e-2 --log"
            .split_whitespace()
            .collect();
        all.push(log.to_str().unwrap());
        all.extend(arguments);
        let config = Config::parse_from(all);
        let corpus = Corpus::new(&"a rose is a rose. ".repeat(60), 0.1, 16).unwrap();
        let sizes = CharGruConfig::new(corpus.vocabulary.len(), 8, 16, 1, config.dropout);
        let trained = train(&config, &sizes, &corpus, &Device::flex()).unwrap();
        (fs::read_to_string(log).unwrap(), trained.validation)
    }

    /// Without dropout, and with parameters from a file, no random number of the backend is left:
    /// those come from one generator that other tests draw from at the same time.
    #[test]
    fn training_learns_and_repeats_itself() {
        let folder = std::env::temp_dir().join(format!("char-gru-train-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str| folder.join(name).to_str().unwrap().to_string();
        let (start, other) = (file("start"), file("other"));

        let (first, validation) = run(&folder, &["--save-init", &start]);
        assert!(validation < 0.5, "{validation}");
        assert!(first.lines().count() > 50);
        run(&folder, &["--seed", "2", "--save-init", &other]);
        assert_eq!(run(&folder, &["--init", &start]).0, first);
        assert_ne!(run(&folder, &["--init", &other]).0, first);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_learning_rate_rises_and_falls() {
        let rate = |step| learning_rate(1.0, step, 1000);
        assert!((rate(0) - 0.02).abs() < 1e-4);
        assert!(rate(49) > 0.99);
        assert!((rate(500) - 0.525).abs() < 1e-9);
        assert!((rate(1000) - FINAL_RATE).abs() < 1e-9);
    }
}
