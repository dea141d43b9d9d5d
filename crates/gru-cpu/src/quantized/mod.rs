//! Weights of 16 or 8 bits, for inference in float32.
//!
//! A weight matrix is packed into panels, in the order in which a product reads it. A row of the left side is
//! encoded first: padded for bfloat16, rounded to integers for int8. A product writes a row to memory, and the
//! [forward pass](crate::pass) computes the gates from there.
//!
//! # Equal bits
//!
//! An int8 product has the same bits on every instruction set: sums of a group are exact integers, and
//! they are scaled by a multiplication and added by an addition, without a fused multiply-add. A bfloat16
//! product adds in the same order everywhere. It has the same bits on all instruction sets with a fused
//! multiply-add, and on all without one.
//!
//! - `matrix`: a weight matrix and its product.
//! - `shape`: sizes of packed matrices, and operands.
//! - `integers`: rounding to int8.
//! - `encode`: the left side of a product.
//! - `bf16`: the product of bfloat16, in `pulp`.
//! - `dot`: the product of int8. `pulp` has no products of bytes, so each instruction set has its own file.

mod bf16;
mod dot;
mod encode;
mod integers;
mod matrix;
mod shape;
#[cfg(test)]
mod tests;

pub(crate) use self::matrix::{Columns, Energy, Matrix, RowProduct};
