//! The training of one agent.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use rand::{SeedableRng, rngs::StdRng};
use serde_json::json;
use training_kit::error::Error as RunError;
use training_kit::log::Log;
use training_kit::progress::{self, say};

use crate::agent::Agent;
use crate::config::{Cli, Settings, name};
use crate::env::Environments;
use crate::error::Error;
use crate::model::Network;
use crate::ppo::{Learned, Learner, adam};
use crate::rollout::Window;

/// Updates between two points of the chart, whose share is the mean of these updates.
pub const POINT: usize = 10;
/// Windows of the evaluation at the end, or fewer if a run has fewer updates.
const EVALUATED: usize = 100;
/// Updates between two lines.
const REPORT: usize = 50;

/// The position of a run. The random numbers of an update depend only on the seed and the update.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Finished updates.
    pub update: usize,
    pub environments: Environments,
    /// Right answers and all answers since the last point.
    pub right: f64,
    pub counted: f64,
    /// Steps in all environments, and the share of right answers since the previous point.
    pub points: Vec<(usize, f64)>,
}

/// An agent, its environments and its position.
pub struct Trainer {
    pub agent: Agent,
    pub settings: Settings,
    pub learner: Learner,
    /// The state after the last window, `[1,N,H]`.
    pub state: Tensor<3>,
    pub progress: Progress,
    seed: u64,
    device: Device,
}

/// A finished update.
pub struct Update {
    pub learned: Learned,
    /// Share of right answers in the window.
    pub share: f64,
    pub entropy: f64,
    pub acting: Duration,
    pub learning: Duration,
}

impl Trainer {
    /// An agent with random parameters on `device`, which supports autodiff.
    pub fn new(agent: Agent, settings: Settings, seed: u64, device: &Device) -> Self {
        device.seed(seed);
        let (n, h) = (settings.environments, settings.hidden);
        Self {
            agent,
            learner: Learner {
                network: Network::new(h, device),
                optimizer: adam(),
            },
            state: Tensor::zeros([1, n, h], &device.clone().inner()),
            progress: Progress {
                update: 0,
                environments: Environments::new(n, &mut generator(seed, 0)),
                right: 0.0,
                counted: 0.0,
                points: vec![],
            },
            settings,
            seed,
            device: device.clone(),
        }
    }

    /// Acts for a window.
    pub fn act(&mut self, rng: &mut StdRng) -> Result<Window, Error> {
        let network = self.learner.network.valid();
        let environments = &mut self.progress.environments;
        let (state, t) = (self.state.clone(), self.settings.steps);
        let (window, state) = Window::act(&network, self.agent, environments, state, t, rng)?;
        self.state = state;
        Ok(window)
    }

    /// Acts for a window and learns from it.
    pub fn update(&mut self) -> Result<Update, Error> {
        let mut rng = generator(self.seed, self.progress.update + 1);
        let start = Instant::now();
        let window = self.act(&mut rng)?;
        let acting = start.elapsed();
        let (agent, settings, device) = (self.agent, &self.settings, &self.device);
        let learned = self
            .learner
            .learn(&window, agent, settings, device, &mut rng)?;
        let learning = start.elapsed() - acting;

        let at = &mut self.progress;
        at.update += 1;
        if !learned.loss.is_finite() {
            let (update, loss) = (at.update, learned.loss);
            return Err(Error::Diverged { update, loss });
        }
        at.right += window.right;
        at.counted += window.counted;
        if at.update.is_multiple_of(POINT) {
            let steps = at.update * settings.environments * settings.steps;
            at.points.push((steps, at.right / at.counted));
            (at.right, at.counted) = (0.0, 0.0);
        }
        Ok(Update {
            learned,
            share: window.right / window.counted.max(1.0),
            entropy: window.entropy,
            acting,
            learning,
        })
    }

