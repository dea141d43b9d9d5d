//! Runs the code of README and the book, which `build.rs` writes, and compares the messages that the book quotes.

mod messages;

// Parts of programs, which `build.rs` reads. rustfmt formats them.
#[cfg(any())]
mod contexts;

#[allow(warnings, clippy::all, clippy::match_bool)]
mod blocks {
    include!(concat!(env!("OUT_DIR"), "/book.rs"));
}

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::{env, process::Command};

/// The variable with the name of the program that a process runs.
const PROGRAM: &str = "GRU_BOOK_PROGRAM";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let messages = ("messages", messages::are_quoted as fn() -> _);
    let programs: Vec<_> = blocks::BLOCKS.iter().copied().chain([messages]).collect();
    if let Ok(name) = env::var(PROGRAM) {
        let program = programs.iter().find(|program| program.0 == name);
        return program.expect("the parent process has the same list").1();
    }
    let trials = programs
        .iter()
        .map(|&(name, _)| Trial::ignorable_test(name, || runs(name)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit()
}

/// Runs a program as a reader does: as a process, in a folder of its own.
fn runs(name: &str) -> Result<Completion, Failed> {
    let folder = tempfile::tempdir()?;
    let mut process = Command::new(env::current_exe()?);
    let output = process.env(PROGRAM, name).current_dir(&folder).output()?;
    if output.status.success() {
        return Ok(Completion::Completed);
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    if cfg!(target_endian = "big") && text.contains("whose byte order is unknown") {
        return Ok(Completion::ignored_with("it reads a record of Burn"));
    }
    Err(text.into())
}
