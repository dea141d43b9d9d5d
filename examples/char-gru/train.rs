//! The training loop, top to bottom.

use std::f64::consts::LN_2;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::module::Module;
use burn::tensor::Device;
use burn::train::Interrupter;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::chart;
use crate::checkpoint::{self, Checkpoint, Progress, write_error};
use crate::config::TrainArgs;
use crate::dashboard::{Dashboard, Log, Step, say};
use crate::data::{Corpus, Streams, Window};
use crate::devices::{self, Place};
use crate::error::Error;
use crate::evaluate::{evaluate, read};
use crate::model::{CharGru, CharGruConfig};
use crate::ngram::Reference;
use crate::schedule::learning_rate;
use crate::step::{Learner, adam};

/// The files in the folder of a run.
pub struct Files {
    pub model: PathBuf,
    pub checkpoint: PathBuf,
    pub log: PathBuf,
    pub loss_chart: PathBuf,
    pub gates_chart: PathBuf,
}

impl Files {
    /// Makes the folder if need be: better to fail before hours of training than after.
    pub fn create(folder: &Path) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(|e| write_error(folder, e))?;
        let scratch = folder.join(format!("writable-{}", std::process::id()));
        fs::write(&scratch, []).map_err(|e| write_error(folder, e))?;
        fs::remove_file(&scratch).map_err(|e| write_error(folder, e))?;
        sweep(folder);
        Ok(Self {
            model: folder.join("model.bpk"),
            checkpoint: folder.join("checkpoint.bpk"),
            log: folder.join("log.jsonl"),
            loss_chart: folder.join("loss.svg"),
            gates_chart: folder.join("gates.svg"),
        })
    }
}

/// Removes the half-written files that a killed run left beside their places. One that resists is
/// in nobody's way.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ours = name.starts_with("model.bpk.") || name.starts_with("checkpoint.bpk.");
        if ours && name.ends_with(".tmp") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The arguments that make a run what it is: a checkpoint goes on with the same ones only.
fn identity(args: &TrainArgs, sizes: &CharGruConfig, corpus: &Corpus) -> String {
    format!(
        "{sizes} {} characters, validation {}, epochs {}, batch {}, seq {}, lr {}, clip {}, seed {}, \
         check every {:?}",
        corpus.validation_range().end,
        args.validation,
        args.epochs,
        args.batch,
        args.seq,
        args.lr,
        args.clip,
        args.seed,
        args.check_every,
    )
}

/// Train a model of `sizes` on `corpus`; the model that validated best, for inference on the first
/// of the devices.
pub fn train(
    args: &TrainArgs,
    sizes: &CharGruConfig,
    corpus: &Corpus,
    reference: &Reference,
    files: &Files,
    on: &[Device],
    stop: &Interrupter,
) -> Result<CharGru, Error> {
    let device = &on[0];
    let training: Vec<_> = on.iter().map(|d| d.clone().autodiff()).collect();
    let home = &training[0];
    home.seed(args.seed);
    let identity = identity(args, sizes, corpus);
    let fresh = match &args.init {
        Some(path) => checkpoint::load_like(path, sizes, &corpus.vocabulary, home)?,
        None => draw(args, sizes, home)?,
    };
    if let Some(path) = &args.save_init {
        checkpoint::save(&fresh, sizes, &corpus.vocabulary, path)?;
    }
    let mut learner = Learner::new(fresh, args.clip, &training);
    let mut at = Progress::default();
    if args.resume {
        let model = learner.model.clone();
        let saved = Checkpoint::load(&files.checkpoint, &identity, model, adam(), home)?;
        learner.model = saved.model;
        learner.optimizer = saved.optimizer;
        learner.set_state(saved.state);
        at = saved.progress;
        say(&format!("going on after step {}", at.step));
    }

    let streams = corpus.train_streams(args.batch, args.seq);
    if streams.count() < args.batch {
        say(&format!(
            "The text is short: {} streams instead of {}.",
            streams.count(),
            args.batch
        ));
    }
    let all_steps = args.epochs * streams.full_windows(args.seq);
    let run = Run {
        args,
        sizes,
        corpus,
        files,
        identity,
        all_steps,
        steps: args.max_steps.map_or(all_steps, |k| k.min(all_steps)),
        streams,
        judges: corpus.validation_streams(args.batch),
        device,
        stop,
    };
    let mut log = Log::open(&files.log, at.step)?;
    let mut dashboard = Dashboard::new(args.plain, run.steps, args.epochs, at.step, stop);
    let result = devices::guard(&args.devices, || {
        run.learn(&mut learner, &mut at, &mut dashboard, &mut log)
    });
    // The terminal is given back before an error is said.
    dashboard.finish();
    if !at.history.is_empty() {
        chart::losses(&at.history, reference, &files.loss_chart)?;
    }
    result?;
    if at.step < run.steps {
        let tries = at.since_best;
        say(&format!(
            "no improvement in {tries} validations: stopped at step {}",
            at.step
        ));
    }
    let (model, ..) = checkpoint::load(&files.model, device)?;
    Ok(model)
}

