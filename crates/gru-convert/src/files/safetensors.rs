//! The format safetensors.

use super::{checked, failed};
use crate::{error::ConvertError, state_dict::StateDict};
use burn::tensor::{BoolStore, Bytes, DType, TensorData};
use burn_store::burn_pack::AtomicFile;
use gru_op::{
    GruError,
    files::{self, SAFETENSORS},
};
use safetensors::{Dtype, SafeTensors, View};
use std::{
    borrow::Cow,
    io::{self, Cursor, Write},
    path::Path,
};

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
    /// Reads the tensors of a safetensors file. They share the memory of the file. As for every file, the error of a
    /// missing one is [`ConvertError::File`] of the kind `NotFound`.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), gru_convert::ConvertError> {
    /// use gru_convert::{StateDict, pytorch};
    ///
    /// let dict = StateDict::from_safetensors("model.safetensors")?;
    /// let config = pytorch::config(&dict, "encoder.")?;
    /// let gru = pytorch::import(&dict, "encoder.", &config, &burn::tensor::Device::flex())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the file cannot be read as a safetensors file.
    pub fn from_safetensors(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
        let path = path.as_ref();
        let bytes = files::read(path).map_err(|e| failed(path, e))?;
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
        let bytes = Bytes::from_elems(bytes).shared();
        let name = name.as_ref().display().to_string();
        read(&name, &bytes).map_err(|reason| failed(&name, files::invalid(reason)))
    }

    /// Writes a safetensors file, completely or not at all. An existing file is replaced. Arrays that are left out are not
    /// written.
    ///
    /// # Errors
    /// If the file cannot be written, or if an array does not contain floating-point numbers.
    pub fn to_safetensors(&self, path: impl AsRef<Path>) -> Result<(), ConvertError> {
        let path = path.as_ref();
        let failed = |error: io::Error| failed(path, error);
        let views: Result<Vec<_>, _> = self.tensors.iter().map(view).collect();
        let bytes = safetensors::serialize(views?, None);
        let bytes = bytes.map_err(|e| failed(files::invalid(e)))?;
        let created = AtomicFile::create(path);
        let (guard, mut file) = created.map_err(|e| failed(files::invalid(e)))?;
        file.write_all(&bytes).map_err(failed)?;
        // Only this handle reports late write errors.
        file.sync_all().map_err(failed)?;
        drop(file);
        guard.commit().map_err(|e| failed(files::invalid(e)))
    }
}

fn read(path: &str, bytes: &Bytes) -> Result<StateDict, String> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|e| files::mismatch(SAFETENSORS, path, &mut Cursor::new(&bytes[..]), e))?;
    let mut dict = StateDict::new();
    for (name, tensor) in file.iter() {
        let kind = tensor.dtype();
        let dtype = DTYPES.iter().find(|(_, of_file)| *of_file == kind);
        let array = match (dtype, files::check_rank(tensor.shape().len())) {
            (None, _) => Err(format!("expected numbers of a type of Burn, got {kind:?}")),
            (_, Err(reason)) => Err(reason),
            (Some(&(dtype, _)), Ok(())) => {
                let start = tensor.data().as_ptr().addr() - bytes.as_ptr().addr();
                let part = bytes.view(start, start + tensor.data().len());
                let part = part.map_err(|e| format!("{name}: {e:?}"))?;
                let part = files::native(part, dtype);
                checked(TensorData::from_bytes(part, tensor.shape(), dtype))
            }
        };
        dict.insert_read(name, array);
    }
    Ok(dict)
}

/// An array for the safetensors writer.
struct Array<'a>(Dtype, &'a TensorData);

impl View for Array<'_> {
    fn dtype(&self) -> Dtype {
        self.0
    }

    fn shape(&self) -> &[usize] {
        self.1.shape()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        files::little_endian(self.1.as_bytes(), self.1.dtype())
    }

    fn data_len(&self) -> usize {
        self.1.as_bytes().len()
    }
}

fn view<'a>(
    (name, data): (&'a String, &'a TensorData),
) -> Result<(&'a str, Array<'a>), ConvertError> {
    let actual = data.dtype();
    let dtype = match actual {
        DType::Flex32 => Some(Dtype::F32),
        _ => DTYPES
            .iter()
            .find(|(dtype, _)| *dtype == actual)
            .map(|(_, of_file)| *of_file),
    };
    match dtype.filter(|_| actual.is_float()) {
        Some(dtype) => Ok((name, Array(dtype, data))),
        None => {
            let name = name.clone();
            Err(GruError::DType { name, actual }.into())
        }
    }
}

#[cfg(test)]
mod tests;
