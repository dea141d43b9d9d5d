//! The values of a tensor: in the model file, or in a file next to it.

use super::proto::{self, element};
use crate::error::ConvertError;
use burn::tensor::{DType, Element, TensorData};
use gru_op::files;
use prost::bytes::Bytes;
use std::{
    io::{Read, Seek, SeekFrom},
    path::{Component, Path, PathBuf},
};

/// The values of a tensor of floating-point numbers with the name `name`. `model` is the path of the model, if it is a
/// file.
///
/// The function allocates only as much as the file contains.
pub fn read(
    name: &str,
    tensor: &proto::Tensor,
    model: Option<&Path>,
) -> Result<TensorData, ConvertError> {
    const TYPES: &str = "1 (float), 10 (float16), 11 (double) or 16 (bfloat16)";
    numbers(name, tensor, model, float, TYPES)
}

/// [`read`] for integers of 64 bits.
pub fn integers(
    name: &str,
    tensor: &proto::Tensor,
    model: Option<&Path>,
) -> Result<TensorData, ConvertError> {
    let int64 = |code| (code == element::INT64).then_some((DType::I64, 8));
    numbers(name, tensor, model, int64, "7 (int64) of indices")
}

fn numbers(
    name: &str,
    tensor: &proto::Tensor,
    model: Option<&Path>,
    dtype: fn(i32) -> Option<(DType, usize)>,
    types: &str,
) -> Result<TensorData, ConvertError> {
    let broken = |reason: String| ConvertError::Tensor {
        name: name.to_owned(),
        reason,
    };
    files::check_rank(tensor.dims.len()).map_err(broken)?;
    let dims: Option<Vec<usize>> = tensor.dims.iter().map(|&d| d.try_into().ok()).collect();
    let elements = |dims: &[usize]| dims.iter().try_fold(1usize, |all, &d| all.checked_mul(d));
    let (dims, len) = dims
        .and_then(|dims| elements(&dims).map(|len| (dims, len)))
        .ok_or_else(|| {
            broken(format!(
                "expected sizes that fit in memory, got {:?}",
                tensor.dims
            ))
        })?;
    let code = tensor.data_type.unwrap_or_default();
    let (dtype, size) =
        dtype(code).ok_or_else(|| broken(format!("expected element type {types}, got {code}")))?;
    let count = |actual: usize| {
        if actual == len {
            Ok(())
        } else {
            Err(broken(format!(
                "expected {len} numbers for shape {dims:?}, got {actual}"
            )))
        }
    };
    let raw = match tensor.data_location.unwrap_or_default() {
        0 => tensor.raw_data.clone(),
        _ => {
            let bytes = len.checked_mul(size).ok_or_else(|| {
                broken(format!("expected sizes that fit in memory, got {dims:?}"))
            })?;
            Some(external(
                &tensor.external_data,
                bytes as u64,
                model,
                &broken,
            )?)
        }
    };
    if let Some(raw) = raw {
        if raw.len() % size != 0 {
            return Err(broken(format!(
                "expected numbers of {size} bytes, got {} bytes",
                raw.len()
            )));
        }
        count(raw.len() / size)?;
        // Raw data of ONNX is always little-endian.
        let bytes = files::little_endian(&raw, dtype).into_owned();
        return Ok(TensorData::from_bytes_vec(bytes, dims, dtype));
    }
    // Without raw bytes, the values are in the list of their type.
    match dtype {
        DType::F32 => {
            count(tensor.float_data.len())?;
            Ok(TensorData::new(tensor.float_data.clone(), dims))
        }
        DType::I64 => {
            count(tensor.int64_data.len())?;
            Ok(TensorData::new(tensor.int64_data.clone(), dims))
        }
        DType::F64 => {
            count(tensor.double_data.len())?;
            Ok(TensorData::new(tensor.double_data.clone(), dims))
        }
        _ => {
            count(tensor.int32_data.len())?;
            let bits = tensor.int32_data.iter().map(|&bits| bits as u16);
            let bytes = bits.flat_map(u16::to_ne_bytes).collect();
            Ok(TensorData::from_bytes_vec(bytes, dims, dtype))
        }
    }
}

