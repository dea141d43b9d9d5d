//! NumPy's `.npz`: a zip archive with one `.npy` file per array.
//!
//! Source: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use super::{checked, failed, text};
use crate::{error::ConvertError, state_dict::StateDict};
use burn::tensor::{BoolStore, DType, TensorData};
use gru_op::files::{self, Limit, NPZ};
use ndarray::ArrayD;
use ndarray_npy::npy::header::Header;
use std::{
    io::{BufReader, Read, Seek, SeekFrom},
    path::Path,
};
use zip::ZipArchive;

/// The maximum length of an array's header: NumPy's own limit.
const HEADER: usize = 10_000;
/// The maximum number of brackets in a header. Plain numbers have two pairs. The parser recurses for
/// each pair.
const BRACKETS: usize = 16;
/// The maximum allocation for an array before its values are read.
const AHEAD: usize = 1 << 20;

impl StateDict {
    /// Reads the arrays of an `.npz` file that `numpy.savez` or `savez_compressed` wrote: floating-point
    /// numbers of 16, 32 and 64 bits, integers and booleans, in either byte order, in C or Fortran
    /// order.
    ///
    /// # Errors
    /// If the file is invalid or contains anything except arrays, or if an array claims to be larger than it is.
    pub fn from_npz(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
        let path = path.as_ref();
        let file = files::open(path).map_err(|e| failed(path, e))?;
        Self::from_npz_reader(path, BufReader::new(file))
    }

    /// [`from_npz`](Self::from_npz) for any reader, such as a [`Cursor`](std::io::Cursor) over bytes.
    /// Errors use `name` as its path.
    ///
    /// # Errors
    /// As [`from_npz`](Self::from_npz).
    pub fn from_npz_reader(
        name: impl AsRef<Path>,
        reader: impl Read + Seek,
    ) -> Result<Self, ConvertError> {
        let name = name.as_ref().display().to_string();
        read(&name, reader).map_err(|reason| failed(&name, files::invalid(reason)))
    }
}

fn read(path: &str, mut reader: impl Read + Seek) -> Result<StateDict, String> {
    let held = reader.seek(SeekFrom::End(0)).map_err(text)?;
    let mut archive = match ZipArchive::new(&mut reader) {
        Ok(archive) => archive,
        Err(error) => return Err(files::mismatch(NPZ, path, &mut reader, error)),
    };
    let is_array = |name: &str| name.ends_with(".npy");
    let has_arrays = archive.file_names().flatten().any(|name| is_array(&name));
    if !has_arrays && !archive.is_empty() {
        drop(archive);
        return Err(files::mismatch(
            NPZ,
            path,
            &mut reader,
            "it has no arrays, NAME.npy",
        ));
    }
    let (mut dict, mut limit) = (StateDict::new(), Limit::new(held));
    for k in 0..archive.len() {
        let entry = archive.by_index(k).map_err(text)?;
        let file = entry.name().map_err(text)?.into_owned();
        let of = |reason: String| format!("{file}: {reason}");
        let Some(name) = file.strip_suffix(".npy") else {
            return Err(of("expected an array, NAME.npy".into()));
        };
        let size = entry.size();
        let array = match limit.claim(size.max(entry.compressed_size())) {
            Ok(()) => array(entry, size).map_err(of)?,
            Err(reason) => Err(reason),
        };
        dict.insert_read(name, array);
    }
    Ok(dict)
}

/// Reads one `.npy` file of `size` bytes. The inner error is an array that Burn cannot have.
fn array(mut file: impl Read, size: u64) -> Result<Result<TensorData, String>, String> {
    let start = start(&mut file)?;
    let header = Header::from_reader(&mut &start[..]).map_err(text)?;
    let descr = header.type_descriptor.as_string();
    let Some((dtype, is_big_endian)) = descr.and_then(|descr| number_type(descr)) else {
        let descr = &header.type_descriptor;
        return Ok(Err(format!(
            "expected numbers of type f2, f4, f8, i1 to i8, u1 to u8 or b1, got {descr}"
        )));
    };
    let (shape, width) = (header.shape, dtype.size());
    if let Err(reason) = files::check_rank(shape.len()) {
        return Ok(Err(reason));
    }
    let mut sizes = shape.iter().map(|&n| n as u64);
    let bytes = sizes.try_fold(width as u64, u64::checked_mul);
    let there = size.saturating_sub(start.len() as u64);
    if bytes != Some(there) {
        return Err(format!(
            "shape {shape:?} of {width}-byte numbers does not fit the {there} bytes that it holds"
        ));
    }
    // Allocates only for existing bytes, and reads to the end, where the archive checks its checksum.
    let mut data = Vec::with_capacity(AHEAD.min(there as usize));
    let mut numbers = file.take(there.saturating_add(1));
    numbers.read_to_end(&mut data).map_err(text)?;
    if data.len() as u64 != there {
        return Err(format!(
            "expected {there} bytes of numbers, got {}",
            data.len()
        ));
    }
    if is_big_endian != cfg!(target_endian = "big") {
        data.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    if header.layout.is_fortran() {
        // Fortran order is row-major order of the reversed axes. The last axis has the bytes of a number.
        let sizes: Vec<_> = shape.iter().rev().copied().chain([width]).collect();
        let axes: Vec<_> = (0..shape.len()).rev().chain([shape.len()]).collect();
        let array = ArrayD::from_shape_vec(sizes, data)
            .map_err(text)?
            .permuted_axes(axes);
        (data, _) = array
            .as_standard_layout()
            .into_owned()
            .into_raw_vec_and_offset();
    }
    Ok(checked(TensorData::from_bytes_vec(data, shape, dtype)))
}

/// Reads everything before the values, if it is short enough.
fn start(file: &mut impl Read) -> Result<Vec<u8>, String> {
    let mut first = [0; 10];
    file.read_exact(&mut first).map_err(text)?;
    let [.., version, _, low, high] = first;
    let mut start = first.to_vec();
    let mut length = usize::from(u16::from_le_bytes([low, high]));
    if version > 1 {
        let mut rest = [0; 2];
        file.read_exact(&mut rest).map_err(text)?;
        start.extend(rest);
        length |= usize::from(u16::from_le_bytes(rest)) << 16;
    }
    if length > HEADER {
        return Err(format!(
            "expected a header of {HEADER} bytes at most, got {length}"
        ));
    }
    let before = start.len();
    start.resize(before + length, 0);
    file.read_exact(&mut start[before..]).map_err(text)?;
    let opens = |byte: &&u8| b"([{".contains(byte);
    match start[before..].iter().filter(opens).count() {
        0..=BRACKETS => Ok(start),
        _ => Err("expected plain numbers, got a header with many brackets".into()),
    }
}

/// A number type such as `<f4`, as NumPy writes it, and whether its bytes are in big-endian order.
fn number_type(descr: &str) -> Option<(DType, bool)> {
    let dtype = match descr.get(1..)? {
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "b1" => DType::Bool(BoolStore::Native),
        _ => return None,
    };
    match &descr[..1] {
        "<" => Some((dtype, false)),
        ">" => Some((dtype, true)),
        // A single byte has no order.
        "|" if dtype.size() == 1 => Some((dtype, false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
