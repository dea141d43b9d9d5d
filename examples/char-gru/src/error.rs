//! Every error, each as one line for the user.

use char_model::error::Error as ModelError;
use gru_convert::ConvertError;
use training_kit::error::Error as RunError;

/// The exit code of a run that the user stopped, as in shells.
pub const STOPPED: u8 = 130;

/// An error of the program. `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Model(#[from] ModelError),

    #[error("the file does not contain the model's characters; give them with --characters FILE")]
    NoCharacters,

    #[error("the backend {name} is not in this build; add --features {name} to the cargo command")]
    BackendMissing { name: String },

    #[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
    #[error("the backend {name} found no usable device: {reason}")]
    BackendAbsent { name: String, reason: String },

    #[cfg(not(feature = "remote"))]
    #[error(
        "this build does not support servers; rebuild with: cargo run --release -p char-gru --features \
         remote -- --devices …"
    )]
    RemoteMissing,

    #[cfg(feature = "remote")]
    #[error("cannot use the server {address}: {reason}")]
    Unreachable { address: String, reason: String },

    #[error("stopped at step {step}; resume with the same arguments and --resume")]
    Stopped { step: usize },
}

impl Error {
    /// 2 for invalid arguments (as clap), [`STOPPED`], or 1 for errors at run time.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Model(error) => match error {
                ModelError::Diverged { .. } | ModelError::NotFinite => 1,
                ModelError::Run(RunError::Device(_)) => 1,
                _ => 2,
            },
            Self::Stopped { .. } => STOPPED,
            #[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
            Self::BackendAbsent { .. } => 1,
            #[cfg(feature = "remote")]
            Self::Unreachable { .. } => 1,
            _ => 2,
        }
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        Self::Model(error.into())
    }
}

impl From<ConvertError> for Error {
    fn from(error: ConvertError) -> Self {
        Self::Model(error.into())
    }
}
