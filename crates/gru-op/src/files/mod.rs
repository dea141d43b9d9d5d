//! Files of weights, for this crate and gru-convert: which files are opened, what a wrong file is, and how much a file
//! may claim.

mod kind;
mod limit;

pub use self::{
    kind::{BURNPACK, KERAS, NPZ, ONNX, PYTORCH, SAFETENSORS, mismatch},
    limit::{DEPTH, Limit, RANK, check_rank},
};

use burn::tensor::{Bytes, DType};
use std::{
    borrow::Cow,
    fmt::Display,
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// The name of a block's configuration in the metadata of a burnpack.
pub const CONFIG: &str = "gru-op.config";

/// Opens a file. A pipe would wait forever, and a device may never end.
///
/// # Errors
/// If the file cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let no_file = |kind: &str| invalid(format!("expected a file, got {kind}"));
    let of_tensorflow = || kind::without_file(path).map(no_file);
    let metadata = fs::metadata(path).map_err(|e| of_tensorflow().unwrap_or(e))?;
    let kind = metadata.file_type();
    if kind.is_file() {
        return File::open(path);
    }
    let kind = if kind.is_dir() {
        "a folder"
    } else {
        "a pipe, a socket or a device"
    };
    Err(of_tensorflow().unwrap_or_else(|| no_file(kind)))
}

/// Reads a whole file.
///
/// # Errors
/// As [`open`], or if the file cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut bytes = Vec::with_capacity(file.metadata()?.len() as usize);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The error for a file with other content than expected.
pub fn invalid(reason: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}

/// Converts little-endian bytes of a file to numbers of this machine, or numbers to bytes. A part of a file may start at
/// an address that numbers of its type cannot have.
pub fn native(bytes: Bytes, dtype: DType) -> Bytes {
    let is_aligned = bytes.as_ptr().addr().is_multiple_of(dtype.size().max(1));
    if is_aligned && cfg!(target_endian = "little") {
        bytes
    } else {
        Bytes::from_bytes_vec(little_endian(&bytes, dtype).into_owned())
    }
}

/// As [`native`], without a change of alignment.
pub fn little_endian(bytes: &[u8], dtype: DType) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return bytes.into();
    }
    let mut bytes = bytes.to_vec();
    let numbers = bytes.chunks_exact_mut(dtype.size().max(1));
    numbers.for_each(<[u8]>::reverse);
    bytes.into()
}
