//! What a GPU does with the GRU, from a folder that is carried there: `build` makes the folder, `run` is
//! what its script starts.

mod error;
mod folder;
#[cfg(feature = "gpu")]
mod page;
#[cfg(feature = "gpu")]
mod part;
#[cfg(feature = "gpu")]
mod report;
#[cfg(feature = "gpu")]
mod run;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "What a GPU does with the GRU")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes the folder: programs, script and recorded files, to be carried to a machine with a GPU.
    Build {
        /// Where it goes. What is there stays, but for the kit's own files.
        folder: PathBuf,
        /// Shader languages, a program for each: wgsl, and spirv or, on a Mac, metal.
        #[arg(long, value_delimiter = ',', default_values_t = folder::shaders())]
        shaders: Vec<String>,
    },
    /// Every part in turn, until the time is over.
    #[cfg(feature = "gpu")]
    Run {
        /// For all parts together.
        #[arg(long, default_value_t = 500)]
        seconds: u64,
        /// Where the results go: kit.json, page.md, and what each part printed.
        #[arg(long)]
        out: PathBuf,
        /// Only these parts.
        #[arg(long, value_delimiter = ',')]
        parts: Vec<String>,
        /// Further programs, of other shader languages, for a second opinion.
        #[arg(long)]
        also: Vec<PathBuf>,
    },
    /// One part, here and now, and its page.
    #[cfg(feature = "gpu")]
    Part {
        /// Its name.
        name: String,
        /// When it should have ended by itself.
        #[arg(long, default_value_t = 3600)]
        seconds: u64,
        /// Its rows go to this file instead, a line of JSON each.
        #[arg(long)]
        rows: Option<PathBuf>,
        /// What it is to do: of `cuts`, sizes N T H, and words that the cuts must have.
        more: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Build { folder, shaders } => folder::build(&folder, &shaders),
        #[cfg(feature = "gpu")]
        Command::Run {
            seconds,
            out,
            parts,
            also,
        } => run::run(seconds, &out, &parts, &also),
        #[cfg(feature = "gpu")]
        Command::Part {
            name,
            seconds,
            rows,
            more,
        } => part::run(&name, seconds, rows.as_deref(), &more),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpu-kit: {error}");
            error.exit_code().into()
        }
    }
}
