//! The command line and every hyperparameter, with its reason.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Parser, ValueEnum};

use crate::agent::Agent;
use crate::train::POINT;

/// Trains agents on a task of memory with recurrent PPO: name the first symbol of the episode
#[derive(Parser, Clone, Debug)]
#[command(name = "recall", version)]
pub struct Cli {
    /// The agent to train
    #[arg(long, value_name = "NAME", default_value_t = Agent::Restarts, value_enum)]
    pub agent: Agent,

    /// Train all five agents, and draw one chart
    #[arg(long, conflicts_with = "agent")]
    pub compare: bool,

    /// Updates of each agent, 4096 steps each. Ten updates are a point of the chart
    #[arg(long, value_name = "K", default_value_t = 500, value_parser = RangedU64ValueParser::<usize>::new().range(POINT as u64..=1_000_000))]
    pub updates: usize, // an agent with restarts needs 100 for 95%

    /// Seed of parameters, environments and actions
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// Folder for the chart, and for a folder of each agent
    #[arg(long, value_name = "DIR", default_value = "recall")]
    pub out: PathBuf,
}

impl Cli {
    /// The agents to train, one after the other.
    pub fn agents(&self) -> &[Agent] {
        if self.compare {
            Agent::value_variants()
        } else {
            std::slice::from_ref(&self.agent)
        }
    }
}

/// The name of a value on the command line.
pub fn name(value: &impl ValueEnum) -> String {
    let shown = value.to_possible_value();
    shown.map_or_else(String::new, |shown| shown.get_name().to_string())
}

/// Hyperparameters.
#[derive(Clone, Debug)]
pub struct Settings {
    /// N, environments that act at the same time.
    pub environments: usize,
    /// T, steps of a window. Gradients stop at its start, the state is carried.
    pub steps: usize,
    /// H, units of each layer.
    pub hidden: usize,
    /// Passes over a window.
    pub epochs: usize,
    /// Minibatches of each pass, of whole rows.
    pub minibatches: usize,
    /// The largest change of a probability ratio that is rewarded.
    pub clip: f64,
    /// Discount of later rewards.
    pub gamma: f32,
    /// Weight of later steps in the advantage.
    pub lambda: f32,
    pub learning_rate: f64,
    pub entropy_weight: f64,
    pub value_weight: f64,
    /// Largest global norm of the gradient.
    pub max_norm: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            environments: 64,
            steps: 64, // two episodes on average
            hidden: 64,
            epochs: 2,
            minibatches: 2,
            clip: 0.2,
            gamma: 0.9, // an action has no effect on later steps, so a short horizon is enough
            lambda: 0.9,
            learning_rate: 1e-3,
            entropy_weight: 0.01,
            value_weight: 0.5,
            max_norm: 0.5,
        }
    }
}
