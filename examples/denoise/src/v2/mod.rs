//! RNNoise 0.2: three GRUs of 384 units, 32 bands, and gains that act on the previous frame.
//!
//! The weights come from a file of the user: see [`arrays`]. The equations and constants of this module follow
//! RNNoise 0.2, <https://github.com/xiph/rnnoise>, under the licence in `weights/COPYING-0.2`.

pub mod arrays;
pub mod bands;
pub mod denoiser;
pub mod model;
pub mod network;

/// Features of a frame: 32 cepstral coefficients, 32 of the bands' correlation with the pitch, and the pitch.
pub const FEATURES: usize = 2 * bands::BANDS + 1;
/// Units of each GRU.
pub const UNITS: usize = 384;
