//! The GPU tensors of Burn. No other file uses the fields of `CubeTensor`, which a release of Burn may change.

use super::Prim;
use burn::tensor::{DType, Shape};
use burn_cubecl::{
    CubeBackend, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::{client::Client, server::Handle};

/// What runs the kernels of the device.
pub(super) fn client(tensor: &CubeTensor) -> &Client {
    &tensor.client
}

/// The buffer of a tensor with any strides.
pub(super) fn handle(tensor: &CubeTensor) -> Handle {
    tensor.handle.clone()
}

/// The buffer of a tensor, dense and row-major.
pub(super) fn dense(tensor: &CubeTensor) -> Handle {
    if tensor.is_contiguous() {
        handle(tensor)
    } else {
        buffer(&into_contiguous(tensor.clone()))
    }
}

/// The buffer of a dense tensor.
///
/// # Panics
/// If the tensor is not dense. Kernels receive no strides. On CUDA and ROCm, Burn pads the rows of new tensors.
pub(super) fn buffer(tensor: &CubeTensor) -> Handle {
    assert!(
        tensor.is_contiguous(),
        "gru-op: shape {:?}: expected a dense tensor, got strides {:?}",
        tensor.meta.shape(),
        tensor.meta.strides()
    );
    handle(tensor)
}

/// An uninitialized tensor on the device of `like`.
pub(super) fn empty(like: &CubeTensor, shape: &[usize], dtype: DType) -> CubeTensor {
    let (client, device) = (like.client.clone(), like.device.clone());
    empty_device_contiguous_dtype(client, device, Shape::from(shape), dtype)
}

/// The first columns of a matrix. Burn's slice copies them if the bytes of the others are no multiple of an alignment,
/// on CUDA 512.
pub(super) fn first_columns(matrix: &Prim<CubeBackend>, columns: usize) -> Prim<CubeBackend> {
    let mut first = matrix.clone();
    first.0.meta.shape[1] = columns;
    first
}
