//! Burn's `.bpk` files.

use super::{checked, failed};
use crate::{error::ConvertError, state_dict::StateDict};
use burn::tensor::{Bytes, TensorData};
use burn_store::{bridge, burn_pack::Reader};
use gru_op::files::{self, BURNPACK, CONFIG, Limit};
use std::{fmt::Display, io::Cursor, path::Path};

impl StateDict {
    /// Reads the parameters of a record that Burn's `save_file` or `BurnpackStore` wrote. `path` has its extension.
    /// Importers return an error for quantized parameters.
    ///
    /// # Errors
    /// If the file cannot be read as a burnpack. On a big-endian machine, also if `GruBlock::save_with_config` did not
    /// write it: there Burn 0.22 writes numbers in the byte order of the machine, and the file does not say which.
    pub fn from_burnpack(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
        let path = path.as_ref();
        let bytes = files::read(path).map_err(|e| failed(path, e))?;
        let invalid = |reason: &dyn Display| failed(path, files::invalid(reason));
        let bytes = Bytes::from_elems(bytes).shared();
        let reader = Reader::from_bytes(bytes.clone()).map_err(|e| {
            invalid(&files::mismatch(
                BURNPACK,
                &path.to_string_lossy(),
                &mut Cursor::new(&bytes[..]),
                e,
            ))
        })?;
        if cfg!(target_endian = "big") && !reader.metadata().contains_key(CONFIG) {
            let reason = "expected a file of GruBlock::save_with_config, got one of Burn, whose byte order is unknown on \
                          big-endian machines; use safetensors";
            return Err(invalid(&reason));
        }
        let tensors = reader.into_tensors().map_err(|e| invalid(&e))?;
        let (mut dict, mut limit) = (Self::new(), Limit::new(bytes.len() as u64));
        for tensor in tensors {
            let name = tensor.name.clone();
            // Arrays may share bytes of the file.
            let data = match limit.claim_array(tensor.shape.len(), tensor.byte_len() as u64) {
                Ok(()) => {
                    let data = bridge::into_data(tensor).map_err(|e| invalid(&e))?;
                    let (bytes, shape, dtype) = data.into_parts();
                    let bytes = files::native(bytes, dtype);
                    checked(TensorData::from_bytes(bytes, shape, dtype))
                }
                Err(reason) => Err(reason),
            };
            dict.insert_read(&name, data);
        }
        Ok(dict)
    }
}

#[cfg(test)]
mod tests;
