//! Errors outside of the parts.

use std::{io, path::PathBuf};

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {reason}")]
    File { path: PathBuf, reason: io::Error },
    #[error("unknown shader language {0:?}, expected one of: {1}")]
    Shader(String, String),
    #[error("{0}: {1}")]
    Command(String, String),
    #[error("the folder has {mib:.1} MiB, expected at most {most} MiB")]
    Large { mib: f64, most: u64 },
    #[cfg(feature = "gpu")]
    #[error("{0}")]
    OutOfTime(String),
    #[cfg(feature = "gpu")]
    #[error("unknown part {0:?}, expected one of: {1}")]
    Part(String, String),
}

/// Exit code of a part that stopped because its time was over.
pub const OUT_OF_TIME: u8 = 3;

impl Error {
    pub fn exit_code(&self) -> u8 {
        match self {
            #[cfg(feature = "gpu")]
            Self::OutOfTime(_) => OUT_OF_TIME,
            _ => 1,
        }
    }

    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |reason| Self::File { path, reason }
    }
}
