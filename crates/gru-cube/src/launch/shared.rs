//! One buffer for all small tensors of a call that would otherwise bind too many.

use super::{Recurrence, count_launch};
use crate::{
    kernel::small::{Small, SmallLaunch, SourceLaunch, gru_share},
    plan::tensor::{Tensor, small},
};
use cubecl::{
    calculate_cube_count_elemwise, client::Client, ir::AddressType, prelude::*, server::Handle,
};

/// A buffer for the small tensors.
pub(super) fn shared_buffer(client: &Client, tensors: &[&mut Tensor]) -> Handle {
    let bytes = small(tensors).map(|tensor| tensor.elements * tensor.size);
    client.empty(bytes.sum())
}

/// Moves the small tensors into the shared buffer, in one launch. The first `present` elements are there already.
pub(super) fn share(
    client: &Client,
    call: &Recurrence,
    address: AddressType,
    tensors: &mut [&mut Tensor],
    shared: &Handle,
    present: usize,
) {
    let mut sources = SequenceArg::new();
    let mut len = 0;
    let mut position = None;
    let bound = tensors.iter_mut().filter(|tensor| tensor.bound);
    for (index, tensor) in bound.enumerate().filter(|(_, tensor)| tensor.small) {
        if len >= present {
            sources.push(SourceLaunch::new(tensor.arg(), len, tensor.elements));
        }
        tensor.handle = Some(shared.clone());
        tensor.from = len;
        tensor.alias = position;
        position = position.or(Some(index));
        len += tensor.elements;
    }
    let elements = len - present;
    let cube_dim = CubeDim::new(client, elements);
    count_launch();
    // SAFETY: the kernel copies every tensor to its own place, and each is as long as `arg` checks.
    unsafe {
        gru_share::launch_unchecked(
            client,
            calculate_cube_count_elemwise(client, elements, cube_dim),
            cube_dim,
            address,
            sources,
            BufferArg::from_raw_parts(shared.clone(), len),
            present,
            call.dtype,
        );
    }
}

impl Tensor {
    /// A small tensor as a kernel's argument.
    pub(super) fn small_arg<F: Float>(&self) -> ComptimeOptionArgs<Small<F>> {
        let arg: Option<BufferArg> = self.optional();
        arg.map(|arg| SmallLaunch::new(arg, self.from)).into()
    }
}
