//! Sparse tensors: the values of some elements, and their indices. The others are zero.

use super::{proto, tensor};
use crate::error::ConvertError;
use burn::tensor::TensorData;
use gru_op::files::{self, Limit};
use prost::bytes::Bytes;
use std::path::Path;

/// The largest number in bytes.
const NUMBER: u64 = 8;

/// Counts the dense values, which may be much larger than the file.
pub fn claim(bytes: &Bytes, limit: &mut Limit) -> Result<(), String> {
    let sparse: proto::SparseTensor = proto::decode(bytes)?;
    let sizes = sparse.dims.iter().map(|&size| size.max(0) as u64);
    let bytes = sizes.fold(NUMBER, u64::saturating_mul);
    limit.claim_array(sparse.dims.len(), bytes)
}

/// The name of a sparse initializer: the name of its values.
pub fn name(bytes: &Bytes) -> Result<String, String> {
    let sparse: proto::SparseTensor = proto::decode(bytes)?;
    let values: proto::TensorName = proto::decode(&sparse.values.unwrap_or_default())?;
    Ok(values.name.unwrap_or_default())
}

/// The dense values of a sparse tensor whose size was [`claim`]ed.
pub fn read(name: &str, bytes: &Bytes, model: Option<&Path>) -> Result<TensorData, ConvertError> {
    let broken = |reason: String| ConvertError::Tensor {
        name: name.to_owned(),
        reason,
    };
    let sparse: proto::SparseTensor = proto::decode(bytes).map_err(broken)?;
    files::check_rank(sparse.dims.len()).map_err(broken)?;
    let dims: Result<Vec<usize>, _> = sparse.dims.iter().map(|&d| usize::try_from(d)).collect();
    let dims = dims.map_err(|_| broken(format!("expected sizes, got {:?}", sparse.dims)))?;
    let part = |bytes: Option<Bytes>| {
        let tensor: proto::Tensor = proto::decode(&bytes.unwrap_or_default()).map_err(broken)?;
        Ok::<_, ConvertError>(tensor)
    };
    let values = tensor::read(name, &part(sparse.values)?, model)?;
    let indices = tensor::integers(name, &part(sparse.indices)?, model)?;
    let count = values.num_elements();
    let shapes = (values.shape().to_vec(), indices.shape().to_vec());
    // Either the place in the flat tensor, or an index for each dimension.
    let rank = match &shapes {
        (of_values, of_indices) if of_values[..] == [count] && of_indices[..] == [count] => 1,
        (of_values, of_indices)
            if of_values[..] == [count] && of_indices[..] == [count, dims.len()] =>
        {
            dims.len()
        }
        (of_values, of_indices) => {
            return Err(broken(format!(
                "expected sparse values [K] and indices [K] or [K, {}], got {of_values:?} and {of_indices:?}",
                dims.len()
            )));
        }
    };
    let of_indices = shapes.1.len();
    let (len, size) = (dims.iter().product::<usize>(), values.dtype().size());
    let flat = [len];
    let sizes = if of_indices == 1 { &flat[..] } else { &dims };
    let indices: Vec<i64> = indices.iter().collect();
    let mut dense = vec![0; len * size];
    let mut is_set = vec![false; len];
    for (index, value) in (0..count).zip(values.as_bytes().chunks_exact(size)) {
        let index = &indices[index * rank..][..rank];
        let place = index.iter().zip(sizes).try_fold(0, |place, (&at, &size)| {
            let at = usize::try_from(at).ok().filter(|&at| at < size)?;
            Some(place * size + at)
        });
        let Some(place) = place.filter(|&place| place < len) else {
            return Err(broken(format!(
                "expected indices below {sizes:?}, got {index:?}"
            )));
        };
        if std::mem::replace(&mut is_set[place], true) {
            return Err(broken(format!(
                "expected each index once, got {index:?} twice"
            )));
        }
        dense[place * size..][..size].copy_from_slice(value);
    }
    Ok(TensorData::from_bytes_vec(dense, dims, values.dtype()))
}
