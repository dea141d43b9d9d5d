//! Errors of files and devices, each as one line for the user.

use std::path::{Path, PathBuf};

/// An error of a file or a device. `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: String },

    #[error("cannot load {}: {reason}", path.display())]
    Load { path: PathBuf, reason: String },

    #[error("cannot read the device: {0}")]
    Device(String),
}

impl Error {
    /// A file that cannot be written.
    pub fn write(path: &Path, reason: impl ToString) -> Self {
        Self::Write {
            path: path.to_path_buf(),
            reason: reason.to_string(),
        }
    }

    /// A file with unexpected content.
    pub fn load(path: &Path, reason: impl ToString) -> Self {
        Self::Load {
            path: path.to_path_buf(),
            reason: reason.to_string(),
        }
    }

    /// A device that returned an error for a read.
    pub fn device(reason: impl ToString) -> Self {
        Self::Device(reason.to_string())
    }
}
