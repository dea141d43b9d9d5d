//! Spelling to phonemes, one line per word. Arguments, input and output.

use std::io::{self, BufRead, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use burn::tensor::Device;
use clap::Parser;
use gru_op::Precision;

use g2p::error::Error;
use g2p::model::G2p;
use g2p::weights;

/// Converts English words to phonemes (ARPABET), one line per word
#[derive(Parser, Debug)]
#[command(name = "g2p", version)]
struct Cli {
    /// Words. Without words, they are read from standard input
    words: Vec<String>,

    /// The wheel of g2p_en 2.1.0, or the checkpoint20.npz in it
    #[arg(long, value_name = "FILE")]
    weights: PathBuf,

    /// Words per batch
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    batch: u16,

    /// Round the weights of the GRUs to 8 bits: a quarter of the memory, and faster
    #[arg(long)]
    int8: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // A closed reader is not an error.
        Err(Error::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let message = error.to_string();
            let line: Vec<&str> = message.split_whitespace().collect();
            eprintln!("error: {}", line.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), Error> {
    let precision = if cli.int8 {
        Precision::Int8
    } else {
        Precision::Full
    };
    let model = weights::load(&cli.weights, &Device::flex(), precision)?;
    let mut converter = Converter {
        model,
        waiting: Vec::new(),
        batch: cli.batch.into(),
        out: BufWriter::new(io::stdout().lock()),
    };
    for word in &cli.words {
        converter.line(word)?;
    }
    if cli.words.is_empty() {
        for line in io::stdin().lock().lines() {
            converter.line(&line.map_err(Error::Words)?)?;
        }
    }
    converter.flush()
}

/// Collects words until a batch is full.
struct Converter<W> {
    model: G2p,
    waiting: Vec<String>,
    batch: usize,
    out: W,
}

impl<W: Write> Converter<W> {
    /// Converts the words of a line to lower case, which the model requires.
    fn line(&mut self, line: &str) -> Result<(), Error> {
        for word in line.split_whitespace() {
            self.waiting.push(word.to_lowercase());
            if self.waiting.len() == self.batch {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let words: Vec<&str> = self.waiting.iter().map(String::as_str).collect();
        for phonemes in self.model.phonemes(&words)? {
            writeln!(self.out, "{}", phonemes.join(" ")).map_err(Error::Write)?;
        }
        self.waiting.clear();
        self.out.flush().map_err(Error::Write)
    }
}
