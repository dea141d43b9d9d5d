//! Burn's `.bpk` files.

use super::{failed, limit, torch::checked};
use crate::{error::ConvertError, state_dict::StateDict};
use burn::tensor::Bytes;
use burn_store::{bridge, burn_pack::Reader};
use std::{fs, path::Path};

impl StateDict {
    /// Reads the parameters of a record that Burn's `save_file` or `BurnpackStore` wrote.
    ///
    /// # Errors
    /// If the file cannot be read as a burnpack.
    pub fn from_burnpack(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
        let path = path.as_ref();
        let failed = |error: &dyn std::fmt::Display| failed(path.display(), error);
        let bytes = fs::read(path).map_err(|e| failed(&e))?;
        let held = bytes.len() as u64;
        let reader = Reader::from_bytes(Bytes::from_bytes_vec(bytes)).map_err(|e| failed(&e))?;
        let tensors = reader.into_tensors().map_err(|e| failed(&e))?;
        // Arrays may share bytes of the file.
        let claimed = tensors.iter().map(|tensor| tensor.byte_len() as u64).sum();
        limit::check(held, claimed).map_err(|e| failed(&e))?;
        let mut dict = Self::new();
        for tensor in tensors {
            let name = tensor.name.clone();
            let data = bridge::into_data(tensor).map_err(|e| failed(&format!("{name}: {e}")))?;
            dict.insert(&name, checked(path, &name, data)?);
        }
        Ok(dict)
    }
}
