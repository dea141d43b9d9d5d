//! Every error, each as one line for the user.

use std::io;
use std::path::{Path, PathBuf};

use crate::RATE;
use crate::wav::{LARGEST, MOST_CHANNELS};
use crate::weights::{LONGEST, WeightsError};

/// An error of the program. `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that is not a WAV, or ends too early.
    #[error("cannot read {} as WAV: {source}", path.display())]
    ReadWav {
        /// The file.
        path: PathBuf,
        /// The error.
        source: hound::Error,
    },

    /// A WAV that cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    WriteWav {
        /// The file.
        path: PathBuf,
        /// The error.
        source: hound::Error,
    },

    /// A sample rate that the network does not support.
    #[error(
        "{}: expected {RATE} samples per second, got {found}; convert the file first, for \
         example with: sox {} -r {RATE} converted.wav", path.display(), path.display()
    )]
    Rate {
        /// The file.
        path: PathBuf,
        /// Its rate.
        found: u32,
    },

    /// Too many channels.
    #[error("{}: expected 1 to {MOST_CHANNELS} channels, got {found}", path.display())]
    Channels {
        /// The file.
        path: PathBuf,
        /// Its channels.
        found: u16,
    },

    /// Samples of an unsupported kind.
    #[error(
        "{}: expected integers of 16, 24 or 32 bits, or floats of 32 bits, got {bits} bits of {kind}",
        path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Bits of a sample.
        bits: u16,
        /// The kind of the samples.
        kind: &'static str,
    },

    /// A sample that is NaN, or so large that the analysis would overflow.
    #[error(
        "{}: sample {at} of channel {channel}: expected a number from -{LARGEST} to {LARGEST}, where 1 \
         is full scale, got {found}", path.display()
    )]
    Sample {
        /// The file.
        path: PathBuf,
        /// The channel, from 1.
        channel: usize,
        /// The sample within the channel, from 0.
        at: u64,
        /// Its value.
        found: f32,
    },

    /// A file without samples.
    #[error("{}: expected samples, got none", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },

    /// A file of weights that cannot be read.
    #[error("cannot read the weights {}: {source}", path.display())]
    ReadWeights {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },

    /// A file that is too long for weights.
    #[error("{}: expected at most {LONGEST} bytes of weights, got more", path.display())]
    LongWeights {
        /// The file.
        path: PathBuf,
    },

    /// A file of weights with invalid content.
    #[error("the weights {} cannot be used: {source}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// The error.
        source: WeightsError,
    },

    /// nnnoiseless rejects weights that this program accepts.
    #[error("nnnoiseless rejects the weights {}", path.display())]
    Peer {
        /// The file.
        path: PathBuf,
    },

    /// Weights that make the states grow without bound.
    #[error("{}: the result after {seconds:.2} s is not finite; the weights are invalid", path.display())]
    NotFinite {
        /// The WAV.
        path: PathBuf,
        /// The time of the first such result, in seconds.
        seconds: f64,
    },

    /// A folder or a picture that cannot be written.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
}

/// The error of writing `path`.
pub(crate) fn write_error(path: &Path, reason: impl ToString) -> Error {
    Error::Write {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}
