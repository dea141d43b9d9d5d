//! The commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gru_cpu::spec::Precision;

/// Removes noise from speech with RNNoise's network on streams of gru-cpu
#[derive(Parser, Clone, Debug)]
#[command(name = "denoise", version)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Cli {
    /// A command other than denoising a file.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Denoising a file.
    #[command(flatten)]
    pub file: FileArgs,
}

/// A command.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Generate synthetic speech and noise, denoise it, and write the sounds to a folder
    Demo(DemoArgs),
    /// Compare on a file: with nnnoiseless, or with --model the precisions of RNNoise 0.2
    Compare(CompareArgs),
}

/// Denoising a file.
#[derive(Args, Clone, Debug)]
pub struct FileArgs {
    /// WAV with 48 kHz: integers of 16, 24 or 32 bits or floats, up to 8 channels
    #[arg(value_name = "IN", required = true)]
    pub input: Option<PathBuf>,

    /// Output WAV with the same format and length
    #[arg(value_name = "OUT", required = true)]
    pub output: Option<PathBuf>,

    /// The weights.
    #[command(flatten)]
    pub weights: WeightsArgs,
}

/// The demonstration.
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Folder for clean.wav, noisy.wav and denoised.wav
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// The weights.
    #[command(flatten)]
    pub weights: WeightsArgs,
}

/// The comparison.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// WAV with 48 kHz. Uses the first channel
    #[arg(value_name = "IN")]
    pub input: PathBuf,

    /// RNNoise 0.2, to compare in every precision
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
}

/// The weights.
#[derive(Args, Clone, Debug)]
pub struct WeightsArgs {
    /// RNNoise 0.2: a weights blob, as rnnoise_weights.py writes
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,

    /// Precision of the GRUs of RNNoise 0.2
    #[arg(long, value_enum, default_value = "full", requires = "model")]
    pub precision: PrecisionArg,
}

/// The precision of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrecisionArg {
    /// float32
    Full,
    /// bfloat16
    Bf16,
    /// 8 bits
    Int8,
}

impl From<PrecisionArg> for Precision {
    fn from(precision: PrecisionArg) -> Self {
        match precision {
            PrecisionArg::Full => Self::Full,
            PrecisionArg::Bf16 => Self::Bf16,
            PrecisionArg::Int8 => Self::Int8,
        }
    }
}
