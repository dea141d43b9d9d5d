//! Every hyperparameter, once, with its default and the reason for it.

use std::path::PathBuf;

use clap::Parser;
use clap::builder::{RangedU64ValueParser, TypedValueParser};

use crate::backend::Backend;

const AFTER_HELP: &str = "Without arguments it learns Cicero's Latin, which is part of the \
    program, on the CPU, and saves the model as char-gru.bpk.";

const DATA: &str = "Data and files";
const MODEL: &str = "Model";
const TRAINING: &str = "Training";
const SAMPLING: &str = "Sampling";

/// Train a character-level GRU on a text, then let it write.
#[derive(Parser, Clone, Debug)]
#[command(name = "char-gru", version, after_help = AFTER_HELP)]
pub struct Config {
    /// UTF-8 text to learn from, instead of the built-in one
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub text: Option<PathBuf>,

    /// Part of the text, its end, kept for validation
    #[arg(long, value_name = "PART", default_value_t = 0.1, value_parser = fraction, help_heading = DATA)]
    pub validation: f64, // the usual 90/10 split

    /// Where the trained model goes; replaced in one step at the end
    #[arg(long, value_name = "FILE", default_value = "char-gru.bpk", help_heading = DATA)]
    pub out: PathBuf,

    /// Start from these saved parameters
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub init: Option<PathBuf>,

    /// Save the parameters before the first step, to start other runs from
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub save_init: Option<PathBuf>,

    /// Write step, loss, gradient norm and learning rate as JSON lines
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub log: Option<PathBuf>,

    /// Size of a character's embedding
    #[arg(long, value_name = "E", default_value_t = 128, value_parser = size(16_384), help_heading = MODEL)]
    pub embed: usize, // dropout takes a part of it: 64 validates 0.02 nats worse, 32 0.09

    /// Units in each GRU layer
    #[arg(long, value_name = "H", default_value_t = 192, value_parser = size(16_384), help_heading = MODEL)]
    pub hidden: usize, // 256 takes half as long again and gains nothing on 44 thousand characters

    /// GRU layers
    #[arg(long, value_name = "L", default_value_t = 1, value_parser = size(64), help_heading = MODEL)]
    pub layers: usize, // enough for a text this small

    /// Dropout before, between and after the layers
    #[arg(long, value_name = "P", default_value_t = 0.4, value_parser = probability, help_heading = MODEL)]
    pub dropout: f64, // the built-in text is small and read 40 times

    /// Where to compute; a GPU needs the Cargo feature of that name
    #[arg(long, value_name = "NAME", default_value_t = Backend::Flex, value_enum, help_heading = TRAINING)]
    pub backend: Backend, // the faster of the two CPU backends on this very run

    /// Passes over the text
    #[arg(long, value_name = "K", default_value_t = 40, value_parser = size(1_000_000), help_heading = TRAINING)]
    pub epochs: usize, // about a minute; twice as many gain 0.01 nats

    /// Stop after this many steps, whatever --epochs says
    #[arg(long, value_name = "K", value_parser = size(usize::MAX as u64), help_heading = TRAINING)]
    pub max_steps: Option<usize>,

    /// Parallel streams the text is cut into
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = size(65_536), help_heading = TRAINING)]
    pub batch: usize, // 32 gives this small text too few steps, 8 too little work for each

    /// Characters per window: gradients stop at its start, the state flows on
    #[arg(long, visible_alias = "steps-per-window", value_name = "T", default_value_t = 64, value_parser = size(65_536), help_heading = TRAINING)]
    pub seq: usize, // a line of the text

    /// Peak learning rate of Adam; warm-up and cosine decay around it
    #[arg(long, value_name = "RATE", default_value_t = 4e-3, value_parser = positive, help_heading = TRAINING)]
    pub lr: f64, // 6e-3 learns no faster

    /// Largest norm of the whole gradient
    #[arg(long, value_name = "NORM", default_value_t = 1.0, value_parser = positive, help_heading = TRAINING)]
    pub clip: f64, // rarely reached after the first epoch; recurrent gradients do spike

    /// Fixes parameters, dropout, windows and sample
    #[arg(long, value_name = "SEED", default_value_t = 1, help_heading = TRAINING)]
    pub seed: u64,

    /// Characters to write after training
    #[arg(long, value_name = "COUNT", default_value_t = 500, help_heading = SAMPLING)]
    pub sample_length: usize,

    /// Below 1 the sample keeps to the likely, above 1 it dares
    #[arg(long, value_name = "TEMP", default_value_t = 0.7, value_parser = positive, help_heading = SAMPLING)]
    pub temperature: f64, // few misspellings, little repetition

    /// Text to continue; a new line where none is given
    #[arg(long, value_name = "TEXT", help_heading = SAMPLING)]
    pub prompt: Option<String>,
}

/// A count from 1 to `largest`: an absurd size fails here and not in the allocator.
fn size(largest: u64) -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(1..=largest)
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "not a number".to_string())
}

fn positive(text: &str) -> Result<f64, String> {
    match number(text)? {
        x if x > 0.0 && x.is_finite() => Ok(x),
        _ => Err("must be greater than 0".to_string()),
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match number(text)? {
        x if x > 0.0 && x < 1.0 => Ok(x),
        _ => Err("must lie between 0 and 1".to_string()),
    }
}

fn probability(text: &str) -> Result<f64, String> {
    match number(text)? {
        x if (0.0..1.0).contains(&x) => Ok(x),
        _ => Err("must be at least 0 and less than 1".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_is_well_formed() {
        Config::command().debug_assert();
    }

    #[test]
    fn the_defaults_parse() {
        let config = Config::try_parse_from(["char-gru"]).unwrap();
        assert_eq!(config.out, PathBuf::from("char-gru.bpk"));
    }

    #[test]
    fn bad_numbers_are_refused() {
        let bad = [
            ["--hidden", "0"],
            ["--layers", "0"],
            ["--batch", "0"],
            ["--batch", "-3"],
            ["--seq", "0"],
            ["--epochs", "0"],
            ["--max-steps", "0"],
            ["--hidden", "99999999999"],
            ["--temperature", "0"],
            ["--temperature", "inf"],
            ["--lr", "-1"],
            ["--lr", "NaN"],
            ["--clip", "0"],
            ["--dropout", "1"],
            ["--validation", "0"],
            ["--validation", "1"],
            ["--backend", "abacus"],
        ];
        for [flag, value] in bad {
            let parsed =
                Config::try_parse_from(["char-gru".to_string(), format!("{flag}={value}")]);
            assert_eq!(parsed.unwrap_err().exit_code(), 2, "{flag}={value}");
        }
    }
}
