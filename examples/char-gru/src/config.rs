//! Every command and hyperparameter, with its default and the reason for the default.

use std::path::PathBuf;

use clap::builder::{RangedU64ValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use crate::backend::Backend;

const AFTER_HELP: &str = "Without arguments the program trains on Cicero's Latin, which is built in, \
    on the CPU, saves the model to the folder char-gru, and generates text.";

const DATA: &str = "Data and files";
const MODEL: &str = "Model";
const TRAINING: &str = "Training";
const SAMPLING: &str = "Sampling";

/// Trains a character-level GRU on a text and generates more text
#[derive(Parser, Clone, Debug)]
#[command(name = "char-gru", version, after_help = AFTER_HELP)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,

    #[command(flatten)]
    pub train: TrainArgs,
}

#[derive(Subcommand, Clone, Debug)]
#[allow(clippy::large_enum_variant)] // One value per run, on the stack.
pub enum Command {
    /// Train on a text, then generate a sample. This is the default command
    Train(TrainArgs),
    /// Generate text with a model, one step per character
    Sample(SampleArgs),
    /// Evaluate a model on a text, in bits per character
    Eval(EvalArgs),
    /// Export a model's parameters with PyTorch's names, as safetensors
    Export(ExportArgs),
    /// Import a model from parameters with PyTorch's names
    Import(ImportArgs),
}

#[derive(Args, Clone, Debug)]
pub struct TrainArgs {
    /// UTF-8 text for training instead of the built-in text: files, or folders of .txt files, read as
    /// one text
    #[arg(long, value_name = "PATH", num_args = 1.., help_heading = DATA)]
    pub text: Vec<PathBuf>,

    /// Share of the text, at its end, for validation
    #[arg(long, value_name = "PART", default_value_t = 0.1, value_parser = fraction, help_heading = DATA)]
    pub validation: f64, // the usual 90/10 split

    /// Folder for the model, checkpoint, log and chart
    #[arg(long, value_name = "DIR", default_value = "char-gru", help_heading = DATA)]
    pub out: PathBuf,

    /// Resume from the checkpoint in --out, with the same losses as without the interruption. All other
    /// arguments must be the same
    #[arg(long, help_heading = DATA)]
    pub resume: bool,

    /// Start with the parameters of this model
    #[arg(long, value_name = "FILE", conflicts_with = "resume", help_heading = DATA)]
    pub init: Option<PathBuf>,

    /// Save the initial parameters, for other runs
    #[arg(long, value_name = "FILE", conflicts_with = "resume", help_heading = DATA)]
    pub save_init: Option<PathBuf>,

    /// Size of an embedding
    #[arg(long, value_name = "E", default_value_t = 128, value_parser = size(16_384), help_heading = MODEL)]
    pub embed: usize, // dropout removes a part of it: the validation loss is 0.02 nats higher with 64, 0.09 with 32

    /// Units in each GRU layer
    #[arg(long, value_name = "H", default_value_t = 192, value_parser = size(16_384), help_heading = MODEL)]
    pub hidden: usize, // 256 takes 50% more time, with no better loss on 44 thousand characters

    /// GRU layers
    #[arg(long, value_name = "L", default_value_t = 1, value_parser = size(64), help_heading = MODEL)]
    pub layers: usize, // enough for a text this small

    /// Dropout before, between and after the layers
    #[arg(long, value_name = "P", default_value_t = 0.4, value_parser = probability, help_heading = MODEL)]
    pub dropout: f64, // the built-in text is small and read 40 times

    /// Where to compute. A GPU requires the Cargo feature with the same name
    #[arg(long, value_name = "NAME", default_value_t = Backend::Flex, value_enum, help_heading = TRAINING)]
    pub backend: Backend, // the faster of the two CPU backends on this very run

    /// Split the rows of each batch over the devices of several gru-servers: ws://HOST:PORT. The first
    /// device keeps parameters and optimizer
    #[arg(long, value_name = "SERVER", value_delimiter = ',', value_parser = server, help_heading = TRAINING)]
    pub devices: Vec<String>,

    /// Passes over the text
    #[arg(long, value_name = "K", default_value_t = 40, value_parser = size(1_000_000), help_heading = TRAINING)]
    pub epochs: usize, // half a minute; 80 epochs lower the loss by 0.01 nats

    /// Stop after this many steps, regardless of --epochs
    #[arg(long, value_name = "K", value_parser = size(usize::MAX as u64), help_heading = TRAINING)]
    pub max_steps: Option<usize>,

    /// Validate and save a checkpoint after this many steps. Default: once per epoch
    #[arg(long, value_name = "K", value_parser = size(usize::MAX as u64), help_heading = TRAINING)]
    pub check_every: Option<usize>,

    /// Stop after this many validations without improvement
    #[arg(long, value_name = "K", value_parser = size(1_000_000), help_heading = TRAINING)]
    pub patience: Option<usize>,

