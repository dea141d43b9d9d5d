//! Errors of files.

use crate::RATE;
use std::path::PathBuf;

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The WAV file could not be read or written.
    #[error("{}: {source}", path.display())]
    Wav {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: hound::Error,
    },
    /// The sound has another sample rate.
    #[error(
        "{}: expected {RATE} samples per second, got {found}; convert it: ffmpeg -i INPUT -ar {RATE} OUTPUT",
        path.display()
    )]
    Rate {
        /// The file.
        path: PathBuf,
        /// Its rate.
        found: u32,
    },
    /// The sound is empty.
    #[error("{}: expected samples, got none", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A sample is not a number.
    #[error("{}: expected finite samples, got {found} in sample {at}", path.display())]
    Sample {
        /// The file.
        path: PathBuf,
        /// The position over all channels.
        at: usize,
        /// The sample.
        found: f32,
    },
}
