//! Progress output: burn-train's dashboard on a terminal, otherwise a bar or plain lines, and the log of
//! steps.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use burn::train::Interrupter;
use burn::train::metric::{
    MetricAttributes, MetricDefinition, MetricEntry, MetricId, NumericAttributes, NumericEntry,
    SerializedEntry,
};
use burn::train::renderer::tui::TuiMetricsRendererWrapper;
use burn::train::renderer::{MetricState, MetricsRenderer};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use char_model::error::Error;
use char_model::trainer;

/// Time between two plain lines.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// Prints a line. A closed reader must not end the training, so errors are ignored.
pub fn say(line: &str) {
    if cfg!(test) {
        println!("{line}"); // The test harness can capture this.
    } else {
        let _ = writeln!(io::stdout(), "{line}");
    }
}

/// One training step and its speed.
pub struct Step {
    pub made: trainer::Step,
    pub seconds: f64,
    /// Characters per second since the last validation.
    pub characters_per_second: f64,
}

/// The output of a training run.
pub enum Dashboard {
    /// burn-train's dashboard on the whole terminal. `q` stops the run.
    Full {
        renderer: Box<dyn MetricsRenderer>,
        lines: Vec<String>,
        epoch: usize,
    },
    /// A bar, or occasional lines without a terminal.
    Plain {
        bar: ProgressBar,
        last_line: Instant,
    },
}

const LOSS: &str = "Loss";
const RATE: &str = "Learning rate";
const NORM: &str = "Gradient norm";
const SPEED: &str = "Characters/s";

impl Dashboard {
    /// Output for `steps` steps in `epochs` epochs, of which `done` are finished. If the user stops the
    /// run in the dashboard, `interrupter` is set.
    pub fn new(plain: bool, steps: usize, epochs: usize, done: usize, stop: &Interrupter) -> Self {
        if !plain && io::stdout().is_terminal() && io::stdin().is_terminal() {
            let mut renderer: Box<dyn MetricsRenderer> =
                Box::new(TuiMetricsRendererWrapper::new(stop.clone(), None));
            for (name, unit, higher_is_better) in [
                (LOSS, Some("nats"), false),
                (RATE, None, false),
                (NORM, None, false),
                (SPEED, None, true),
            ] {
                let attributes = NumericAttributes {
                    unit: unit.map(str::to_string),
                    higher_is_better,
                };
                renderer.register_metric(MetricDefinition {
                    metric_id: id(name),
                    name: Arc::new(name.to_string()),
                    description: None,
                    attributes: MetricAttributes::Numeric(attributes),
                });
            }
            keep_ctrl_c();
            renderer.start(epochs, 0, Some(steps), Some("char-gru"));
            renderer.start_split("train", steps);
            return Self::Full {
                renderer,
                lines: Vec::new(),
                epoch: 0,
            };
        }
        let style = ProgressStyle::with_template("{percent:>3}% {wide_bar} {msg}  {eta} left")
            .expect("the template is well formed");
        let bar = ProgressBar::new(steps as u64).with_style(style);
        bar.set_position(done as u64);
        bar.reset_eta();
        Self::Plain {
            bar,
            last_line: Instant::now(),
        }
    }

    /// Shows a finished step.
    pub fn step(&mut self, step: &Step) {
        let of = &step.made;
        match self {
            Self::Full {
                renderer, epoch, ..
            } => {
                if of.epoch != *epoch {
                    *epoch = of.epoch;
                    renderer.update_epoch(of.epoch);
                }
                for (name, value) in [
                    (LOSS, f64::from(of.loss)),
                    (RATE, of.learning_rate),
                    (NORM, f64::from(of.gradient_norm)),
                    (SPEED, step.characters_per_second),
                ] {
                    renderer.update_train(state(name, value));
                }
                renderer.update_split(of.step);
            }
            Self::Plain { bar, last_line } => {
                let state = format!(
                    "epoch {}  loss {:.3}  {:.1}k characters/s",
                    of.epoch,
                    of.loss,
                    step.characters_per_second / 1000.0
                );
                bar.set_position(of.step as u64);
                bar.set_message(state.clone());
                if bar.is_hidden() && last_line.elapsed() >= PLAIN_INTERVAL {
                    *last_line = Instant::now();
                    let _ = writeln!(
                        io::stderr(),
                        "step {}/{}  {state}  {} left",
                        bar.position(),
                        bar.length().unwrap_or_default(),
                        HumanDuration(bar.eta())
                    );
                }
            }
        }
    }

