//! Checks and times the GRU on a GPU of another machine. `build` makes a folder for that machine. The
//! script in the folder starts `run`.

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
#[command(about = "Checks and times the GRU on a GPU of another machine")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes the folder for a machine with a GPU: programs, script and recorded files
    Build {
        /// Where to make it. Other files in it stay
        folder: PathBuf,
        /// Shader languages, one program for each: wgsl, spirv or (on a Mac) metal, and cuda
        #[arg(long, value_delimiter = ',', default_values_t = folder::shaders())]
        shaders: Vec<String>,
    },
    /// Runs all parts one after the other until the time is over
    #[cfg(feature = "gpu")]
    Run {
        /// Time for all parts together
        #[arg(long, default_value_t = 500)]
        seconds: u64,
        /// Folder for the results: kit.json, page.md, and the output of each part
        #[arg(long)]
        out: PathBuf,
        /// Run only these parts
        #[arg(long, value_delimiter = ',')]
        parts: Vec<String>,
        /// More programs with other shader languages, which repeat some parts
        #[arg(long)]
        also: Vec<PathBuf>,
    },
    /// Runs one part and prints its page
    #[cfg(feature = "gpu")]
    Part {
        /// Name of the part
        name: String,
        /// Time after which the part should stop by itself
        #[arg(long, default_value_t = 3600)]
        seconds: u64,
        /// Write rows to this file instead, one line of JSON each
        #[arg(long)]
        rows: Option<PathBuf>,
        /// Arguments of the part. For `speed`: names of shapes. For `cuts`: sizes N T H, and words that a launch
        /// configuration must contain
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