    /// Number of parallel streams of the text
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = size(16_384), help_heading = TRAINING)]
    pub batch: usize, // 32 gives too few steps for this small text, 8 too little work per step

    /// Characters per window. Gradients stop at its start, the state is carried
    #[arg(long, value_name = "T", default_value_t = 64, value_parser = size(65_536), help_heading = TRAINING)]
    pub seq: usize, // a line of the text

    /// Peak learning rate of Adam; warm-up and cosine decay around it
    #[arg(long, value_name = "RATE", default_value_t = 4e-3, value_parser = positive, help_heading = TRAINING)]
    pub lr: f64, // 6e-3 is not faster

    /// Maximum global norm of the gradient
    #[arg(long, value_name = "NORM", default_value_t = 1.0, value_parser = positive, help_heading = TRAINING)]
    pub clip: f64, // rarely reached after the first epoch; recurrent gradients sometimes spike

    /// Seed of parameters, dropout, windows and sample
    #[arg(long, value_name = "SEED", default_value_t = 1, help_heading = TRAINING)]
    pub seed: u64,

    #[command(flatten)]
    pub writing: Writing,
}

/// Options of generated text.
#[derive(Args, Clone, Debug)]
pub struct Writing {
    /// Number of characters
    #[arg(long, value_name = "COUNT", default_value_t = 500, help_heading = SAMPLING)]
    pub length: usize,

    /// Below 1 prefers likely characters, above 1 flattens the distribution
    #[arg(long, value_name = "TEMP", default_value_t = 0.7, value_parser = positive, help_heading = SAMPLING)]
    pub temperature: f64, // few misspellings, little repetition

    /// Choose only among this many of the most likely characters
    #[arg(long, value_name = "K", value_parser = size(1 << 16), help_heading = SAMPLING)]
    pub top_k: Option<usize>,

    /// Text to continue. Default: a new line
    #[arg(long, value_name = "TEXT", help_heading = SAMPLING)]
    pub prompt: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub struct SampleArgs {
    /// The model file
    #[arg(value_name = "MODEL", default_value = "char-gru/model.bpk")]
    pub model: PathBuf,

    /// Where to compute
    #[arg(long, value_name = "NAME", default_value_t = Backend::Flex, value_enum)]
    pub backend: Backend,

    /// Equal seeds generate equal text
    #[arg(long, value_name = "SEED", default_value_t = 1, help_heading = SAMPLING)]
    pub seed: u64,

    #[command(flatten)]
    pub writing: Writing,
}

#[derive(Args, Clone, Debug)]
pub struct EvalArgs {
    /// UTF-8 text: files, or folders of .txt files, read as one text
    #[arg(required = true, value_name = "PATH")]
    pub text: Vec<PathBuf>,

    /// The model file
    #[arg(long, value_name = "MODEL", default_value = "char-gru/model.bpk")]
    pub model: PathBuf,

    /// Where to compute
    #[arg(long, value_name = "NAME", default_value_t = Backend::Flex, value_enum)]
    pub backend: Backend,

    /// Number of parallel streams of the text. 1 reads it in order
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = size(16_384))]
    pub batch: usize, // 16 starts without context do not change the third digit
}

#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// The model file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// The file for the parameters
    #[arg(value_name = "FILE")]
    pub to: PathBuf,
}

#[derive(Args, Clone, Debug)]
pub struct ImportArgs {
    /// Parameters: safetensors, or a state dict written by torch.save
    #[arg(value_name = "FILE")]
    pub from: PathBuf,

    /// The file for the model
    #[arg(value_name = "MODEL")]
    pub to: PathBuf,

    /// UTF-8 file with the model's characters in the order of its tokens. Not needed for a file from `export`
    #[arg(long, value_name = "FILE")]
    pub characters: Option<PathBuf>,
}

/// A count from 1 to `largest`, so that a huge size is an argument error and not an allocation failure.
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
        x if (1e-6..1.0).contains(&x) => Ok(x),
        _ => Err("must be at least 0.000001 and less than 1".to_string()),
    }
}

fn probability(text: &str) -> Result<f64, String> {
    match number(text)? {
        x if (0.0..1.0).contains(&x) => Ok(x),
        _ => Err("must be at least 0 and less than 1".to_string()),
    }
}

fn server(text: &str) -> Result<String, String> {
    if text.starts_with("ws://") {
        Ok(text.to_string())
    } else {
        Err("expected ws://HOST:PORT".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_command_trains() {
        let cli = Cli::try_parse_from(["char-gru", "--epochs", "3"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.train.epochs, 3);
        assert_eq!(cli.train.out, PathBuf::from("char-gru"));
    }

    #[test]
    fn several_texts_are_one() {
        let cli = Cli::try_parse_from(["char-gru", "train", "--text", "a", "b", "--text", "c"]);
        match cli.unwrap().command {
            Some(Command::Train(train)) => assert_eq!(train.text.len(), 3),
            other => panic!("{other:?}"),
        }
    }

    /// A default would be the trained model.
    #[test]
    fn conversions_require_their_output() {
        for command in ["export", "import"] {
            let parsed = Cli::try_parse_from(["char-gru", command, "in"]);
            assert_eq!(parsed.unwrap_err().exit_code(), 2, "{command}");
        }
    }

    #[test]
    fn invalid_numbers_are_rejected() {
        let bad = [
            ["--hidden", "0"],
            ["--layers", "0"],
            ["--batch", "0"],
            ["--batch", "-3"],
            ["--seq", "0"],
            ["--epochs", "0"],
            ["--max-steps", "0"],
            ["--check-every", "0"],
            ["--patience", "0"],
            ["--top-k", "0"],
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
            ["--devices", "ws://one:3000,moon"],
        ];
        for [flag, value] in bad {
            let parsed = Cli::try_parse_from(["char-gru".to_string(), format!("{flag}={value}")]);
            assert_eq!(parsed.unwrap_err().exit_code(), 2, "{flag}={value}");
        }
    }
}
