//! What one sees: a bar on a terminal, plain lines elsewhere, and the log of steps.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use serde_json::json;

use crate::error::Error;

/// Often enough to see that it lives, seldom enough for a log file.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// Print a line. A reader that went away must not end the training, so failure is ignored.
pub fn say(line: &str) {
    if cfg!(test) {
        println!("{line}"); // which the test harness can hold back
    } else {
        let _ = writeln!(io::stdout(), "{line}");
    }
}

/// The progress of a training run.
pub struct Progress {
    bar: ProgressBar,
    last_plain: Instant,
}

impl Progress {
    /// Start at no step of `steps`.
    pub fn new(steps: usize) -> Self {
        let style = ProgressStyle::with_template("{percent:>3}% {wide_bar} {msg}  {eta} left")
            .expect("the template is well formed");
        Self {
            bar: ProgressBar::new(steps as u64).with_style(style),
            last_plain: Instant::now(),
        }
    }

    /// One more step was made.
    pub fn step(&mut self, epoch: usize, loss: f32, characters_per_second: f64) {
        let state = format!(
            "epoch {epoch}  loss {loss:.3}  {:.1}k characters/s",
            characters_per_second / 1000.0
        );
        self.bar.set_message(state.clone());
        self.bar.inc(1);
        if self.bar.is_hidden() && self.last_plain.elapsed() >= PLAIN_INTERVAL {
            self.last_plain = Instant::now();
            let left = HumanDuration(self.bar.eta());
            let _ = writeln!(
                io::stderr(),
                "step {}/{}  {state}  {left} left",
                self.bar.position(),
                self.bar.length().unwrap_or_default()
            );
        }
    }

    /// Print a line above the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| say(line));
    }

    /// Remove the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// One step, for the log.
pub struct Step {
    pub step: usize,
    pub epoch: usize,
    pub loss: f32,
    pub gradient_norm: f32,
    pub learning_rate: f64,
}

/// A file of JSON lines, one per step, or nothing.
pub struct Log(Option<(PathBuf, BufWriter<File>)>);

impl Log {
    /// Start a new file at `path`, if there is one.
    pub fn create(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else {
            return Ok(Self(None));
        };
        let file = File::create(path).map_err(|reason| write_error(path, reason))?;
        Ok(Self(Some((path.to_path_buf(), BufWriter::new(file)))))
    }

    /// Append a step.
    pub fn write(&mut self, step: &Step) -> Result<(), Error> {
        let Some((path, file)) = &mut self.0 else {
            return Ok(());
        };
        let line = json!({
            "step": step.step,
            "epoch": step.epoch,
            "loss": step.loss,
            "gradient_norm": step.gradient_norm,
            "learning_rate": step.learning_rate,
        });
        // Flushed line by line, so that the file can be followed and survives a kill.
        writeln!(file, "{line}")
            .and_then(|()| file.flush())
            .map_err(|reason| write_error(path, reason))
    }
}

fn write_error(path: &Path, reason: io::Error) -> Error {
    Error::Write {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}
