//! RNNoise on streams of `gru-cpu`: the parts of the program `denoise`.
//!
//! A frame is 480 samples, 10 ms at 48 kHz. [`denoiser::Denoiser`] takes the frames of one channel:
//! analysis (by nnnoiseless), [`network`], gains and synthesis. [`mod@file`] does that for the channels
//! of a WAV.
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
pub mod picture;
pub mod spectrogram;
pub mod speech;
pub mod stopwatch;
pub mod synthesis;
pub mod wav;
pub mod weights;

/// Samples a second that the network was trained on.
pub const RATE: u32 = 48_000;
/// Samples of a frame.
pub const FRAME: usize = 480;
/// A sample of full scale, as the network knows it: samples are those of 16-bit integers.
pub const FULL_SCALE: f32 = 32_768.0;
