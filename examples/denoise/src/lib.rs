//! RNNoise on streams of `gru-cpu`: the parts of the program `denoise`.
//!
//! A frame is 480 samples, 10 ms at 48 kHz. [`denoiser::Denoiser`] processes the frames of one channel:
//! analysis (by nnnoiseless), [`network`], gains and synthesis. [`mod@file`] processes the channels of a
//! WAV.
#![deny(missing_docs)]

pub mod bands;
pub mod compare;
pub mod config;
pub mod demo;
pub mod denoiser;
pub mod error;
pub mod file;
pub mod model;
pub mod network;
pub mod noise;
pub mod speech;
pub mod stopwatch;
pub mod suppressor;
pub mod synthesis;
pub mod v2;
pub mod wav;
pub mod weights;

/// Samples per second of the training data.
pub const RATE: u32 = 48_000;
/// Samples per frame.
pub const FRAME: usize = 480;
/// A sample at full scale. The network uses the scale of 16-bit integers.
pub const FULL_SCALE: f32 = 32_768.0;
