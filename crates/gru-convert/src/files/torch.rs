//! PyTorch's `.pt` files.

mod scan;

use super::{checked, failed, text};
use crate::{error::ConvertError, state_dict::StateDict};
use burn_store::{ModuleStore, PytorchStore, PytorchStoreError, bridge, pytorch::PytorchError};
use gru_op::files::{self, Limit, PYTORCH};
use std::{fs::File, io::Read, path::Path};
use zip::{CompressionMethod, ZipArchive};

/// The advice for a file with an object that the reader does not know.
const PART: &str = "if only a part is needed, save it in Python: torch.save({k: v for k, v in state_dict.items() if \
                    k.startswith(\"rnn.\")}, \"part.pt\")";

impl StateDict {
    /// Reads the tensors of a PyTorch file: a state dict that `torch.save` wrote. Dictionaries in it
    /// are read too, with their keys joined by dots: `model_state_dict.gru.weight_ih_l0`. Values that are no tensors are
    /// ignored.
    ///
    /// # Errors
    /// If the file cannot be read as a state dict. One tensor of a type that Burn does not have, or a Python object that
    /// the reader does not know, such as a `defaultdict`, makes the whole file an error. Save the part in Python:
    ///
    /// ```python
    /// part = {k: v for k, v in state_dict.items() if k.startswith("rnn.")}
    /// torch.save(part, "part.pt")
    /// ```
    ///
    /// Time and memory are limited by the size of the file, with one exception: a file that an attacker made may have the
    /// same object in thousands of places, and the reader copies it.
    pub fn from_pytorch(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
        Self::from_store(pytorch(path.as_ref()), path.as_ref(), "")
    }

    /// Reads the state dict under `key` of a PyTorch checkpoint.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), gru_convert::ConvertError> {
    /// let dict = gru_convert::StateDict::from_pytorch_at("checkpoint.pt", "model_state_dict")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ConvertError::File`] if the file cannot be read as a checkpoint, has no such key, or has no tensors there. An object that the reader does
    /// not know is an error, even under another key.
    pub fn from_pytorch_at(path: impl AsRef<Path>, key: &str) -> Result<Self, ConvertError> {
        let path = path.as_ref();
        let dict = Self::from_store(pytorch(path).with_top_level_key(key), path, key)?;
        if dict.tensors.is_empty() {
            return Err(invalid(path, format!("{key}: expected tensors, got none")));
        }
        Ok(dict)
    }

    /// The tensors of a PyTorch file.
    fn from_store(mut store: PytorchStore, path: &Path, key: &str) -> Result<Self, ConvertError> {
        let mut file = files::open(path).map_err(|e| failed(path, e))?;
        let mut limit = Limit::new(file.metadata().map_err(|e| failed(path, e))?.len());
        let name = path.to_string_lossy();
        expect_plain(&file, &limit).map_err(|reason| {
            // A file of another kind is no pickle with large claims.
            let mismatch = files::mismatch(PYTORCH, &name, &mut file, "");
            let is_other = !mismatch.ends_with(": ") && reason != TORCH_SCRIPT;
            invalid(path, if is_other { mismatch } else { reason })
        })?;
        let tensors = store.get_all_tensors().map_err(|error| {
            let reason = match &error {
                // The file can be read.
                PytorchStoreError::Reader(PytorchError::KeyNotFound(text)) => {
                    let keys = text
                        .split_once("keys: ")
                        .map_or(text.as_str(), |(_, keys)| keys);
                    return invalid(
                        path,
                        format!("expected one of the keys {keys}, got {key:?}"),
                    );
                }
                PytorchStoreError::Reader(PytorchError::InvalidFormat(_)) if !key.is_empty() => {
                    return invalid(
                        path,
                        format!("{key}: expected a dictionary with this key; {error}"),
                    );
                }
                PytorchStoreError::Reader(PytorchError::Pickle(error)) => {
                    format!("{error}; {PART}")
                }
                other => other.to_string(),
            };
            invalid(path, files::mismatch(PYTORCH, &name, &mut file, reason))
        })?;
        let mut dict = Self::new();
        for (name, tensor) in tensors {
            let bytes = tensor.byte_len() as u64;
            let data = match limit.claim_array(tensor.shape.len(), bytes) {
                Ok(()) => checked(bridge::to_data(tensor).map_err(|e| invalid(path, e))?),
                Err(reason) => Err(reason),
            };
            dict.insert_read(name, data);
        }
        Ok(dict)
    }
}

/// A store that keeps the names of the file. By default Burn renumbers layers if a number is missing.
fn pytorch(path: &Path) -> PytorchStore {
    PytorchStore::from_file(path).map_indices_contiguous(false)
}

const TORCH_SCRIPT: &str =
    "expected a state dict, got TorchScript; save torch.jit.load(file).state_dict()";

/// Returns an error for a file that may be much larger in memory than on disk: `torch.save` compresses nothing.
fn expect_plain(mut file: &File, limit: &Limit) -> Result<(), String> {
    let mut start = Vec::new();
    file.take(512).read_to_end(&mut start).map_err(text)?;
    if start.get(257..262) == Some(b"ustar") {
        return Err("expected a file of PyTorch 0.1.10 or later, got a tar archive".into());
    }
    if !start.starts_with(b"PK") {
        file.read_to_end(&mut start).map_err(text)?;
        return scan::check(&start, limit);
    }
    // The reader explains the error.
    let Ok(mut archive) = ZipArchive::new(file) else {
        return Ok(());
    };
    let mut claimed = 0u64;
    for k in 0..archive.len() {
        let mut entry = archive.by_index(k).map_err(text)?;
        let name = entry.name().map_err(text)?.into_owned();
        if name.ends_with("/constants.pkl") || name.contains("/code/") {
            return Err(TORCH_SCRIPT.into());
        }
        claimed = claimed.saturating_add(entry.size());
        if entry.compression() != CompressionMethod::Stored || claimed > limit.held() {
            return Err(format!(
                "{name}: expected no compression, as torch.save writes, got some"
            ));
        }
        if name.ends_with("data.pkl") {
            let mut pickle = Vec::new();
            entry.read_to_end(&mut pickle).map_err(text)?;
            scan::check(&pickle, limit)?;
        }
    }
    Ok(())
}

fn invalid(path: &Path, reason: impl std::fmt::Display) -> ConvertError {
    failed(path, files::invalid(reason))
}

#[cfg(test)]
mod tests;
