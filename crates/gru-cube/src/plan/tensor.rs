//! The tensors of a call, and whether a device allows them.

use super::{
    error::{PlanError, Resource},
    limits::Limits,
};
use cubecl::server::Handle;
use std::borrow::Borrow;

/// Most buffers that a kernel binds. WebGPU allows 8 on every device, and CubeCL uses one of them for sizes. (The
/// counters of a persistent kernel may be one more. No device of WebGPU has persistent kernels.)
pub(crate) const BUFFERS: usize = 7;

/// A tensor of a call.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) name: &'static str,
    /// Absent for an optional tensor that is not given, and for a buffer that does not exist yet.
    pub(crate) handle: Option<Handle>,
    /// Whether the kernel binds it.
    pub(crate) bound: bool,
    pub(crate) elements: usize,
    /// Bytes of an element.
    pub(crate) size: usize,
    /// May share a buffer with others.
    pub(crate) small: bool,
    /// Index of the first element in the buffer.
    pub(crate) from: usize,
    /// Position of the shared buffer among the buffers of the kernel, if an earlier tensor binds it.
    pub(crate) alias: Option<usize>,
}

/// The small tensors that a kernel binds.
pub(crate) fn small(tensors: &[impl Borrow<Tensor>]) -> impl Iterator<Item = &Tensor> {
    bound(tensors).filter(|tensor| tensor.small)
}

fn bound(tensors: &[impl Borrow<Tensor>]) -> impl Iterator<Item = &Tensor> {
    let tensors = tensors.iter().map(Borrow::borrow);
    tensors.filter(|tensor| tensor.bound)
}

/// Checks the tensors that a kernel binds, and the counters of a persistent kernel. Returns whether the small tensors
/// must share a buffer.
pub(crate) fn check_tensors(
    limits: &Limits,
    tensors: &[impl Borrow<Tensor>],
    persistent: bool,
) -> Result<bool, PlanError> {
    let check = |name, elements: usize, size: usize| {
        Resource::Elements(name).check(elements, limits.elements)?;
        Resource::Bytes(name).check(elements * size, limits.buffer_bytes)
    };
    for tensor in bound(tensors) {
        check(tensor.name, tensor.elements, tensor.size)?;
    }
    let (all, shared) = (bound(tensors).count(), small(tensors).count());
    let shares = all > BUFFERS && shared > 1;
    let needed = if shares { all + 1 - shared } else { all };
    // Other kernels of the call need up to this number.
    let buffers = needed.max(BUFFERS) + usize::from(persistent);
    Resource::Buffers.check(buffers, limits.buffers)?;
    if shares {
        let elements = small(tensors).map(|tensor| tensor.elements).sum();
        check("small tensors", elements, tensors[0].borrow().size)?;
    }
    Ok(shares)
}
