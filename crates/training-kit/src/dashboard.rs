//! Progress output: burn-train's dashboard on a terminal, otherwise a bar or plain lines.

use std::io::{self, IsTerminal, Write};
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

/// A number that the dashboard plots.
pub struct Metric {
    pub name: &'static str,
    pub unit: Option<&'static str>,
    pub higher_is_better: bool,
}

/// The output of a training run.
pub enum Dashboard {
    /// burn-train's dashboard on the whole terminal. `q` stops the run.
    Full {
        renderer: Box<dyn MetricsRenderer>,
        metrics: &'static [Metric],
        lines: Vec<String>,
        epoch: usize,
    },
    /// A bar, or occasional lines without a terminal.
    Plain {
        bar: ProgressBar,
        last_line: Instant,
    },
}

/// The length of a run.
pub struct Length {
    pub epochs: usize,
    pub steps: usize,
    /// Steps that an earlier process finished.
    pub done: usize,
}

impl Dashboard {
    /// Output of `program`. If the user stops the run in the dashboard, `stop` is set.
    pub fn new(
        program: &str,
        metrics: &'static [Metric],
        length: &Length,
        plain: bool,
        stop: &Interrupter,
    ) -> Self {
        if !plain && io::stdout().is_terminal() && io::stdin().is_terminal() {
            let mut renderer: Box<dyn MetricsRenderer> =
                Box::new(TuiMetricsRendererWrapper::new(stop.clone(), None));
            for metric in metrics {
                let attributes = NumericAttributes {
                    unit: metric.unit.map(str::to_string),
                    higher_is_better: metric.higher_is_better,
                };
                renderer.register_metric(MetricDefinition {
                    metric_id: id(metric.name),
                    name: Arc::new(metric.name.to_string()),
                    description: None,
                    attributes: MetricAttributes::Numeric(attributes),
                });
            }
            keep_ctrl_c();
            renderer.start(length.epochs, 0, Some(length.steps), Some(program));
            renderer.start_split("train", length.steps);
            return Self::Full {
                renderer,
                metrics,
                lines: Vec::new(),
                epoch: 0,
            };
        }
        let style = ProgressStyle::with_template("{percent:>3}% {wide_bar} {msg}  {eta} left")
            .expect("the template is well formed");
        let bar = ProgressBar::new(length.steps as u64).with_style(style);
        bar.set_position(length.done as u64);
        bar.reset_eta();
        Self::Plain {
            bar,
            last_line: Instant::now(),
        }
    }

    /// Shows a finished step: the values of all metrics in their order, and the text next to the bar.
    pub fn step(&mut self, (now, step): (usize, usize), values: &[f64], text: &str) {
        match self {
            Self::Full {
                renderer,
                metrics,
                epoch,
                ..
            } => {
                if now != *epoch {
                    *epoch = now;
                    renderer.update_epoch(now);
                }
                for (metric, &value) in metrics.iter().zip(values) {
                    renderer.update_train(state(metric.name, value));
                }
                renderer.update_split(step);
            }
            Self::Plain { bar, last_line } => {
                bar.set_position(step as u64);
                bar.set_message(text.to_string());
                if bar.is_hidden() && last_line.elapsed() >= PLAIN_INTERVAL {
                    *last_line = Instant::now();
                    let _ = writeln!(
                        io::stderr(),
                        "step {}/{}  {text}  {} left",
                        bar.position(),
                        bar.length().unwrap_or_default(),
                        HumanDuration(bar.eta())
                    );
                }
            }
        }
    }

    /// Plots a value of a validation. Without the full dashboard it has no effect.
    pub fn validation(&mut self, name: &str, value: f64) {
        if let Self::Full { renderer, .. } = self {
            renderer.update_valid(state(name, value));
        }
    }

    /// Prints a line, after the run if the dashboard covers the terminal.
    pub fn line(&mut self, line: String) {
        match self {
            Self::Full { lines, .. } => lines.push(line),
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