    /// The share of right answers with fixed parameters in new environments, over this many windows.
    ///
    /// In training, episodes continue while the parameters change. So even without memory, an answer may depend
    /// on the first symbol.
    pub fn evaluate(&self, windows: usize) -> Result<f64, Error> {
        let mut rng = StdRng::seed_from_u64(!self.seed);
        let n = self.settings.environments;
        let mut environments = Environments::new(n, &mut rng);
        let network = self.learner.network.valid();
        let mut state = self.state.zeros_like();
        let (mut right, mut counted) = (0.0, 0.0);
        // The first window does not count, because all its episodes start together.
        for k in 0..=windows {
            let t = self.settings.steps;
            let acted = Window::act(&network, self.agent, &mut environments, state, t, &mut rng);
            let (window, next) = acted?;
            state = next;
            if k > 0 {
                right += window.right;
                counted += window.counted;
            }
        }
        Ok(right / counted)
    }
}

/// The random numbers of an update.
fn generator(seed: u64, update: usize) -> StdRng {
    let golden = 0x9e37_79b9_7f4a_7c15; // distributes the updates over all seeds
    StdRng::seed_from_u64(seed ^ (update as u64 + 1).wrapping_mul(golden))
}

/// Trains an agent in its own folder, and returns the points of its curve.
pub fn train(
    cli: &Cli,
    agent: Agent,
    folder: &Path,
    device: &Device,
) -> Result<Vec<(usize, f64)>, Error> {
    fs::create_dir_all(folder).map_err(|e| RunError::write(folder, e))?;
    let arguments = format!("{} seed {}", name(&agent), cli.seed);
    let mut trainer = Trainer::new(agent, Settings::default(), cli.seed, device);
    let mut log = Log::open(&folder.join("log.jsonl"), 0)?;
    let mut shown = progress::Progress::new(cli.updates, 0);
    let mut speed = Speed::default();
    for update in 1..=cli.updates {
        let made = trainer.update()?;
        speed.add(&made);
        let Learned { loss, first_ratio } = made.learned;
        let text = format!(
            "{arguments}: {:.3} right  entropy {:.2}  {:.1}k steps/s",
            made.share,
            made.entropy,
            speed.steps_per_second(&trainer.settings) / 1000.0
        );
        shown.step(update, &text);
        log.line(&json!({
            "step": update,
            "right": made.share,
            "entropy": made.entropy,
            "loss": loss,
            "first_ratio": first_ratio,
            "acting_seconds": made.acting.as_secs_f64(),
            "learning_seconds": made.learning.as_secs_f64(),
        }))?;
        if update.is_multiple_of(REPORT) || update == cli.updates {
            shown.line(&format!("update {update:>5}  {text}"));
        }
    }
    shown.finish();
    let share = trainer.evaluate(cli.updates.min(EVALUATED))?;
    say(&format!(
        "{arguments}: {share:.3} right with fixed parameters; {}",
        speed.text(&trainer.settings)
    ));
    Ok(trainer.progress.points)
}

/// The time of a run.
#[derive(Default)]
struct Speed {
    updates: usize,
    acting: Duration,
    learning: Duration,
}

impl Speed {
    fn add(&mut self, update: &Update) {
        self.updates += 1;
        self.acting += update.acting;
        self.learning += update.learning;
    }

    fn steps_per_second(&self, settings: &Settings) -> f64 {
        let steps = self.updates * settings.environments * settings.steps;
        steps as f64 / (self.acting + self.learning).as_secs_f64()
    }

    fn text(&self, settings: &Settings) -> String {
        let minibatches = self.updates * settings.epochs * settings.minibatches;
        format!(
            "{:.0}k steps/s, {:.2} ms per minibatch, {:.0} µs per acted step of {} environments",
            self.steps_per_second(settings) / 1e3,
            self.learning.as_secs_f64() * 1e3 / minibatches as f64,
            self.acting.as_secs_f64() * 1e6 / (self.updates * settings.steps) as f64,
            settings.environments
        )
    }
}
