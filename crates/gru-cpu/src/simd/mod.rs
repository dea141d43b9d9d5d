//! Vectors: instruction sets, operations, σ and tanh, activations.
//!
//! An instruction set is an implementation of `pulp::Simd` and a variant of [`Isa`]. A float type is an
//! implementation of [`Lanes`].

mod gate;
mod isa;
mod lanes;
mod math;

pub use self::isa::Isa;
pub(crate) use self::{
    gate::{Gates, clip, way},
    isa::Machine,
    lanes::Lanes,
};
