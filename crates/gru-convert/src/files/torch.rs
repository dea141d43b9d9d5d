//! PyTorch's `.pt` files, and `.safetensors`.

use crate::{error::ConvertError, state_dict::StateDict};
use burn::tensor::{DType, TensorData};
use burn_store::{ModuleStore, PytorchStore, SafetensorsStore, bridge, burn_pack::AtomicFile};
use gru_op::GruError;
use safetensors::{Dtype, tensor::TensorView};
use std::{fs, io::Write, path::Path};

/// How many arrays may share a value of a file. Tied weights are one array with two names. A single
/// value that claims to fill gigabytes is not a model.
const SHARED: u128 = 16;

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
    /// If the file cannot be read as a checkpoint, or has no such key.
    pub fn from_pytorch_at(path: impl AsRef<Path>, key: &str) -> Result<Self, ConvertError> {
        let store = pytorch(path.as_ref()).with_top_level_key(key);
        Self::from_store(store, path.as_ref())
    }

    /// Reads the tensors of a safetensors file.
    ///
    /// # Errors
    /// If the file cannot be read as a safetensors file.
    pub fn from_safetensors(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
        Self::from_store(SafetensorsStore::from_file(path.as_ref()), path.as_ref())
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
        let held = bytes.len() as u64;
        Self::read(
            SafetensorsStore::from_bytes(Some(bytes)),
            held,
            name.as_ref(),
        )
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

    fn from_store(store: impl ModuleStore, path: &Path) -> Result<Self, ConvertError> {
        let held = fs::metadata(path).map_err(|e| failed(path, e))?.len();
        Self::read(store, held, path)
    }

    /// The tensors of a file of `held` bytes.
    fn read(mut store: impl ModuleStore, held: u64, path: &Path) -> Result<Self, ConvertError> {
        let tensors = store.get_all_tensors().map_err(|e| failed(path, e))?;
        let claimed: u128 = tensors.values().map(|t| t.byte_len() as u128).sum();
        if claimed > u128::from(held) * SHARED {
            let reason = format!("it holds {held} bytes, but its arrays claim {claimed}");
            return Err(failed(path, reason));
        }
        let mut dict = Self::new();
        for (name, tensor) in tensors {
            let data = bridge::to_data(tensor).map_err(|e| failed(path, e))?;
            dict.insert(name, data);
        }
        Ok(dict)
    }
}

/// A store that keeps the names of the file. By default Burn renumbers layers if a number is missing.
fn pytorch(path: &Path) -> PytorchStore {
    PytorchStore::from_file(path).map_indices_contiguous(false)
}

fn failed(path: &Path, error: impl std::fmt::Display) -> ConvertError {
    super::failed(path.display(), error)
}

/// An array for the safetensors writer.
fn view<'a>(
    (name, data): (&'a String, &'a TensorData),
) -> Result<(&'a str, TensorView<'a>), ConvertError> {
    let dtype = match data.dtype() {
        DType::F64 => Dtype::F64,
        DType::F32 | DType::Flex32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        actual => {
            let name = name.clone();
            return Err(GruError::DType { name, actual }.into());
        }
    };
    let view = TensorView::new(dtype, data.shape().to_vec(), data.as_bytes());
    Ok((name, view.expect("the shape fits the bytes")))
}
