//! Every error, each as one line for the user.

use std::io;
use std::path::{Path, PathBuf};

use crate::RATE;
use crate::v2::arrays::{self, ArraysError};
use crate::wav::{LARGEST, MOST_CHANNELS};

/// An error of the program. `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages describe the variants.
pub enum Error {
    #[error("cannot read {} as WAV: {source}", path.display())]
    ReadWav { path: PathBuf, source: hound::Error },
    #[error("cannot write {}: {source}", path.display())]
    WriteWav { path: PathBuf, source: hound::Error },
    #[error(
        "{}: expected {RATE} samples per second, got {found}; convert the file first, for \
         example with: sox {} -r {RATE} converted.wav", path.display(), path.display()
    )]
    Rate { path: PathBuf, found: u32 },
    #[error("{}: expected 1 to {MOST_CHANNELS} channels, got {found}", path.display())]
    Channels { path: PathBuf, found: u16 },
    #[error(
        "{}: expected integers of 16, 24 or 32 bits, or floats of 32 bits, got {bits} bits of {kind}",
        path.display()
    )]
    Format {
        path: PathBuf,
        bits: u16,
        kind: &'static str,
    },
    #[error(
        "{}: sample {at} of channel {channel}: expected a number from -{LARGEST} to {LARGEST}, where 1 \
         is full scale, got {found}", path.display()
    )]
    Sample {
        path: PathBuf,
        channel: usize,
        at: u64,
        found: f32,
    },
    #[error("{}: expected samples, got none", path.display())]
    Empty { path: PathBuf },
    #[error("cannot read the weights {}: {source}", path.display())]
    ReadWeights { path: PathBuf, source: io::Error },
    #[error("{}: expected at most {} bytes of a model, got more", path.display(), arrays::LONGEST)]
    LongModel { path: PathBuf },
    #[error("the model {} cannot be used: {source}", path.display())]
    Model { path: PathBuf, source: ArraysError },
    #[error("{}: the result after {seconds:.2} s is not finite; the weights are invalid", path.display())]
    NotFinite { path: PathBuf, seconds: f64 },
    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: String },
}

/// The error of writing `path`.
pub(crate) fn write_error(path: &Path, reason: impl ToString) -> Error {
    Error::Write {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}
