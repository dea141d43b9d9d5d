//! Arrays from files: one module and one feature per format.

#[cfg(feature = "keras")]
mod keras;
#[cfg(any(feature = "npz", feature = "keras"))]
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
