//! Everything that can go wrong, each as one line for the user.

use std::io;
use std::path::{Path, PathBuf};

use crate::RATE;
use crate::wav::{LARGEST, MOST_CHANNELS};
use crate::weights::{LONGEST, WeightsError};

/// An error of the program; `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that is no WAV, or ends too early.
    #[error("cannot read {} as WAV: {source}", path.display())]
    ReadWav {
        /// The file.
        path: PathBuf,
        /// Why.
        source: hound::Error,
    },

    /// A WAV that cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    WriteWav {
        /// The file.
        path: PathBuf,
        /// Why.
        source: hound::Error,
    },

    /// A rate that the network does not know.
    #[error(
        "{} has {found} samples a second, the network was trained on {RATE}; convert it first, for \
         example with: sox {} -r {RATE} converted.wav", path.display(), path.display()
    )]
    Rate {
        /// The file.
        path: PathBuf,
        /// Its rate.
        found: u32,
    },

    /// Too many channels.
    #[error("{} should have 1 to {MOST_CHANNELS} channels, got {found}", path.display())]
    Channels {
        /// The file.
        path: PathBuf,
        /// Its channels.
        found: u16,
    },

    /// Samples of another kind.
    #[error(
        "{} should have integers of 16, 24 or 32 bits, or floats of 32, got {bits} bits of {kind}",
        path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Bits of a sample.
        bits: u16,
        /// What the bits stand for.
        kind: &'static str,
    },

    /// A sample that is NaN, or so large that the analysis would overflow.
    #[error(
        "{}: sample {at} of channel {channel} should be a number from -{LARGEST} to {LARGEST}, where 1 \
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

    /// A file without a sample where one is needed.
    #[error("{} has no samples, there is nothing to compare or to draw", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },

    /// A file of weights that cannot be read.
    #[error("cannot read the weights {}: {source}", path.display())]
    ReadWeights {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },

    /// A file of weights that is too long to be one.
    #[error("{} should have at most {LONGEST} bytes, as weights of this format have, it has more", path.display())]
    LongWeights {
        /// The file.
        path: PathBuf,
    },

    /// A file of weights that holds something else.
    #[error("the weights {} cannot be used: {source}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// Why.
        source: WeightsError,
    },

    /// nnnoiseless refuses weights that were accepted here.
    #[error("nnnoiseless refuses the weights {}", path.display())]
    Peer {
        /// The file.
        path: PathBuf,
    },

    /// Weights with which the states grow without end.
    #[error("{}: the result after {seconds:.2} s is no number; the weights are not sound", path.display())]
    NotFinite {
        /// The WAV.
        path: PathBuf,
        /// Where.
        seconds: f64,
    },

    /// A folder or a picture that cannot be written.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
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
