//! The training loop.

#[cfg(all(test, feature = "flex"))]
mod tests;

use std::f64::consts::LN_2;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::tensor::{Device, read_sync};
use char_model::data::Corpus;
use char_model::error::Error as ModelError;
use char_model::file;
use char_model::model::{CharGru, CharGruConfig};
use char_model::ngram::Reference;
use char_model::step::adam;
use char_model::trainer::{self, Progress, Settings, Trainer, Validation};
use char_model::vocabulary::Vocabulary;
use serde_json::{Value, json};
use training_kit::log::Log;
use training_kit::progress::{self, say};

use crate::chart;
use crate::checkpoint::{self, Checkpoint};
use crate::config::TrainArgs;
use crate::devices;
use crate::error::Error;

/// The files in the folder of a run.
pub struct Files {
    pub model: PathBuf,
    pub checkpoint: PathBuf,
    pub log: PathBuf,
    pub loss_chart: PathBuf,
}

impl Files {
    /// Creates the folder if it is missing.
    pub fn create(folder: &Path) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(|e| ModelError::write(folder, e))?;
        Ok(Self {
            model: folder.join("model.bpk"),
            checkpoint: folder.join("checkpoint.bpk"),
            log: folder.join("log.jsonl"),
            loss_chart: folder.join("loss.svg"),
        })
    }
}

/// The arguments that identify a run. A checkpoint can be resumed only with the same arguments.
fn identity(args: &TrainArgs, sizes: &CharGruConfig, corpus: &Corpus) -> String {
    // FNV-1a, which is the same in every release.
    let hash = |hash: u64, &token: &i32| (hash ^ token as u64).wrapping_mul(0x100_0000_01b3);
    let text = corpus.tokens().iter().fold(0xcbf2_9ce4_8422_2325, hash);
    format!(
        "{sizes} {} characters with the hash {text:x}, validation {}, epochs {}, batch {}, seq {}, lr {}, clip {}, seed {}, \
         check every {:?}, alphabet {:?}",
        corpus.tokens().len(),
        args.validation,
        args.epochs,
        args.batch,
        args.seq,
        args.lr,
        args.clip,
        args.seed,
        args.check_every,
        corpus.vocabulary.characters(),
    )
}

/// Trains a model of `sizes` on `corpus`. Returns the model with the lowest validation loss, for
/// inference on the first device.
pub fn train(
    args: &TrainArgs,
    sizes: &CharGruConfig,
    corpus: &Corpus,
    reference: &Reference,
    files: &Files,
    on: &[Device],
    stop: &AtomicBool,
) -> Result<CharGru, Error> {
    let device = &on[0];
    let training: Vec<_> = on.iter().map(|d| d.clone().autodiff()).collect();
    let home = &training[0];
    home.seed(args.seed);
    let identity = identity(args, sizes, corpus);
    let fresh = match &args.init {
        Some(path) => file::load_like(path, sizes, &corpus.vocabulary, home)?,
        None => draw(args, sizes, home)?,
    };
    if let Some(path) = &args.save_init {
        file::save(&fresh, sizes, &corpus.vocabulary, path)?;
    }
    let settings = Settings {
        epochs: args.epochs,
        batch: args.batch,
        seq: args.seq,
        rate: args.lr,
        clip: args.clip,
        seed: args.seed,
    };
    let mut trainer = Trainer::new(settings, corpus, fresh, &training);
    if args.resume {
        let model = trainer.learner.model.clone();
        let shape = [sizes.layers, trainer.rows(), sizes.hidden];
        let path = &files.checkpoint;
        let saved = checkpoint::load(path, &identity, shape, model, adam(), home)?;
        if !trainer.can_be_at(&saved.progress) {
            let Progress {
                step,
                epoch,
                window,
                ..
            } = saved.progress;
            let reason = format!("step {step} is not window {window} of epoch {epoch}");
            return Err(ModelError::load(path, reason).into());
        }
        trainer.learner.model = saved.model;
        trainer.learner.optimizer = saved.optimizer;
        trainer.learner.set_state(saved.state);
        trainer.progress = saved.progress;
        say(&format!("resuming after step {}", trainer.progress.step));
    }
    if trainer.rows() < args.batch {
        say(&format!(
            "The text is short: using {} streams instead of {}.",
            trainer.rows(),
            args.batch
        ));
    }
    let run = Run {
        args,
        sizes,
        vocabulary: &corpus.vocabulary,
        files,
        identity,
        steps: args.max_steps.unwrap_or(usize::MAX).min(trainer.steps()),
        stop,
    };
    let done = trainer.progress.step;
    let mut log = Log::open(&files.log, done)?;
    let mut shown = progress::Progress::new(run.steps, done);
    let result = devices::guard(&args.devices, || {
        run.learn(&mut trainer, &mut shown, &mut log)
    });
    shown.finish();
    let at = &trainer.progress;
    if !at.history.is_empty() {
        chart::losses(&at.history, reference, &files.loss_chart)?;
    }
    result?;
    if at.step < run.steps {
        let tries = at.since_best;
        say(&format!(
            "stopped at step {}: no improvement in {tries} validations",
            at.step
        ));
    }
    let (model, ..) = file::load(&files.model, device)?;
    Ok(model)
}

