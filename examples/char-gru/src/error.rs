//! All errors. `Display` is the whole message.

use std::{io, path::PathBuf};

use burn::store::RecordError;
use gru_convert::ConvertError;

/// An error of the library or the program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder that cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, io::Error),

    /// A text without a window of this length.
    #[error("text: too short for a window of {0} characters")]
    TooShort(usize),

    /// A character that the model did not learn.
    #[error("text: the model does not know the character {0:?}")]
    Unknown(char),

    /// A model file without the arrays or shapes of a model.
    #[error("model: {0}")]
    Model(#[from] ConvertError),

    /// A model file whose characters are not a sorted list.
    #[error("model: expected `characters` to be sorted code points, one per token")]
    Characters,

    /// A loss, gradient or score that is infinite or NaN.
    #[error("the {0} is not finite; try a smaller learning rate")]
    NotFinite(&'static str),

    /// A device that reports an error.
    #[error("device: {0}")]
    Device(String),

    /// A backend that is unknown, absent on this machine, or not in this build, and the reason.
    #[error("backend {0}: {1}")]
    Backend(String, String),

    /// A checkpoint that is damaged, or of another run.
    #[error("checkpoint: {0}")]
    Checkpoint(String),

    /// A record of the model or the optimizer that cannot be written or read.
    #[error("checkpoint: {0}")]
    Record(#[from] RecordError),

    /// Ctrl-C.
    #[error("stopped after step {0}; add --resume to continue")]
    Stopped(usize),

    /// A folder with a checkpoint, and neither `--resume` nor `--overwrite`.
    #[error("{}: contains a run; add --resume to continue it, or --overwrite to replace it", .0.display())]
    Exists(PathBuf),
}

impl Error {
    /// For `map_err` of operations on the file `path`.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::File(path.into(), source)
    }

    /// For `map_err` of operations on a device.
    pub fn device(reason: impl ToString) -> Self {
        Self::Device(reason.to_string())
    }

    /// 2 for arguments and files, 1 for failures while running, 130 after Ctrl-C, as in shells.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFinite(_) | Self::Device(_) => 1,
            Self::Stopped(_) => 130,
            _ => 2,
        }
    }
}
