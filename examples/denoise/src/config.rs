//! The commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Take the noise out of speech, with RNNoise's network on streams of gru-cpu
#[derive(Parser, Clone, Debug)]
#[command(name = "denoise", version)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Cli {
    /// Another thing to do than denoising a file.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Denoising a file.
    #[command(flatten)]
    pub file: FileArgs,
}

/// Another thing to do.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Make speech-like sound and noise, denoise it, and write all of it and a picture to a folder
    Demo(DemoArgs),
    /// Compare with nnnoiseless on the same file: numbers and times
    Compare(CompareArgs),
}

/// Denoising a file.
#[derive(Args, Clone, Debug)]
pub struct FileArgs {
    /// WAV of 48 kHz: integers of 16, 24 or 32 bits or floats, up to 8 channels
    #[arg(value_name = "IN", required = true)]
    pub input: Option<PathBuf>,

    /// WAV to write: the same format and length
    #[arg(value_name = "OUT", required = true)]
    pub output: Option<PathBuf>,

    /// Draw the spectrograms of the first channel, before and after
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,

    /// Which weights.
    #[command(flatten)]
    pub weights: WeightsArgs,
}

/// The demonstration.
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Folder for clean.wav, noisy.wav, denoised.wav and spectrograms.svg
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// Which weights.
    #[command(flatten)]
    pub weights: WeightsArgs,
}

/// The comparison.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// WAV of 48 kHz, its first channel
    #[arg(value_name = "IN")]
    pub input: PathBuf,

    /// Which weights.
    #[command(flatten)]
    pub weights: WeightsArgs,
}

/// Which weights.
#[derive(Args, Clone, Debug)]
pub struct WeightsArgs {
    /// Weights in nnnoiseless' format, instead of RNNoise's own
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
}
