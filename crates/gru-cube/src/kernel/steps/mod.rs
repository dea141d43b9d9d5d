//! Step kernels: a grid of cubes computes one recurrent product, rows of the batch by hidden units, and
//! then the gates. They serve weights that are too large for one cube. Each product is a launch, or a
//! persistent kernel computes all of them in one launch: it keeps the weight in registers, and has a grid barrier
//! after each product. Matrix units read a weight that needs too many registers at every step. A step has one product
//! with the reset after it, and two with the reset before it.
//!
//! | word | meaning |
//! |---|---|
//! | phase | a product of a step with the gates that follow it: the whole step, or one of two halves |
//! | tile | what a cube multiplies at a time: some rows of the batch by some hidden units |
//! | pair | a row and a column of a tile; after the product, each thread owns pairs and computes their gates |
//! | place | a hidden unit of a row of the batch at a step |

pub(crate) mod backward;
pub(crate) mod forward;
pub(crate) mod transpose;

use super::{
    lhs::{Lhs, shared_partial, shared_rows, shared_vectors},
    matrix::{accumulate_matrices, load_matrices, store_matrices, zero_matrices},
    product::{Block, accumulate, load_weight, pairs_of_partials, reduce_to_pairs, zero_sums},
    rule::{Pass, Rule},
    threads::{Matrices, Product, Threads},
};
use cubecl::{cmma, prelude::*};

/// Weight registers per thread of a persistent kernel, of 256. The sums of its rows, the prefetched lhs and the inputs of
/// the gates need the others. For sm_90, ptxas puts up to 344 bytes per thread on the stack. An H200 is fastest nevertheless.
pub(crate) const PERSISTENT_REGISTERS: usize = 192;

/// What step kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Steps {
    pub(crate) rule: Rule,
    pub(crate) threads: Threads,
    /// Terms of the sum whose lhs is in shared memory at the same time.
    pub(crate) block_k: usize,
    /// All steps are one launch.
    pub(crate) persistent: bool,
    pub(crate) phases: Phases,
}

/// The products of a step that a launch computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phases {
    One(Phase),
    /// First and second, one after the other.
    Both,
}

/// A product of a step with the gates that follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// The only one, if the reset comes after the product.
    Whole,
    /// Reset before the product. Forward: r and z. Backward: r and z of the following step, then the
    /// blend.
    First,
    /// Reset before the product: the candidate.
    Second,
}

impl Steps {
    /// Products of a step in a launch.
    pub(crate) fn count(&self) -> usize {
        match self.phases {
            Phases::One(_) => 1,
            Phases::Both => 2,
        }
    }

    /// The phase with this index in a launch.
    pub(crate) fn phase(&self, index: usize) -> Phase {
        match (self.phases, index) {
            (Phases::One(phase), _) => phase,
            (Phases::Both, 0) => Phase::First,
            (Phases::Both, _) => Phase::Second,
        }
    }

    /// The launches of one step in their order, for both passes.
    pub(crate) fn launches(self) -> impl Iterator<Item = Self> {
        let phases = match (self.persistent, self.phases) {
            (false, Phases::Both) => vec![Phases::One(Phase::First), Phases::One(Phase::Second)],
            (_, phases) => vec![phases],
        };
        phases
            .into_iter()
            .map(move |phases| Self { phases, ..self })
    }

    /// The last launch of the backward pass: the first product of one step. It needs no barrier.
    pub(crate) fn end(self) -> Self {
        Self {
            phases: Phases::One(self.phase(0)),
            persistent: false,
            ..self
        }
    }

    /// Forward `q = g·w_hh`, or only its gates r and z, or `(r⊙g)·w_hn`. Backward `dg = dq·w_hhᵀ`, or only
    /// the part of the gates r and z, or `ds = dn̄·w_hnᵀ`, with the weight as `[3H,H]`.
    pub(crate) fn product(&self, pass: Pass, phase: Phase) -> Product {
        let hidden = self.rule.hidden;
        let (first_gate, gates) = match phase {
            Phase::Whole => (0, 3),
            Phase::First => (0, 2),
            Phase::Second => (2, 1),
        };
        let resident = self.keeps_weight();
        match pass {
            Pass::Forward => Product {
                k: hidden,
                outputs: gates,
                base: first_gate * hidden,
                k_stride: 3 * hidden,
                out_stride: hidden,
                j_stride: 1,
                columns: hidden,
                block_k: self.even_block(hidden),
                resident,
            },
            Pass::Backward => Product {
                k: gates * hidden,
                outputs: 1,
                base: first_gate * hidden * hidden,
                k_stride: hidden,
                out_stride: 0,
                j_stride: 1,
                columns: hidden,
                block_k: self.even_block(gates * hidden),
                resident,
            },
        }
    }

    /// Whether the weight stays in registers. If matrix units would need too many of them, they read it at every step,
    /// from a cache.
    fn keeps_weight(&self) -> bool {
        let Threads { columns, .. } = self.threads;
        let fits = |matrices: Matrices| {
            matrices.registers(self.rule.hidden, columns, self.threads.count())
                <= PERSISTENT_REGISTERS
        };
        self.persistent && self.threads.matrices.is_none_or(fits)
    }

    /// Terms per block, with about the same number in each block. Terms from `k` on would waste work and
    /// registers.
    fn even_block(&self, k: usize) -> usize {
        k.div_ceil(k.div_ceil(self.block_k))
    }

    /// The products of a launch. The first needs the most shared memory. If it is the only one, the second
    /// has no registers.
    pub(crate) fn products(&self, pass: Pass) -> (Product, Product) {
        let [first, second] = [0, 1].map(|index| self.product(pass, self.phase(index)));
        let second = Product {
            resident: second.resident && self.phases == Phases::Both,
            ..second
        };
        (first, second)
    }

