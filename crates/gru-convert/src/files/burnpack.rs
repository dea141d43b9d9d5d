//! Burn's `.bpk` files.

use super::{checked, failed};
use crate::{error::ConvertError, state_dict::StateDict};
use burn::tensor::{Bytes, TensorData};
use burn_store::{bridge, burn_pack::Reader};
use gru_op::files::{self, BURNPACK, Limit};
use std::{io::Cursor, path::Path};

impl StateDict {
    /// Reads the parameters of a record that Burn's `save_file` or `BurnpackStore` wrote.
    ///
    /// # Errors
    /// If the file cannot be read as a burnpack.
    pub fn from_burnpack(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
        let path = path.as_ref();
        let failed = |error: &dyn std::fmt::Display| failed(path.display(), error);
        let bytes = files::read(path).map_err(|e| failed(&e))?;
        let bytes = Bytes::from_elems(bytes).shared();
        let reader = Reader::from_bytes(bytes.clone()).map_err(|e| {
            failed(&files::mismatch(
                BURNPACK,
                &path.to_string_lossy(),
                &mut Cursor::new(&bytes[..]),
                e,
            ))
        })?;
        let tensors = reader.into_tensors().map_err(|e| failed(&e))?;
        let (mut dict, mut limit) = (Self::new(), Limit::new(bytes.len() as u64));
        for tensor in tensors {
            let name = tensor.name.clone();
            // Arrays may share bytes of the file.
            let data = match limit.claim_array(tensor.shape.len(), tensor.byte_len() as u64) {
                Ok(()) => {
                    let data = bridge::into_data(tensor).map_err(|e| failed(&e))?;
                    let (bytes, shape, dtype) = data.into_parts();
                    let bytes = files::aligned(bytes, dtype);
                    checked(TensorData::from_bytes(bytes, shape, dtype))
                }
                Err(reason) => Err(reason),
            };
            dict.insert_read(&name, data);
        }
        Ok(dict)
    }
}
