//! Trains agents on a task of memory with recurrent PPO, and shows what wrong starts of episodes do.

// Public only for the modules of this program.
#![allow(missing_docs)]

mod agent;
mod chart;
mod config;
mod env;
mod error;
mod model;
mod ppo;
mod rollout;
#[cfg(test)]
mod tests;
mod train;

use std::process::ExitCode;

use burn::tensor::Device;
use clap::Parser;
use training_kit::allocator::keep_buffers;
use training_kit::progress::say;

use crate::chart::Curve;
use crate::config::{Cli, name};
use crate::error::Error;

fn main() -> ExitCode {
    let cli = Cli::parse();
    keep_buffers();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Trains the agents one after the other, and draws their curves.
fn run(cli: &Cli) -> Result<(), Error> {
    let device = Device::flex().autodiff();
    let mut curves = vec![];
    for &agent in cli.agents() {
        let points = train::train(cli, agent, &cli.out.join(name(&agent)), &device)?;
        curves.push(Curve {
            label: agent.label().to_string(),
            colour: curves.len(),
            points,
        });
    }
    let path = cli.out.join("recall.svg");
    chart::draw(&curves, &path)?;
    say(&format!("{} shows the curves", path.display()));
    Ok(())
}
