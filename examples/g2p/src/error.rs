//! Every error, each as one line for the user.

use std::io;
use std::path::PathBuf;

use gru_convert::ConvertError;

/// An error of the program. `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages describe the variants.
pub enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read the words: {0}")]
    Words(io::Error),
    #[error("{}: expected a wheel with {expected}: {reason}", path.display())]
    Wheel {
        path: PathBuf,
        expected: &'static str,
        reason: String,
    },
    #[error("{0}")]
    Weights(#[from] ConvertError),
    #[error("cannot read the device: {0}")]
    Device(String),
    #[error("cannot write: {0}")]
    Write(io::Error),
}
