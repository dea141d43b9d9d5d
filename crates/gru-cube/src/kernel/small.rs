//! Small tensors that can share a buffer, because WebGPU allows few buffers per kernel.

use cubecl::prelude::*;

/// A small tensor: a whole buffer, or a part of a buffer that several of them share.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct Small<F: Float> {
    buffer: &'static [F],
    /// Index of the first value.
    from: usize,
}

#[cube]
impl<F: Float> Small<F> {
    /// The value at `index`, in float32.
    pub(crate) fn at(&self, index: usize) -> f32 {
        f32::cast_from(self.buffer[self.from + index])
    }
}

/// A tensor, and where it goes in the shared buffer.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Source<F: Float> {
    values: &'static [F],
    from: usize,
    len: usize,
}

/// Copies tensors to their places in a shared buffer. The first place is `first`.
#[cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")]
pub(crate) fn gru_share<F: Float>(
    sources: &Sequence<Source<F>>,
    shared: &mut [F],
    first: usize,
    #[define(F)] _dtype: ElemType,
) {
    let at = first + ABSOLUTE_POS;
    #[unroll]
    for i in 0..sources.len() {
        let source = sources.index(i);
        if at >= source.from && at < source.from + source.len {
            shared[at] = source.values[at - source.from];
        }
    }
}
