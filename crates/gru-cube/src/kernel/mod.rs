//! The kernels. Every product accumulates in float32, whatever type the buffers have.
//!
//! - [`activation`]: activations and their derivatives, on one value.
//! - [`gate`]: the clip, the activation, the blend.
//! - [`step`]: element-wise mathematics of a step.
//! - [`rule`]: a spec as compile-time constants.
//! - [`tensors`]: tensors of a sequence and their indices.
//! - [`threads`]: how threads share a product, as arithmetic on sizes.
//! - [`product`]: the recurrent product by threads; [`matrix`]: by matrix units.
//! - [`sequence`], [`forward`], [`backward`]: one launch per sequence.
//! - [`steps`]: one launch per product, or a persistent kernel with a [`grid_barrier`]; and the transpose
//!   of the weight. [`lhs`]: loads of their lhs.
//! - [`small`]: small tensors that share a buffer.
//! - [`operands`]: lhs operands of the weight gradients.
//! - [`recompute`]: gates that the forward pass did not save.

// A compile-time condition stays an `if` of its own. Merged with a runtime condition it would be
// evaluated on the device.
#![allow(clippy::collapsible_if)]

pub(crate) mod activation;
pub(crate) mod backward;
pub(crate) mod forward;
pub(crate) mod gate;
pub(crate) mod grid_barrier;
pub(crate) mod lhs;
pub(crate) mod matrix;
pub(crate) mod operands;
pub(crate) mod product;
pub(crate) mod recompute;
pub(crate) mod rule;
pub(crate) mod sequence;
pub(crate) mod small;
pub(crate) mod step;
pub(crate) mod steps;
pub(crate) mod tensors;
pub(crate) mod threads;