/// A new model on `home`. The clients of a server share one random generator there, in the order of
/// their requests. So the model is drawn on this machine, and a seed always gives the same model.
fn draw(args: &TrainArgs, sizes: &CharGruConfig, home: &Device) -> Result<CharGru, Error> {
    if args.devices.is_empty() {
        return Ok(sizes.init(home));
    }
    let here = args.backend.device()?.autodiff();
    here.seed(args.seed);
    Ok(sizes.init(&here).fork(home))
}

/// The constant parts of a training run.
struct Run<'a> {
    args: &'a TrainArgs,
    sizes: &'a CharGruConfig,
    vocabulary: &'a Vocabulary,
    files: &'a Files,
    identity: String,
    /// The last step to run of the whole schedule.
    steps: usize,
    stop: &'a AtomicBool,
}

impl Run<'_> {
    /// Runs all remaining steps.
    fn learn(
        &self,
        trainer: &mut Trainer,
        shown: &mut progress::Progress,
        log: &mut Log,
    ) -> Result<(), Error> {
        let mut speed = Speed::new();
        while trainer.progress.step < self.steps && !self.is_out_of_patience(&trainer.progress) {
            let start = Instant::now();
            let made = read_sync(trainer.step())?;
            let (step, ends_epoch) = (made.step, made.ends_epoch);
            let made = speed.of(made, start.elapsed());
            shown.step(step, &made.text());
            log.line(&made.line())?;

            let validate = step == self.steps
                || match self.args.check_every {
                    Some(every) => step.is_multiple_of(every),
                    None => ends_epoch,
                };
            let stopping = self.stop.load(Ordering::Relaxed);
            if validate {
                let found = self.validate(trainer)?;
                let line = self.line(&trainer.progress, &found);
                shown.line(&format!("{line}   {}", speed.text()));
                let Validation {
                    training,
                    validation,
                    ..
                } = found;
                log.line(&json!({"step": step, "training": training, "validation": validation}))?;
                speed = Speed::new();
            }
            if validate || stopping {
                self.save(trainer)?;
            }
            if stopping && step < self.steps {
                return Err(Error::Stopped { step });
            }
        }
        Ok(())
    }

    fn is_out_of_patience(&self, at: &Progress) -> bool {
        let patience = self.args.patience;
        patience.is_some_and(|patience| at.since_best >= patience)
    }

    /// Validates, and saves the best model.
    fn validate(&self, trainer: &mut Trainer) -> Result<Validation, Error> {
        let found = read_sync(trainer.validate())?;
        if found.best {
            let model = trainer.learner.model.valid();
            file::save(&model, self.sizes, self.vocabulary, &self.files.model)?;
        }
        Ok(found)
    }

    /// Saves the complete state for resuming.
    fn save(&self, trainer: &Trainer) -> Result<(), Error> {
        let checkpoint = Checkpoint {
            model: trainer.learner.model.clone(),
            optimizer: trainer.learner.optimizer.clone(),
            state: trainer.learner.state(),
            progress: trainer.progress.clone(),
        };
        let path = &self.files.checkpoint;
        let (sizes, vocabulary) = (self.sizes, self.vocabulary);
        let saved = checkpoint::save(&checkpoint, sizes, vocabulary, &self.identity, path);
        Ok(saved?)
    }

    fn line(&self, at: &Progress, found: &Validation) -> String {
        let place = match (self.args.check_every, at.window) {
            (None, 0) => format!("epoch {:>3}", at.epoch),
            _ => format!("step {:>6}", at.step),
        };
        let Validation {
            training,
            validation,
            ..
        } = found;
        format!(
            "{place}   training {training:.3}   validation {validation:.3} nats, {:.3} bits per \
             character",
            validation / LN_2
        )
    }
}

/// One training step and its speed.
struct Step {
    made: trainer::Step,
    seconds: f64,
    /// Characters per second since the last validation.
    characters_per_second: f64,
}

impl Step {
    /// The text next to the progress bar.
    fn text(&self) -> String {
        format!(
            "epoch {}  loss {:.3}  {:.1}k characters/s",
            self.made.epoch,
            self.made.loss,
            self.characters_per_second / 1000.0
        )
    }

    /// A line of the log.
    fn line(&self) -> Value {
        let of = &self.made;
        json!({
            "step": of.step,
            "epoch": of.epoch,
            "offset": of.offset,
            "loss": of.loss,
            "gradient_norm": of.gradient_norm,
            "learning_rate": of.learning_rate,
            "seconds": self.seconds,
        })
    }
}

/// Characters per second since the last validation.
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

    fn of(&mut self, made: trainer::Step, took: Duration) -> Step {
        self.characters += made.characters;
        Step {
            made,
            seconds: took.as_secs_f64(),
            characters_per_second: self.per_second(),
        }
    }

    fn per_second(&self) -> f64 {
        self.characters as f64 / self.start.elapsed().as_secs_f64().max(1e-9)
    }

    fn text(&self) -> String {
        format!("{:.1}k characters/s", self.per_second() / 1000.0)
    }
}
