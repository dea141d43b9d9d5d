//! Spelling to phonemes, one line per word.

use std::io::{self, Write};
use std::path::PathBuf;

use burn::tensor::Device;
use clap::Parser;
use g2p::{Error, weights};
use gru_op::Precision;

/// Converts English words to phonemes (ARPABET), one line per word
#[derive(Parser, Debug)]
#[command(name = "g2p", version)]
struct Cli {
    /// Words. Without words, they are read from standard input
    words: Vec<String>,

    /// The wheel of g2p_en 2.1.0
    #[arg(long, value_name = "WHEEL")]
    weights: PathBuf,

    /// Round the weights of the GRUs to 8 bits: a quarter of the memory, and faster
    #[arg(long)]
    int8: bool,
}

/// Words per batch.
const BATCH: usize = 64;

fn main() -> Result<(), Error> {
    let cli = Cli::parse();
    let precision = if cli.int8 {
        Precision::Int8
    } else {
        Precision::Full
    };
    let model = weights::load(&cli.weights, precision, &Device::flex())?;
    let text = if cli.words.is_empty() {
        io::read_to_string(io::stdin())?
    } else {
        cli.words.join(" ")
    };
    // The model knows lower-case letters.
    let text = text.to_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    for words in words.chunks(BATCH) {
        for phonemes in model.phonemes(words)? {
            writeln!(io::stdout(), "{}", phonemes.join(" "))?;
        }
    }
    Ok(())
}
