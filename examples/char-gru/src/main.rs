//! The program `char-gru`. Its commands are in the library.

use std::process::ExitCode;

use char_gru::{allocator::keep_buffers, commands, config::Cli};
use clap::Parser;

fn main() -> ExitCode {
    let cli = Cli::parse();
    keep_buffers();
    ExitCode::from(commands::run(&cli))
}
