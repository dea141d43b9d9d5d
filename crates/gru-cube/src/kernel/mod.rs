//! The kernels. Every product accumulates in float32, whatever the buffers hold.
//!
//! - [`gate`]: activations, their derivatives and the blend, on one number.
//! - [`step`]: one step's gradients on the near side of the product.
//! - [`rule`]: a spec as compile-time constants.
//! - [`team`]: how units share a product, as plain arithmetic.
//! - [`product`]: the recurrent product by units; [`matrix`]: by planes, with
//!   matrix units.
//! - [`forward`], [`backward`]: walks, one launch per sequence.
//! - [`steps`]: one launch per product, or all steps in one with cubes that meet; and the transpose
//!   that backward wants. [`meeting`]: how they meet.
//! - [`shift`]: the left sides of the weight gradients.
//! - [`gates`]: the gates anew, where the forward pass kept none.

// A condition that is known when the kernel is compiled stays an `if` of its own: joined to
// another it would be asked on the device.
#![allow(clippy::collapsible_if)]

pub(crate) mod backward;
pub(crate) mod forward;
pub(crate) mod gate;
pub(crate) mod gates;
pub(crate) mod left;
pub(crate) mod matrix;
pub(crate) mod meeting;
pub(crate) mod product;
pub(crate) mod rule;
pub(crate) mod shift;
pub(crate) mod step;
pub(crate) mod steps;
pub(crate) mod team;
