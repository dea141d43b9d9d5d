//! Every error, each as one line for the user.

use std::io;

use burn::server::ServeError;
use char_gru::error::Error as DeviceError;

/// An error of the program. `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Device(#[from] DeviceError),

    #[error("the server stopped: {0}")]
    Serve(#[from] ServeError),

    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: io::Error },
}

impl Error {
    /// 2 for invalid arguments, 1 if the server failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Device(error) => error.exit_code(),
            Self::Serve(_) | Self::Listen { .. } => 1,
        }
    }
}
