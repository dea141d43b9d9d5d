//! PyTorch's `.pt` files, and `.safetensors`.

use crate::{error::ConvertError, state_dict::StateDict};
use burn::tensor::{BoolStore, DType, TensorData};
use burn_store::{ModuleStore, PytorchStore, bridge, burn_pack::AtomicFile};
use gru_op::GruError;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
};
use zip::{CompressionMethod, ZipArchive};

/// How many arrays may share a value of a file. Tied weights are one array with two names. A single
/// value that claims to fill gigabytes is not a model.
const SHARED: u128 = 16;

/// Types of Burn and of safetensors.
const DTYPES: [(DType, Dtype); 13] = [
    (DType::F64, Dtype::F64),
    (DType::F32, Dtype::F32),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::I64, Dtype::I64),
    (DType::I32, Dtype::I32),
    (DType::I16, Dtype::I16),
    (DType::I8, Dtype::I8),
    (DType::U64, Dtype::U64),
    (DType::U32, Dtype::U32),
    (DType::U16, Dtype::U16),
    (DType::U8, Dtype::U8),
    (DType::Bool(BoolStore::Native), Dtype::BOOL),
];

impl StateDict {
    /// Reads the tensors of a PyTorch file: a state dict that `torch.save` wrote.
    ///
    /// # Errors
    /// If the file cannot be read as a state dict.
    pub fn from_pytorch(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
        Self::from_store(pytorch(path.as_ref()), path.as_ref())
    }

    /// Reads the state dict under `key` of a PyTorch checkpoint, for example `"model_state_dict"`.
    ///
    /// # Errors
    /// If the file cannot be read as a checkpoint, has no such key, or has no tensors there.
    pub fn from_pytorch_at(path: impl AsRef<Path>, key: &str) -> Result<Self, ConvertError> {
        let path = path.as_ref();
        let dict = Self::from_store(pytorch(path).with_top_level_key(key), path)?;
        if dict.tensors.is_empty() {
            return Err(failed(path, format!("{key}: expected tensors, got none")));
        }
        Ok(dict)
    }

    /// Reads the tensors of a safetensors file.
    ///
    /// # Errors
    /// If the file cannot be read as a safetensors file.
    pub fn from_safetensors(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|e| failed(path, e))?;
        Self::from_safetensors_bytes(path, bytes)
    }

    /// [`from_safetensors`](Self::from_safetensors) for the bytes of a file. Errors use `name` as its
    /// path.
    ///
    /// # Errors
    /// As [`from_safetensors`](Self::from_safetensors).
    pub fn from_safetensors_bytes(
        name: impl AsRef<Path>,
        bytes: Vec<u8>,
    ) -> Result<Self, ConvertError> {
        let path = name.as_ref();
        let mut dict = Self::new();
        let file = SafeTensors::deserialize(&bytes).map_err(|e| failed(path, e))?;
        for (name, tensor) in file.iter() {
            let kind = tensor.dtype();
            let dtype = DTYPES.iter().find(|(_, of_file)| *of_file == kind);
            let Some(&(dtype, _)) = dtype else {
                let reason = format!("expected numbers of a type of Burn, got {kind:?}");
                dict.insert_read(name, Err(reason));
                continue;
            };
            let (bytes, shape) = (tensor.data().to_vec(), tensor.shape());
            let data = TensorData::from_bytes_vec(bytes, shape, dtype);
            dict.insert(name, checked(path, name, data)?);
        }
        Ok(dict)
    }

    /// Writes a safetensors file, completely or not at all.
    ///
    /// # Errors
    /// If the file cannot be written, or if an array does not contain floating-point numbers.
    pub fn to_safetensors(&self, path: impl AsRef<Path>) -> Result<(), ConvertError> {
        let path = path.as_ref();
        let views: Result<Vec<_>, _> = self.tensors.iter().map(view).collect();
        let bytes = safetensors::serialize(views?, None).map_err(|e| failed(path, e))?;
        let (guard, mut file) = AtomicFile::create(path).map_err(|e| failed(path, e))?;
        file.write_all(&bytes).map_err(|e| failed(path, e))?;
        // Only this handle reports late write errors.
        file.sync_all().map_err(|e| failed(path, e))?;
        drop(file);
        guard.commit().map_err(|e| failed(path, e))
    }

    /// The tensors of a PyTorch file.
    fn from_store(mut store: PytorchStore, path: &Path) -> Result<Self, ConvertError> {
        expect_plain(path).map_err(|reason| failed(path, reason))?;
        let held = fs::metadata(path).map_err(|e| failed(path, e))?.len();
        let tensors = store.get_all_tensors().map_err(|e| failed(path, e))?;
        let claimed: u128 = tensors.values().map(|t| t.byte_len() as u128).sum();
        if claimed > u128::from(held) * SHARED {
            let reason = format!("it holds {held} bytes, but its arrays claim {claimed}");
            return Err(failed(path, reason));
        }
        let mut dict = Self::new();
        for (name, tensor) in tensors {
            let data = bridge::to_data(tensor).map_err(|e| failed(path, e))?;
            dict.insert(name, checked(path, name, data)?);
        }
        Ok(dict)
    }
}

