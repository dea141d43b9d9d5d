//! Every error, each as one line for the user.

use std::io;
use std::path::PathBuf;

/// An error of the program. `Display` is the whole message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no compiler found for {target}; with rustup: rustup target add {target}; on Debian: \
         apt-get install rustc-web cargo-web rust-web-src lld-22"
    )]
    NoCompiler { target: &'static str },

    #[error("/usr/bin/cargo: expected {} or later, got {version}", env!("CARGO_PKG_RUST_VERSION"))]
    OldCompiler { version: String },

    #[error("cannot find the crates for WebAssembly: {0}")]
    Crates(String),

    #[error("cannot build the module: {0} failed")]
    Cargo(String),

    #[error("cannot create the JavaScript of the module: {0}")]
    Bind(String),

    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },

    #[error(
        "{}: expected the folder of a page, got none; build it: cargo run -p web -- build",
        path.display()
    )]
    NoPage { path: PathBuf },

    #[error("cannot serve on port {port}: {reason}")]
    Serve { port: u16, reason: String },
}

impl Error {
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
