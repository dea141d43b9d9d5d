//! Trains agents on a task of memory with recurrent PPO, and shows what wrong starts of episodes do.

// Public only for the modules of this program.
#![allow(missing_docs)]

mod agent;
mod env;
mod network;
mod ppo;
#[cfg(test)]
mod tests;
mod window;

use std::error::Error;

use burn::tensor::Device;
use clap::Parser;

use crate::agent::Agent;
use crate::ppo::Trainer;

/// Trains agents on a task of memory with recurrent PPO: name the first symbol of the episode
#[derive(Parser, Debug)]
#[command(name = "recall", version)]
struct Cli {
    /// The agents to train, one after the other
    #[arg(value_name = "AGENT", default_value = "restarts", value_enum)]
    agents: Vec<Agent>,

    /// Updates of each agent, 4096 steps each
    #[arg(long, value_name = "K", default_value_t = 500)]
    updates: usize,

    /// Seed of parameters, environments and actions
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// Updates between two lines.
const REPORT: usize = 50;
/// Windows of the evaluation: 400 thousand answers.
const EVALUATED: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let cli = Cli::parse();
    for &agent in &cli.agents {
        let mut trainer = Trainer::new(agent, cli.seed, &Device::flex().autodiff());
        for update in 1..=cli.updates {
            let made = trainer.update()?;
            if update == 1 || update.is_multiple_of(REPORT) {
                let (right, ratio) = (made.right, made.first_ratio);
                println!("{agent:?}, update {update}: {right:.3} right, |ρ − 1| ≤ {ratio:.0e}");
            }
        }
        let right = trainer.evaluate(EVALUATED)?;
        println!("{agent:?}: {right:.3} right with fixed parameters");
    }
    Ok(())
}
