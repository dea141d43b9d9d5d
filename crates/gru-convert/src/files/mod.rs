//! Arrays from files: one module and one feature per format.

#[cfg(feature = "store")]
mod burnpack;
#[cfg(feature = "keras")]
mod keras;
#[cfg(feature = "npz")]
mod npz;
#[cfg(feature = "store")]
mod safetensors;
#[cfg(feature = "store")]
mod torch;

#[cfg(any(feature = "store", feature = "npz", feature = "keras"))]
use crate::error::ConvertError;
#[cfg(any(feature = "store", feature = "npz"))]
use burn::tensor::{DType, TensorData};
#[cfg(any(feature = "store", feature = "npz", feature = "keras"))]
use std::{io, path::Path};

/// A file that could not be read or written.
#[cfg(any(feature = "store", feature = "npz", feature = "keras"))]
fn failed(path: impl AsRef<Path>, error: io::Error) -> ConvertError {
    let path = path.as_ref().into();
    ConvertError::File { path, error }
}

#[cfg(any(feature = "store", feature = "npz", feature = "keras"))]
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Values of a file. Bytes of booleans are 0 or 1.
#[cfg(any(feature = "store", feature = "npz"))]
fn checked(data: TensorData) -> Result<TensorData, String> {
    let is_bool = matches!(data.dtype(), DType::Bool(_));
    match data.as_bytes().iter().find(|&&byte| is_bool && byte > 1) {
        None => Ok(data),
        Some(byte) => Err(format!("expected booleans, bytes 0 and 1, got {byte}")),
    }
}
