//! Progress output: a bar on a terminal, otherwise occasional lines.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

/// Time between two lines without a terminal.
const INTERVAL: Duration = Duration::from_secs(10);

/// Prints a line. A closed reader must not end the training, so errors are ignored.
pub fn say(line: &str) {
    if cfg!(test) {
        println!("{line}"); // The test harness can capture this.
    } else {
        let _ = writeln!(io::stdout(), "{line}");
    }
}

/// The output of a training run.
pub struct Progress {
    bar: ProgressBar,
    last_line: Instant,
}

impl Progress {
    /// A run of `steps` steps, of which an earlier process finished `done`.
    pub fn new(steps: usize, done: usize) -> Self {
        let style = ProgressStyle::with_template("{percent:>3}% {wide_bar} {msg}  {eta} left")
            .expect("the template is well formed");
        let bar = ProgressBar::new(steps as u64).with_style(style);
        bar.set_position(done as u64);
        bar.reset_eta();
        Self {
            bar,
            last_line: Instant::now(),
        }
    }

    /// Shows a finished step with a text next to the bar.
    pub fn step(&mut self, step: usize, text: &str) {
        let bar = &self.bar;
        bar.set_position(step as u64);
        bar.set_message(text.to_string());
        if bar.is_hidden() && self.last_line.elapsed() >= INTERVAL {
            self.last_line = Instant::now();
            let _ = writeln!(
                io::stderr(),
                "step {}/{}  {text}  {} left",
                bar.position(),
                bar.length().unwrap_or_default(),
                HumanDuration(bar.eta())
            );
        }
    }

    /// Prints a line above the bar.
    pub fn line(&self, line: &str) {
        self.bar.suspend(|| say(line));
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
