//! The program `char-gru`. Its commands are in the library.

use std::process::ExitCode;

use char_gru::{commands, config::Cli};
use clap::Parser;
use training_kit::allocator::keep_buffers;

fn main() -> ExitCode {
    let cli = Cli::parse();
    keep_buffers();
    ExitCode::from(commands::run(&cli))
}
