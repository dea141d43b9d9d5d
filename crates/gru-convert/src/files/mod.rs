//! Arrays from files: one module and one feature per format.

#[cfg(feature = "store")]
mod burnpack;
#[cfg(feature = "keras")]
mod keras;
#[cfg(any(feature = "store", feature = "npz", feature = "keras"))]
mod limit;
#[cfg(feature = "npz")]
mod npz;
#[cfg(feature = "store")]
mod torch;

#[cfg(any(feature = "store", feature = "npz", feature = "keras"))]
use crate::error::ConvertError;

/// A file that could not be read or written.
#[cfg(any(feature = "store", feature = "npz", feature = "keras"))]
fn failed(path: impl std::fmt::Display, reason: impl std::fmt::Display) -> ConvertError {
    ConvertError::File {
        path: path.to_string(),
        reason: reason.to_string(),
    }
}

#[cfg(any(feature = "npz", feature = "keras"))]
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Returns an error if a byte of booleans is not 0 or 1.
#[cfg(any(feature = "store", feature = "npz"))]
fn expect_bools(bytes: &[u8]) -> Result<(), String> {
    match bytes.iter().find(|&&byte| byte > 1) {
        None => Ok(()),
        Some(byte) => Err(format!("expected booleans, bytes 0 and 1, got {byte}")),
    }
}