/// A store that keeps the names of the file. By default Burn renumbers layers if a number is missing.
fn pytorch(path: &Path) -> PytorchStore {
    PytorchStore::from_file(path).map_indices_contiguous(false)
}

/// Returns an error for a file that may be larger in memory than on disk: `torch.save` compresses nothing.
fn expect_plain(path: &Path) -> Result<(), String> {
    let file = File::open(path).map_err(|e| e.to_string())?;
    let held = file.metadata().map_err(|e| e.to_string())?.len();
    let mut header = Vec::new();
    let start = (&file).take(512).read_to_end(&mut header);
    start.map_err(|e| e.to_string())?;
    if header.get(257..262) == Some(b"ustar") {
        return expect_plain_tar(&file, held);
    }
    if !header.starts_with(b"PK") {
        return Ok(());
    }
    let mut archive = ZipArchive::new(file).map_err(|e| e.to_string())?;
    let mut claimed = 0u64;
    for k in 0..archive.len() {
        let entry = archive.by_index_raw(k).map_err(|e| e.to_string())?;
        let name = entry.name().map_err(|e| e.to_string())?;
        if name.ends_with("/constants.pkl") || name.contains("/code/") {
            return Err(
                "expected a state dict, got TorchScript; save torch.jit.load(file).state_dict()"
                    .into(),
            );
        }
        claimed = claimed.saturating_add(entry.size());
        if entry.compression() != CompressionMethod::Stored || claimed > held {
            return Err(format!(
                "{name}: expected no compression, as torch.save writes, got some"
            ));
        }
    }
    Ok(())
}

/// Returns an error for a tar archive, which PyTorch wrote before 0.1.10, with other entries than files and folders. A
/// sparse entry is as large as it claims, and another entry may change the size of the next one.
fn expect_plain_tar(mut file: &File, held: u64) -> Result<(), String> {
    const BLOCK: u64 = 512;
    let mut header = [0; BLOCK as usize];
    let mut at = 0;
    while at + BLOCK <= held {
        let read = file.seek(SeekFrom::Start(at));
        read.and_then(|_| file.read_exact(&mut header))
            .map_err(|e| e.to_string())?;
        at += BLOCK;
        // Zeros fill the archive.
        if header == [0; BLOCK as usize] {
            continue;
        }
        let size = str::from_utf8(&header[124..136]).unwrap_or_default();
        let size = u64::from_str_radix(size.trim_matches(['\0', ' ']), 8);
        let (Ok(size), 0 | b'0' | b'5') = (size, header[156]) else {
            return Err(format!(
                "expected a tar archive of files, got another entry before byte {at}"
            ));
        };
        at += size.next_multiple_of(BLOCK);
    }
    Ok(())
}

/// Returns an error for booleans that are not 0 or 1.
pub(super) fn checked(
    path: &Path,
    name: &str,
    data: TensorData,
) -> Result<TensorData, ConvertError> {
    if let DType::Bool(_) = data.dtype() {
        let checked = super::expect_bools(data.as_bytes());
        checked.map_err(|reason| failed(path, format!("{name}: {reason}")))?;
    }
    Ok(data)
}

fn failed(path: &Path, error: impl std::fmt::Display) -> ConvertError {
    super::failed(path.display(), error)
}

/// An array for the safetensors writer.
fn view<'a>(
    (name, data): (&'a String, &'a TensorData),
) -> Result<(&'a str, TensorView<'a>), ConvertError> {
    let actual = data.dtype();
    let dtype = match actual {
        DType::Flex32 => Some(Dtype::F32),
        _ => DTYPES
            .iter()
            .find(|(dtype, _)| *dtype == actual)
            .map(|(_, of_file)| *of_file),
    };
    let Some(dtype) = dtype.filter(|_| actual.is_float()) else {
        let name = name.clone();
        return Err(GruError::DType { name, actual }.into());
    };
    let view = TensorView::new(dtype, data.shape().to_vec(), data.as_bytes());
    Ok((name, view.expect("the shape fits the bytes")))
}

#[cfg(test)]
mod tests;
