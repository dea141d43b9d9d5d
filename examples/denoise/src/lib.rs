//! RNNoise on streams of `gru-cpu`.
//!
//! A frame is 480 samples, 10 ms at 48 kHz. [`Denoiser`](denoiser::Denoiser) processes the frames of one channel:
//! analysis (by nnnoiseless), [`network`], gains and synthesis.

pub mod denoiser;
pub mod network;

/// Samples per second of the training data.
pub const RATE: u32 = 48_000;
/// Samples per frame.
pub const FRAME: usize = 480;
/// A sample at full scale. The network uses the scale of 16-bit integers.
pub const FULL_SCALE: f32 = 32_768.0;