/// A new model on `home`. The clients of a server draw from one generator there, in the order in which
/// they come: so a model for a server is drawn here, and the same seed gives the same one.
fn draw(args: &TrainArgs, sizes: &CharGruConfig, home: &Device) -> Result<CharGru, Error> {
    if !matches!(args.devices.first(), Some(Place::Server(_))) {
        return Ok(sizes.init(home));
    }
    let here = args.backend.device()?.autodiff();
    here.seed(args.seed);
    Ok(sizes.init(&here).fork(home))
}

/// A training run: everything about it that does not change.
struct Run<'a> {
    args: &'a TrainArgs,
    sizes: &'a CharGruConfig,
    corpus: &'a Corpus,
    files: &'a Files,
    identity: String,
    /// Steps of the whole schedule.
    all_steps: usize,
    /// Steps to make of it.
    steps: usize,
    streams: Streams<'a>,
    judges: Streams<'a>,
    /// For inference.
    device: &'a Device,
    stop: &'a Interrupter,
}

/// What a validation found, in nats per character.
struct Checked {
    line: String,
    training: f64,
    validation: f64,
}

impl Run<'_> {
    /// All steps that are left, epoch after epoch.
    fn learn(
        &self,
        learner: &mut Learner,
        at: &mut Progress,
        dashboard: &mut Dashboard,
        log: &mut Log,
    ) -> Result<(), Error> {
        let seq = self.args.seq;
        let windows_of_epoch = self.streams.full_windows(seq);
        let mut speed = Speed::new();
        while at.step < self.steps && !self.patience_is_over(at) {
            let shift = shift(self.args.seed, at.epoch, self.streams.slack(seq));
            let mut windows = self.streams.read(seq, shift + at.window * seq)?;
            while at.window < windows_of_epoch && at.step < self.steps {
                let window = windows.read()?.ok_or(Error::TextChanged)?;
                let offset = shift + at.window * seq;
                let step = self.step(learner, at, &window, offset)?;
                let step = speed.of(step, window.len());
                dashboard.step(&step);
                log.step(&step)?;

                let epoch_ends = at.window == windows_of_epoch;
                let validate = at.step == self.steps
                    || match self.args.check_every {
                        Some(every) => at.step.is_multiple_of(every),
                        None => epoch_ends,
                    };
                if epoch_ends {
                    at.epoch += 1;
                    at.window = 0;
                    learner.set_state(None); // the streams begin anew
                }
                let stopping = self.stop.should_stop();
                if validate || stopping {
                    if let Some(found) = self.check(learner, at, validate)? {
                        let line = format!("{}   {}", found.line, speed.text());
                        dashboard.validation(found.validation, line);
                        log.validation(at.step, found.training, found.validation)?;
                        speed = Speed::new();
                    }
                    if stopping && at.step < self.steps {
                        return Err(Error::Stopped { step: at.step });
                    }
                }
                if epoch_ends || self.patience_is_over(at) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn patience_is_over(&self, at: &Progress) -> bool {
        let patience = self.args.patience;
        patience.is_some_and(|patience| at.since_best >= patience)
    }

    /// Learns a window.
    fn step(
        &self,
        learner: &mut Learner,
        at: &mut Progress,
        window: &Window,
        offset: usize,
    ) -> Result<Step, Error> {
        let start = Instant::now();
        // Dropout is a number of the seed and the step alone, so that a resumed run draws the same.
        let golden = 0x9e37_79b9_7f4a_7c15; // spreads the steps over all seeds
        learner.seed(self.args.seed ^ (at.step as u64 + 1).wrapping_mul(golden));
        let rate = learning_rate(self.args.lr, at.step, self.all_steps);
        let outcome = learner.step(window, rate)?;
        at.step += 1;
        at.window += 1;
        let loss = read(outcome.loss)?;
        if !loss.is_finite() {
            let step = at.step;
            return Err(Error::Diverged { step, loss });
        }
        at.loss_sum += f64::from(loss) * window.len() as f64;
        at.characters += window.len();
        let gradient_norm = read(outcome.gradient_norm)?;
        Ok(Step {
            step: at.step,
            epoch: at.epoch + 1,
            offset,
            loss,
            gradient_norm,
            learning_rate: rate,
            seconds: start.elapsed().as_secs_f64(),
            characters_per_second: 0.0,
        })
    }

    /// Validates, if it is time to, keeps the best model, and saves a checkpoint.
    fn check(
        &self,
        learner: &Learner,
        at: &mut Progress,
        validate: bool,
    ) -> Result<Option<Checked>, Error> {
        let checked = match validate {
            true => Some(self.validate(&learner.model.valid(), at)?),
            false => None,
        };
        let checkpoint = Checkpoint {
            model: learner.model.clone(),
            optimizer: learner.optimizer.clone(),
            state: learner.state(),
            progress: at.clone(),
        };
        let vocabulary = &self.corpus.vocabulary;
        checkpoint.save(
            self.sizes,
            vocabulary,
            &self.identity,
            &self.files.checkpoint,
        )?;
        Ok(checked)
    }

    fn validate(&self, model: &CharGru, at: &mut Progress) -> Result<Checked, Error> {
        let validation = evaluate(model, &self.judges, self.args.seq, self.device)?;
        let training = at.loss_sum / at.characters.max(1) as f64;
        (at.loss_sum, at.characters) = (0.0, 0);
        at.history.push((at.step, training, validation));
        at.since_best += 1;
        if at.best.is_none_or(|(best, _)| validation < best) {
            at.best = Some((validation, at.step));
            at.since_best = 0;
            let vocabulary = &self.corpus.vocabulary;
            checkpoint::save(model, self.sizes, vocabulary, &self.files.model)?;
        }
        let place = match (self.args.check_every, at.window) {
            (None, 0) => format!("epoch {:>3}", at.epoch),
            _ => format!("step {:>6}", at.step),
        };
        let line = format!(
            "{place}   training {training:.3}   validation {validation:.3} nats, {:.3} bits per \
             character",
            validation / LN_2
        );
        Ok(Checked {
            line,
            training,
            validation,
        })
    }
}

/// Where the windows of an epoch begin: a number of the seed and the epoch alone, so that a
/// resumed run draws the same.
fn shift(seed: u64, epoch: usize, slack: usize) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut shift = 0;
    for _ in 0..=epoch {
        shift = rng.random_range(0..=slack);
    }
    shift
}

/// Characters per second, since the last validation.
struct Speed {
    start: Instant,
    characters: usize,
}

impl Speed {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            characters: 0,
        }
    }

    fn of(&mut self, step: Step, characters: usize) -> Step {
        self.characters += characters;
        Step {
            characters_per_second: self.per_second(),
            ..step
        }
    }

    fn per_second(&self) -> f64 {
        self.characters as f64 / self.start.elapsed().as_secs_f64().max(1e-9)
    }

    fn text(&self) -> String {
        format!("{:.1}k characters/s", self.per_second() / 1000.0)
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::config::Cli;
    use crate::text::Text;
    use clap::Parser;

    fn args(folder: &Path, more: &[&str]) -> TrainArgs {
        let out = folder.to_str().unwrap();
        let mut all: Vec<&str> = "char-gru --embed 8 --hidden 16 --dropout 0.2 --batch 4 --seq 16 \
                                  --epochs 6 --lr 2e-2 --plain --out"
            .split_whitespace()
            .collect();
        all.push(out);
        all.extend(more);
        Cli::parse_from(all).train
    }

    /// On so many devices; the log without its times.
    fn run(
        folder: &Path,
        count: usize,
        more: &[&str],
        stop: &Interrupter,
    ) -> (String, Result<(), Error>) {
        let args = args(folder, more);
        let text: &'static str = "a rose is a rose. ".repeat(60).leak();
        let (text, vocabulary) = Text::embedded(text).unwrap();
        let corpus = Corpus::new(text, vocabulary, 0.1, 16).unwrap();
        let sizes = CharGruConfig::new(corpus.vocabulary.len(), 8, 16, 1, args.dropout);
        let reference = Reference::new(&corpus).unwrap();
        let files = Files::create(folder).unwrap();
        let devices = vec![Device::flex(); count];
        let trained = train(&args, &sizes, &corpus, &reference, &files, &devices, stop);
        // How fast a step was is no part of what it computed.
        let log = fs::read_to_string(files.log).unwrap();
        let lines = log.lines().map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("seconds");
            line.to_string()
        });
        (lines.collect::<Vec<_>>().join("\n"), trained.map(|_| ()))
    }

    /// One test: two runs at once would draw from one generator.
    #[test]
    fn training_learns_repeats_itself_and_resumes_to_the_same_losses() {
        let _alone = crate::drawing();
        let folder = std::env::temp_dir().join(format!("char-gru-train-{}", std::process::id()));
        let folder_of = |name: &str| folder.join(name);
        let go = Interrupter::new();
        let start = folder_of("start.bpk");
        let start = start.to_str().unwrap();
        fs::create_dir_all(&folder).unwrap();

        let (whole, result) = run(&folder_of("a"), 1, &["--save-init", start], &go);
        result.unwrap();
        let last: serde_json::Value = serde_json::from_str(whole.lines().last().unwrap()).unwrap();
        assert!(last["validation"].as_f64().unwrap() < 0.5, "{last}");
        assert!(folder_of("a").join("loss.svg").exists());

        let (again, _) = run(&folder_of("b"), 1, &["--init", start], &go);
        assert_eq!(again, whole);

        // Stopped after every few steps, in the middle of epochs too, and resumed each time.
        let broken = folder_of("c");
        let mut resume: Vec<&str> = vec!["--init", start];
        let mut breaks = 0;
        let resumed = loop {
            let stop = Interrupter::new();
            if breaks < 5 {
                stop.stop(None); // after one step
            }
            let (log, result) = run(&broken, 1, &resume, &stop);
            resume = vec!["--resume"];
            match result {
                Ok(()) => break log,
                Err(Error::Stopped { .. }) => breaks += 1,
                Err(other) => panic!("{other}"),
            }
        };
        assert_eq!(breaks, 5);
        assert_eq!(resumed, whole);

        let (_, other) = run(&broken, 1, &["--resume", "--seed", "8"], &go);
        assert!(other.unwrap_err().to_string().contains("other arguments"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
