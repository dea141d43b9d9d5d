//! The commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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
    /// Generate synthetic speech and noise, denoise it, and write the sounds and a picture to a folder
    Demo(DemoArgs),
    /// Compare with nnnoiseless on a file: differences and times
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

    /// Draw the spectrograms of the first channel before and after
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,

    /// The weights.
    #[command(flatten)]
    pub weights: WeightsArgs,
}

/// The demonstration.
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Folder for clean.wav, noisy.wav, denoised.wav and spectrograms.svg
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

    /// The weights.
    #[command(flatten)]
    pub weights: WeightsArgs,
}

/// The weights.
#[derive(Args, Clone, Debug)]
pub struct WeightsArgs {
    /// Weights in nnnoiseless' format instead of RNNoise's own weights
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
}