    /// Shows a validation.
    pub fn validation(&mut self, loss: f64, line: String) {
        match self {
            Self::Full {
                renderer, lines, ..
            } => {
                renderer.update_valid(state(LOSS, loss));
                lines.push(line);
            }
            Self::Plain { bar, .. } => bar.suspend(|| say(&line)),
        }
    }

    /// Restores the terminal, and prints there what the dashboard covered.
    pub fn finish(self) {
        match self {
            Self::Full {
                mut renderer,
                lines,
                ..
            } => {
                renderer.end_split();
                drop(renderer);
                lines.iter().for_each(|line| say(line));
            }
            Self::Plain { bar, .. } => bar.finish_and_clear(),
        }
    }
}

/// The dashboard captures all keys, and ignores Ctrl-C. This function restores Ctrl-C for the system
/// once the dashboard's thread has started.
#[cfg(unix)]
fn keep_ctrl_c() {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let stdin = io::stdin();
    for _ in 0..100 {
        let Ok(mut modes) = tcgetattr(&stdin) else {
            return;
        };
        if !modes.local_modes.contains(LocalModes::ISIG) {
            modes.local_modes.insert(LocalModes::ISIG);
            let _ = tcsetattr(&stdin, OptionalActions::Now, &modes);
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// On other systems `q` stops the run.
#[cfg(not(unix))]
fn keep_ctrl_c() {}

fn id(name: &str) -> MetricId {
    MetricId::new(Arc::new(name.to_string()))
}

fn state(name: &str, value: f64) -> MetricState {
    let formatted = SerializedEntry::new(format!("{value:.4}"), value.to_string());
    let entry = MetricEntry::new(id(name), formatted);
    MetricState::Numeric(entry, Some(NumericEntry::Value(value)))
}

/// A file of JSON lines, one per step and one per validation.
pub struct Log {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Log {
    /// Creates a file at `path`, or continues one and removes the lines after `step`.
    pub fn open(path: &Path, step: usize) -> Result<Self, Error> {
        let failed = |reason: io::Error| Error::write(path, reason);
        let kept = match step {
            0 => String::new(),
            _ => {
                let text = fs::read_to_string(path).unwrap_or_default();
                let lines = text.lines().filter(|line| {
                    let line: Option<Value> = serde_json::from_str(line).ok();
                    line.and_then(|l| l["step"].as_u64())
                        .is_some_and(|s| s <= step as u64)
                });
                lines.flat_map(|line| [line, "\n"]).collect()
            }
        };
        let mut file = BufWriter::new(File::create(path).map_err(failed)?);
        file.write_all(kept.as_bytes()).map_err(failed)?;
        file.flush().map_err(failed)?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
        })
    }

    /// Appends a step.
    pub fn step(&mut self, step: &Step) -> Result<(), Error> {
        let of = &step.made;
        self.line(&json!({
            "step": of.step,
            "epoch": of.epoch,
            "offset": of.offset,
            "loss": of.loss,
            "gradient_norm": of.gradient_norm,
            "learning_rate": of.learning_rate,
            "seconds": step.seconds,
        }))
    }

    /// Appends a validation.
    pub fn validation(&mut self, step: usize, training: f64, loss: f64) -> Result<(), Error> {
        self.line(&json!({"step": step, "training": training, "validation": loss}))
    }

    /// Flushes each line, so that the file can be followed and survives a kill.
    fn line(&mut self, line: &Value) -> Result<(), Error> {
        writeln!(self.file, "{line}")
            .and_then(|()| self.file.flush())
            .map_err(|reason| Error::write(&self.path, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_log_takes_back_what_comes_after() {
        let name = format!("char-gru-log-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = |step| trainer::Step {
            step,
            epoch: 1,
            ends_epoch: false,
            offset: 7,
            characters: 1,
            loss: 0.5,
            gradient_norm: 1.0,
            learning_rate: 0.1,
        };
        let step = |step| Step {
            made: made(step),
            seconds: 0.1,
            characters_per_second: 10.0,
        };
        let mut log = Log::open(&path, 0).unwrap();
        for k in 1..=5 {
            log.step(&step(k)).unwrap();
        }
        log.validation(5, 0.4, 0.6).unwrap();
        drop(log);
        // A line that a kill truncated.
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"step\":6,\"lo");
        fs::write(&path, text).unwrap();
        let mut log = Log::open(&path, 3).unwrap();
        log.step(&step(4)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let steps: Vec<u64> = text
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["step"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        assert_eq!(steps, [1, 2, 3, 4]);
        fs::remove_file(path).unwrap();
    }
}
