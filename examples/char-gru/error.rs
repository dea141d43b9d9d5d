//! Everything that can go wrong, each as one line for the user.

use std::io;
use std::path::PathBuf;

use gru_op::convert::ConvertError;

/// An error of the program; `Display` is the whole message.
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
         validation part need at least {needed}; give a longer text or a smaller --seq"
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

    #[error("--tie needs --embed and --hidden to be equal, got {embed} and {hidden}")]
    CannotTie { embed: usize, hidden: usize },

    #[error(
        "the backend {name} is not in this build; rebuild with: cargo run --release -p \
         gru-examples --features {name} -- --backend {name}"
    )]
    BackendMissing { name: &'static str },

    #[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
    #[error("the backend {name} found no usable device: {reason}")]
    BackendAbsent { name: &'static str, reason: String },

    #[cfg(not(feature = "remote"))]
    #[error(
        "this build reaches no servers; rebuild with: cargo run --release -p gru-examples --features \
         remote --bin char-gru -- --devices …"
    )]
    RemoteMissing,

    #[cfg(feature = "remote")]
    #[error("cannot use the server {address}: {reason}")]
    Unreachable { address: String, reason: String },

    #[cfg(feature = "remote")]
    #[error("the server stopped: {0}")]
    Serve(#[from] burn::server::ServeError),

    #[cfg(feature = "remote")]
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: io::Error },

    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: String },

    #[error("cannot load {}: {reason}", path.display())]
    Load { path: PathBuf, reason: String },

    #[error("{0}")]
    Convert(#[from] ConvertError),

    #[error("the loss is {loss} at step {step}: training diverged; try a smaller --lr")]
    Diverged { step: usize, loss: f32 },

    #[error("the model gives scores that are no numbers: its parameters are broken")]
    NotFinite,

    #[error("cannot read the device: {0}")]
    Device(String),

    #[error("stopped at step {step}; go on with the same arguments and --resume")]
    Stopped { step: usize },
}

impl Error {
    /// 2 for what the user gave (as clap does), 130 for what the user stopped (as shells do), 1 for
    /// what happened while running.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Diverged { .. } | Self::Device(_) | Self::NotFinite => 1,
            Self::Changed { .. } | Self::TextChanged => 1,
            Self::Stopped { .. } => 130,
            #[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
            Self::BackendAbsent { .. } => 1,
            #[cfg(feature = "remote")]
            Self::Unreachable { .. } | Self::Serve(_) | Self::Listen { .. } => 1,
            _ => 2,
        }
    }
}

fn quoted(characters: &[char]) -> String {
    let quoted: Vec<String> = characters.iter().map(|c| format!("{c:?}")).collect();
    quoted.join(", ")
}
