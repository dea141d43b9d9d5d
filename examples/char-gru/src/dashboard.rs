//! What the dashboard and the log show of a step.

use serde_json::{Value, json};
use training_kit::dashboard::Metric;

use char_model::trainer;

/// One training step and its speed.
pub struct Step {
    pub made: trainer::Step,
    pub seconds: f64,
    /// Characters per second since the last validation.
    pub characters_per_second: f64,
}

pub const LOSS: &str = "Loss";

/// The metrics, in the order of [`Step::values`].
pub const METRICS: &[Metric] = &[
    metric(LOSS, Some("nats"), false),
    metric("Learning rate", None, false),
    metric("Gradient norm", None, false),
    metric("Characters/s", None, true),
];

const fn metric(name: &'static str, unit: Option<&'static str>, higher_is_better: bool) -> Metric {
    Metric {
        name,
        unit,
        higher_is_better,
    }
}

impl Step {
    /// The values of the metrics.
    pub fn values(&self) -> [f64; 4] {
        let of = &self.made;
        [
            f64::from(of.loss),
            of.learning_rate,
            f64::from(of.gradient_norm),
            self.characters_per_second,
        ]
    }

    /// The text next to the progress bar.
    pub fn text(&self) -> String {
        format!(
            "epoch {}  loss {:.3}  {:.1}k characters/s",
            self.made.epoch,
            self.made.loss,
            self.characters_per_second / 1000.0
        )
    }

    /// A line of the log.
    pub fn line(&self) -> Value {
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