    /// Vectors of shared memory for the first product of a launch: a block of the lhs, partial sums, and
    /// whether a grid barrier timed out.
    pub(crate) fn shared_vectors(&self, pass: Pass) -> usize {
        let product = &self.products(pass).0;
        let lhs_bytes = match self.threads.matrices {
            Some(matrices) => self.lhs_len(product) * matrices.element.size(),
            None => 0,
        };
        let values = lhs_bytes.div_ceil(size_of::<f32>()) + self.partial(product);
        self.lhs_vectors(product) + values.div_ceil(self.threads.width) + 1
    }

    /// Vectors of a block of the lhs; none for matrix units.
    fn lhs_vectors(&self, product: &Product) -> usize {
        match self.threads.matrices {
            Some(_) => 0,
            None => product.padded_block(&self.threads) * self.threads.vectors(),
        }
    }

    /// Values of a block of the lhs for matrix units; none without them.
    fn lhs_len(&self, product: &Product) -> usize {
        match self.threads.matrices {
            Some(_) => product.lhs_len(&self.threads),
            None => 0,
        }
    }

    /// Partial sums in shared memory.
    fn partial(&self, product: &Product) -> usize {
        if self.threads.owns_its_sums() {
            1
        } else {
            self.threads.k_splits * product.outputs * self.threads.rows * self.threads.columns
        }
    }

    /// Cubes side by side along the hidden units.
    pub(crate) fn cubes_per_row(&self) -> usize {
        self.rule.hidden.div_ceil(self.threads.columns)
    }
}

/// Rows of the batch that a cube multiplies at step `s`.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct Tile {
    pub(crate) s: usize,
    /// First row.
    pub(crate) row0: usize,
    /// First row of the cube's next tile.
    pub(crate) next_row0: usize,
    /// First column.
    pub(crate) j0: usize,
}

/// Shared memory of a step kernel.
#[derive(CubeType)]
pub(crate) struct StepMemory<M: Float, R: Size> {
    pub(crate) lhs: Lhs<M, R>,
    pub(crate) partial: Shared<[f32]>,
}

#[cube]
pub(crate) fn step_memory<M: Float, R: Size>(
    #[comptime] product: Product,
    #[comptime] steps: Steps,
) -> StepMemory<M, R> {
    let vectors = shared_vectors::<R>(comptime!(steps.lhs_vectors(&product)));
    let rows = shared_rows::<M>(comptime!(steps.lhs_len(&product)));
    let partial = shared_partial(comptime!(steps.partial(&product)), steps.threads);
    StepMemory::<M, R> {
        lhs: Lhs::<M, R> { vectors, rows },
        partial,
    }
}

/// Whether a grid barrier has timed out: not yet.
#[cube]
pub(crate) fn no_time_out(#[comptime] steps: Steps) -> Shared<[u32]> {
    let mut timed_out = Shared::<[u32]>::new_slice(1usize);
    if comptime!(steps.persistent) {
        if UNIT_POS == 0 {
            timed_out[0] = 0u32;
        }
        // A step without a product has no other barrier before it reads this.
        sync_cube();
    }
    timed_out
}

/// Sums of a tile: by threads, or by the matrix units of a plane.
#[derive(CubeType)]
pub(crate) struct Sums<R: Size> {
    threads: Array<Vector<f32, R>>,
    matrices: Sequence<cmma::Matrix<f32>>,
}

#[cube]
pub(crate) fn tile_sums<R: Size>(
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Sums<R> {
    Sums::<R> {
        threads: zero_sums::<R>(product, threads),
        matrices: zero_matrices(product, threads),
    }
}

/// The weight of a product, if it is resident: of a thread, or of a plane with matrix units.
#[derive(CubeType)]
pub(crate) struct Weight<M: Float> {
    threads: Array<f32>,
    matrices: Sequence<Sequence<cmma::Matrix<M>>>,
}

/// Loads the weight for the columns from `j0` on, if it is resident.
#[cube]
pub(crate) fn step_weight<F: Float, M: Float>(
    rhs: &[F],
    j0: usize,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Weight<M> {
    let by_threads = comptime!(Product {
        resident: product.resident && threads.matrices.is_none(),
        ..product
    });
    Weight::<M> {
        threads: load_weight::<F>(rhs, j0, by_threads, threads),
        matrices: load_matrices::<F, M>(rhs, j0, product, threads),
    }
}

/// Adds the block whose lhs is in shared memory.
#[cube]
pub(crate) fn accumulate_block<F: Float, M: Float, R: Size>(
    sums: &mut Sums<R>,
    lhs: &Lhs<M, R>,
    rhs: &[F],
    weight: &Weight<M>,
    block: Block,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) {
    if comptime!(threads.matrices.is_some()) {
        accumulate_matrices::<F, M>(
            &sums.matrices,
            lhs.rows.as_ref().unwrap(),
            rhs,
            &weight.matrices,
            block,
            product,
            threads,
        );
    } else {
        let of_threads = &mut sums.threads;
        accumulate::<F, R>(
            of_threads,
            lhs.vectors.as_ref().unwrap(),
            rhs,
            &weight.threads,
            block,
            product,
            threads,
        );
    }
}

/// The results of a tile for the pairs that a thread owns: `[i·outputs + out]`.
#[cube]
pub(crate) fn tile_results<R: Size>(
    sums: &Sums<R>,
    partial: &mut Shared<[f32]>,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Array<f32> {
    if comptime!(threads.matrices.is_some()) {
        store_matrices(&sums.matrices, partial, product, threads);
        sync_cube();
        pairs_of_partials(partial, product, threads)
    } else {
        reduce_to_pairs::<R>(&sums.threads, partial, product, threads)
    }
}
