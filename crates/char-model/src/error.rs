//! Everything that can go wrong, each as one line for the user.

use std::io;
use std::path::{Path, PathBuf};

use gru_convert::ConvertError;

/// An error of the model or its text; `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the text {}: {source}", path.display())]
    ReadText { path: PathBuf, source: io::Error },

    #[error("the folder holds no .txt file")]
    NoFiles,

    #[error(
        "the text {} is not UTF-8: byte {offset} starts no character; convert it to UTF-8 first",
        path.display()
    )]
    NotUtf8 { path: PathBuf, offset: u64 },

    #[error("the text {} became shorter while it was read", path.display())]
    Changed { path: PathBuf },

    #[error("the text changed while it was read")]
    TextChanged,

    #[error("the text is empty")]
    EmptyText,

    #[error("the text holds one distinct character, {0:?}: there is nothing to predict")]
    SingleCharacter(char),

    #[error("the text holds {found} distinct characters, more than {largest}: is it a text?")]
    TooManyCharacters { found: usize, largest: usize },

    #[error(
        "the text is too short: {found} characters, but windows of {seq} characters with a \
         validation part need at least {needed}; give a longer text or shorter windows"
    )]
    TooShort {
        found: usize,
        seq: usize,
        needed: usize,
    },

    #[error("the text is too short to judge by: it needs two characters")]
    NothingToJudge,

    #[error("the model does not know these characters: {}", quoted(.0))]
    UnknownCharacters(Vec<char>),

    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: String },

    #[error("cannot load {}: {reason}", path.display())]
    Load { path: PathBuf, reason: String },

    #[error("{0}")]
    Convert(#[from] ConvertError),

    #[error("the loss is {loss} at step {step}: training diverged; try a smaller learning rate")]
    Diverged { step: usize, loss: f32 },

    #[error("the model gives scores that are no numbers: its parameters are broken")]
    NotFinite,

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

    /// A file that is not what it should be.
    pub fn load(path: &Path, reason: impl ToString) -> Self {
        Self::Load {
            path: path.to_path_buf(),
            reason: reason.to_string(),
        }
    }
}

fn quoted(characters: &[char]) -> String {
    let quoted: Vec<String> = characters.iter().map(|c| format!("{c:?}")).collect();
    quoted.join(", ")
}
