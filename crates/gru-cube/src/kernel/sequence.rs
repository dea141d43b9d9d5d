//! What sequence kernels are compiled for. They compute all steps in one launch.

use super::{
    rule::{Pass, Rule},
    threads::{Product, Threads},
};
use cubecl::prelude::*;

/// A forward or backward sequence kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SequenceKernel {
    pub(crate) rule: Rule,
    pub(crate) threads: Threads,
    /// The weight stays in registers.
    pub(crate) resident: bool,
    /// Buffers of the lhs: 1, or 2 for double buffering. With one k-split, and the reset gate after the
    /// product, a fast thread would overwrite the state that a slow thread still reads. A second buffer
    /// separates them; with one buffer a step has one more barrier.
    pub(crate) buffers: usize,
}

impl SequenceKernel {
    /// The products of a step: all gates, or r and z and the candidate. The candidate has no product of
    /// its own, and no registers, if the reset comes after the product.
    pub(crate) fn products(&self, pass: Pass) -> (Product, Product) {
        let after = self.rule.reset_after;
        let candidate = self.product(pass, 2, 1);
        let candidate = Product {
            resident: candidate.resident && !after,
            ..candidate
        };
        (self.product(pass, 0, if after { 3 } else { 2 }), candidate)
    }

    fn product(&self, pass: Pass, first_gate: usize, gates: usize) -> Product {
        let (hidden, resident) = (self.rule.hidden, self.resident);
        match pass {
            Pass::Forward => Product {
                k: hidden,
                outputs: gates,
                base: first_gate * hidden,
                k_stride: 3 * hidden,
                out_stride: hidden,
                j_stride: 1,
                columns: hidden,
                block_k: hidden,
                resident,
            },
            Pass::Backward => {
                let (k_stride, j_stride) = if self.is_transposed() {
                    (hidden, 1)
                } else {
                    (1, 3 * hidden)
                };
                Product {
                    k: gates * hidden,
                    outputs: 1,
                    base: first_gate * hidden * k_stride,
                    k_stride,
                    out_stride: 0,
                    j_stride,
                    columns: hidden,
                    block_k: gates * hidden,
                    resident,
                }
            }
        }
    }

    /// Whether the backward kernel reads the weight as `[3H,H]`, so that loads coalesce. For a weight that
    /// is loaded once, the order does not matter.
    pub(crate) fn is_transposed(&self) -> bool {
        !self.resident
    }

    /// Vectors of one buffer of the lhs.
    pub(crate) fn lhs_vectors(&self, pass: Pass) -> usize {
        self.vectors(self.products(pass).0)
    }

    /// Vectors of the lhs of the candidate's product; 1 if there is no such product.
    pub(crate) fn lhs_n_vectors(&self, pass: Pass) -> usize {
        if self.rule.reset_after {
            1
        } else {
            self.vectors(self.products(pass).1)
        }
    }

    fn vectors(&self, product: Product) -> usize {
        product.padded_block(&self.threads) * self.threads.vectors()
    }

    /// Vectors of partial sums.
    pub(crate) fn partial_vectors(&self, pass: Pass) -> usize {
        let outputs = self.products(pass).0.outputs;
        self.threads.partial_vectors(outputs).max(1)
    }

    /// Vectors of shared memory.
    pub(crate) fn shared_vectors(&self, pass: Pass) -> usize {
        self.buffers * self.lhs_vectors(pass)
            + self.lhs_n_vectors(pass)
            + self.partial_vectors(pass)
    }
}

/// Sets vectors of shared memory to zero.
#[cube]
pub(crate) fn zero_vectors<R: Size>(
    vectors: &mut Shared<[Vector<f32, R>]>,
    #[comptime] len: usize,
    #[comptime] threads: Threads,
) {
    let mut i = UNIT_POS as usize;
    while i < len {
        vectors[i] = Vector::new(0.0);
        i += comptime!(threads.count());
    }
}
