//! A layer with weights of 16 or 8 bits, for inference in float32.
//!
//! A weight matrix is packed into panels, in the order in which a product reads it. A row of the left side is
//! encoded first: padded for bfloat16, rounded to integers for int8. A product returns the pre-activations of
//! a row in memory, and the gates are computed from there.
//!
//! # Equal bits
//!
//! An int8 product has the same bits on every instruction set: sums of 64 products are exact integers, and
//! they are scaled by a multiplication and added by an addition, without a fused multiply-add. A bfloat16
//! product adds in the same order everywhere. It has the same bits on all instruction sets with a fused
//! multiply-add, and on all without one.
//!
//! - `matrix`: a weight matrix and its product.
//! - `rows`: the left side of a product.
//! - `bf16`: the product of bfloat16, in `pulp`.
//! - `dot`: the product of int8. `pulp` has no products of bytes, so each instruction set has its own file.
//! - `gates`: from pre-activations to states.
//! - `layer`: steps and sequences.

mod bf16;
mod dot;
mod gates;
mod layer;
mod matrix;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use self::layer::{Layer, Scratch};