/// An element type of floating-point numbers, and its size in bytes.
pub fn float(code: i32) -> Option<(DType, usize)> {
    match code {
        element::FLOAT => Some((DType::F32, 4)),
        element::DOUBLE => Some((DType::F64, 8)),
        element::FLOAT16 => Some((DType::F16, 2)),
        element::BFLOAT16 => Some((DType::BF16, 2)),
        _ => None,
    }
}

/// Converts values to a tensor of a file: float64, integers and truth values unchanged, all others as float32, which
/// represents them exactly.
pub fn write(name: &str, data: &TensorData) -> proto::Tensor {
    fn raw<T: Element, const N: usize>(data: &TensorData, bytes: fn(T) -> [u8; N]) -> Vec<u8> {
        data.iter::<T>().flat_map(bytes).collect()
    }
    let dims = data.shape().iter().map(|&d| d as i64).collect();
    let (data_type, raw) = match data.dtype() {
        DType::F64 => (element::DOUBLE, raw(data, f64::to_le_bytes)),
        DType::I32 => (element::INT32, raw(data, i32::to_le_bytes)),
        DType::I64 => (element::INT64, raw(data, i64::to_le_bytes)),
        DType::Bool(_) => (element::BOOL, raw(data, |bit: bool| [u8::from(bit)])),
        _ => (element::FLOAT, raw(data, f32::to_le_bytes)),
    };
    proto::Tensor {
        dims,
        data_type: Some(data_type),
        name: Some(name.to_owned()),
        raw_data: Some(raw.into()),
        ..Default::default()
    }
}

/// The `expected` bytes from a file in the folder of `model` or below. A model must not read other files.
fn external(
    entries: &[proto::Entry],
    expected: u64,
    model: Option<&Path>,
    broken: &dyn Fn(String) -> ConvertError,
) -> Result<Bytes, ConvertError> {
    let get = |key: &str| {
        let found = entries.iter().find(|e| e.key.as_deref() == Some(key));
        found.and_then(|e| e.value.as_deref())
    };
    let location = get("location").unwrap_or_default();
    let number = |key, default| match get(key) {
        None => Ok(default),
        Some(text) => text.parse::<u64>().map_err(|_| {
            broken(format!(
                "{key} of its file: expected a number, got {text:?}"
            ))
        }),
    };
    let (offset, length) = (number("offset", 0)?, number("length", expected)?);
    if length != expected {
        return Err(broken(format!(
            "expected {expected} bytes in {location:?}, got {length}"
        )));
    }
    let Some(model) = model else {
        return Err(broken(format!(
            "expected its numbers within the model, which is no file, got {location:?}"
        )));
    };
    let path = within(model, location).ok_or_else(|| {
        broken(format!(
            "expected a file in the model's folder, got {location:?}"
        ))
    })?;
    let failed = |error: std::io::Error| ConvertError::File {
        path: path.clone(),
        error,
    };
    let mut file = files::open(&path).map_err(failed)?;
    let held = file.metadata().map_err(failed)?.len();
    if offset.checked_add(length).is_none_or(|end| end > held) {
        return Err(broken(format!(
            "expected {length} bytes from byte {offset} of {location:?}, which holds {held}"
        )));
    }
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut bytes = vec![0; length as usize];
    file.read_exact(&mut bytes).map_err(failed)?;
    Ok(bytes.into())
}

/// `location` next to the model or below, with resolved links, or none if it leads elsewhere. If the path of
/// the model is a link, as in the cache of Hugging Face, the link's target has a folder too.
fn within(model: &Path, location: &str) -> Option<PathBuf> {
    let relative = Path::new(location);
    let plain = |c: Component| matches!(c, Component::Normal(_) | Component::CurDir);
    if location.is_empty() || !relative.components().all(plain) {
        return None;
    }
    let path = model.with_file_name(relative);
    let Ok(resolved) = path.canonicalize() else {
        return Some(path); // A missing file is reported when it is opened.
    };
    let target = model.canonicalize().unwrap_or_default();
    let folders = [
        model.with_file_name(".").canonicalize().ok(),
        target.parent().map(Path::to_owned),
    ];
    let inside = folders
        .iter()
        .flatten()
        .any(|folder| resolved.starts_with(folder));
    inside.then_some(resolved)
}
