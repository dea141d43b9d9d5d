//! Trains agents on a task of memory with recurrent PPO, and shows what wrong starts of episodes do.

// Public only for the modules of this program.
#![allow(missing_docs)]

mod agent;
mod chart;
mod env;
mod network;
mod ppo;
#[cfg(test)]
mod tests;
mod window;

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use burn::tensor::Device;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

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

    /// File for the learning curves
    #[arg(long, value_name = "SVG", default_value = "recall.svg")]
    chart: PathBuf,
}

/// Windows of the evaluation: 400 thousand answers.
const EVALUATED: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let cli = Cli::parse();
    let mut curves = Vec::new();
    for &agent in &cli.agents {
        let mut trainer = Trainer::new(agent, cli.seed, &Device::flex().autodiff());
        let style = ProgressStyle::with_template("{percent:>3}% {wide_bar} {msg}  {eta}")?;
        let bar = ProgressBar::new(cli.updates as u64).with_style(style);
        let mut right = Vec::new();
        let mut largest = 0.0_f64;
        for _ in 0..cli.updates {
            let update = trainer.update()?;
            right.push(update.right);
            largest = largest.max(update.first_ratio);
            bar.set_message(format!("{agent:?}: {:.3} right", update.right));
            bar.inc(1);
        }
        bar.finish_and_clear();
        curves.push((agent, right));
        fs::write(&cli.chart, chart::curves(&curves)?)?;
        let right = trainer.evaluate(EVALUATED)?;
        println!("{agent:?}: {right:.3} right with fixed parameters, |ρ − 1| ≤ {largest:.0e}");
    }
    println!("{} shows the learning curves", cli.chart.display());
    Ok(())
}
