//! Every error, each as one line for the user.

use std::io;
use std::path::{Path, PathBuf};

use gru_convert::ConvertError;
use training_kit::error::Error as RunError;

/// An error of the model or its text. `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the text {}: {source}", path.display())]
    ReadText { path: PathBuf, source: io::Error },

    #[error("expected .txt files in the folder, got none")]
    NoFiles,

    #[error(
        "the text {} is not UTF-8: byte {offset} is not the start of a character; convert the file to UTF-8",
        path.display()
    )]
    NotUtf8 { path: PathBuf, offset: usize },

    #[error("the text is empty")]
    EmptyText,

    #[error("the text consists of one distinct character, {0:?}; expected at least two")]
    SingleCharacter(char),

    #[error("expected distinct characters, got {0:?} twice")]
    RepeatedCharacter(char),

    #[error("the text has {found} distinct characters, expected at most {largest}")]
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

    #[error("the text is too short for validation: expected at least two characters")]
    NothingToJudge,

    #[error("the model does not know these characters: {}", quoted(.0))]
    UnknownCharacters(Vec<char>),

    #[error("{0}")]
    Convert(#[from] ConvertError),

    #[error("the loss is {loss} at step {step}: training diverged; try a smaller learning rate")]
    Diverged { step: usize, loss: f32 },

    #[error("the scores of the model are not numbers: its parameters are invalid")]
    NotFinite,

    /// An error of a file or a device.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Error {
    /// A file that cannot be written.
    pub fn write(path: &Path, reason: impl ToString) -> Self {
        RunError::write(path, reason).into()
    }

    /// A file with unexpected content.
    pub fn load(path: &Path, reason: impl ToString) -> Self {
        RunError::load(path, reason).into()
    }

    /// A device that returned an error for a read.
    pub fn device(reason: impl ToString) -> Self {
        RunError::device(reason).into()
    }
}

fn quoted(characters: &[char]) -> String {
    let quoted: Vec<String> = characters.iter().map(|c| format!("{c:?}")).collect();
    quoted.join(", ")
}
