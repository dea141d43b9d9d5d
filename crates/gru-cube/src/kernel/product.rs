//! The recurrent product of a cube by its threads: the lhs, a few rows, is in shared memory. The rhs, the weight,
//! is in registers or in global memory.

use super::threads::{Product, Threads};
use cubecl::prelude::*;

/// Loads a thread's part of the weight for the columns from `j0` on into registers, if it is resident:
/// `[((block·n_per_thread + c)·k_per_split + i)·outputs + out]`.
#[cube]
pub(crate) fn load_weight<F: Float>(
    rhs: &[F],
    j0: usize,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Array<f32> {
    let k_per_split = comptime!(product.k_per_split(&threads));
    let mut registers = Array::<f32>::new(comptime!(product.registers(&threads)));
    if comptime!(product.resident) {
        let start = k_split(threads) * k_per_split;
        #[unroll]
        for block in 0..comptime!(product.blocks(&threads)) {
            #[unroll]
            for c in 0..comptime!(threads.n_per_thread()) {
                let j = column(j0, c, product, threads);
                #[unroll]
                for i in 0..k_per_split {
                    let k = start + comptime!(block * product.padded_block(&threads) + i);
                    let safe_k = min(k, comptime!(product.k - 1));
                    #[unroll]
                    for out in 0..comptime!(product.outputs) {
                        let at = comptime!(product.base + out * product.out_stride)
                            + safe_k * comptime!(product.k_stride)
                            + j * comptime!(product.j_stride);
                        let to = comptime!((block * threads.n_per_thread() + c) * k_per_split + i);
                        registers[comptime!(to * product.outputs + out)] =
                            zero_from_k(f32::cast_from(rhs[at]), k, product, threads);
                    }
                }
            }
        }
    }
    registers
}

#[cube]
pub(crate) fn n_thread(#[comptime] threads: Threads) -> usize {
    UNIT_POS as usize % comptime!(threads.n_threads)
}

#[cube]
pub(crate) fn k_split(#[comptime] threads: Threads) -> usize {
    UNIT_POS as usize / comptime!(threads.n_threads)
}

/// Column `c` of an n-thread, at most the last one.
#[cube]
fn column(
    j0: usize,
    #[comptime] c: usize,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> usize {
    min(
        j0 + n_thread(threads) + c * comptime!(threads.n_threads),
        comptime!(product.columns - 1),
    )
}

/// The weight of term `k`, or 0 if the term does not exist. Its lhs is 0 as well, but 0 times an infinite
/// weight of another term would be NaN.
#[cube]
fn zero_from_k(
    weight: f32,
    k: usize,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> f32 {
    if comptime!(product.is_padded(&threads)) {
        select(k < comptime!(product.k), weight, 0.0f32)
    } else {
        weight
    }
}

/// A product whose complete lhs is in shared memory from vector `from` on. Returns
/// `sums[(owned·outputs + out)·vectors + v]` for the columns that a thread owns.
///
/// The whole cube must see `lhs[from + k·vectors + v]`. With several k-splits there is a barrier inside,
/// after which no thread reads `lhs`; `partial` may be overwritten after the next barrier.
#[cube]
pub(crate) fn multiply<F: Float, R: Size>(
    lhs: &Shared<[Vector<f32, R>]>,
    from: usize,
    rhs: &[F],
    registers: &Array<f32>,
    partial: &mut Shared<[Vector<f32, R>]>,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Array<Vector<f32, R>> {
    let mut sums = zero_sums::<R>(product, threads);
    let zero = 0usize.runtime();
    let block = Block {
        index: zero,
        k0: zero,
        j0: zero,
        from,
    };
    accumulate::<F, R>(&mut sums, lhs, rhs, registers, block, product, threads);
    reduce::<R>(sums, partial, product, threads)
}

/// The sums of an n-thread before the first block: `[(c·outputs + out)·vectors + v]`.
#[cube]
pub(crate) fn zero_sums<R: Size>(
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Array<Vector<f32, R>> {
    let len = comptime!(threads.n_per_thread() * product.outputs * threads.vectors());
    let mut sums = Array::<Vector<f32, R>>::new(len);
    #[unroll]
    for i in 0..len {
        sums[i] = Vector::new(0.0);
    }
    sums
}

/// A block of a product.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct Block {
    /// Number of the block, a constant if the weight is resident.
    pub(crate) index: usize,
    /// First term.
    pub(crate) k0: usize,
    /// First column of the cube.
    pub(crate) j0: usize,
    /// First vector of the lhs.
    pub(crate) from: usize,
}

/// Adds one block to the sums of an n-thread.
#[cube]
pub(crate) fn accumulate<F: Float, R: Size>(
    sums: &mut Array<Vector<f32, R>>,
    lhs: &Shared<[Vector<f32, R>]>,
    rhs: &[F],
    registers: &Array<f32>,
    block: Block,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) {
    let vectors = comptime!(threads.vectors());
    let (outputs, n_per_thread) = comptime!((product.outputs, threads.n_per_thread()));
    let k_per_split = comptime!(product.k_per_split(&threads));
    let Block {
        index,
        k0,
        j0,
        from,
    } = block;
    let start = k_split(threads) * k_per_split;
    if comptime!(product.resident) {
        #[unroll]
        for i in 0..k_per_split {
            #[unroll]
            for v in 0..vectors {
                let l = lhs[from + (start + i) * vectors + v];
                #[unroll]
                for c in 0..n_per_thread {
                    #[unroll]
                    for out in 0..outputs {
                        let term = (index * n_per_thread + c) * k_per_split + i;
                        let w = registers[term * outputs + out];
                        let at = comptime!((c * outputs + out) * vectors + v);
                        sums[at] = fma(l, Vector::new(w), sums[at]);
                    }
                }
            }
        }
    } else {
        let unroll = comptime!(product.unroll(&threads));
        for part in 0..comptime!(k_per_split / unroll) {
            #[unroll]
            for i in 0..unroll {
                let in_block = start + part * unroll + i;
                let k = if comptime!(product.is_padded(&threads)) {
                    min(k0 + in_block, comptime!(product.k - 1))
                } else {
                    k0 + in_block
                };
                let mut w = Array::<f32>::new(comptime!(n_per_thread * outputs));
                #[unroll]
                for c in 0..n_per_thread {
                    let j = column(j0, c, product, threads);
                    let row = k * comptime!(product.k_stride) + j * comptime!(product.j_stride);
                    #[unroll]
                    for out in 0..outputs {
                        let at = comptime!(product.base + out * product.out_stride) + row;
                        w[comptime!(c * outputs + out)] =
                            zero_from_k(f32::cast_from(rhs[at]), k0 + in_block, product, threads);
                    }
                }
                #[unroll]
                for v in 0..vectors {
                    let l = lhs[from + in_block * vectors + v];
                    #[unroll]
                    for out in 0..comptime!(n_per_thread * outputs) {
                        let at = comptime!(out * vectors + v);
                        sums[at] = fma(l, Vector::new(w[out]), sums[at]);
                    }
                }
            }
        }
    }
}

/// Reduces the sums of all k-splits to the sums of the columns that a thread owns.
///
/// With several k-splits there is one barrier inside.
#[cube]
pub(crate) fn reduce<R: Size>(
    sums: Array<Vector<f32, R>>,
    partial: &mut Shared<[Vector<f32, R>]>,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Array<Vector<f32, R>> {
    if comptime!(threads.k_splits == 1) {
        sums
    } else {
        let per_column = comptime!(product.outputs * threads.vectors());
        let stride = comptime!(threads.n_per_thread() * threads.n_threads);
        let (n, split) = (n_thread(threads), k_split(threads));
        #[unroll]
        for c in 0..comptime!(threads.n_per_thread()) {
            let j = n + c * comptime!(threads.n_threads);
            #[unroll]
            for i in 0..per_column {
                partial[(split * per_column + i) * stride + j] =
                    sums[comptime!(c * per_column + i)];
            }
        }
        sync_cube();
        let thread = UNIT_POS as usize;
        let mut owned = Array::<Vector<f32, R>>::new(comptime!(threads.owned() * per_column));
        #[unroll]
        for c in 0..comptime!(threads.owned()) {
            let j = min(
                thread + c * comptime!(threads.count()),
                comptime!(stride - 1),
            );
            #[unroll]
            for i in 0..per_column {
                let mut sum = partial[i * stride + j];
                #[unroll]
                for s in 1..comptime!(threads.k_splits) {
                    sum += partial[(s * per_column + i) * stride + j];
                }
                owned[comptime!(c * per_column + i)] = sum;
            }
        }
        owned
    }
}

/// Row and column in the tile of pair `i` of a thread. The row may be outside of the tile.
///
/// If threads do not own their sums, the pairs are distributed over all threads. Few columns would otherwise
/// use few threads.
#[cube]
pub(crate) fn pair(#[comptime] i: usize, #[comptime] threads: Threads) -> (usize, usize) {
    let thread = UNIT_POS as usize;
    if comptime!(threads.owns_its_sums()) {
        let row = comptime!(i % threads.rows).runtime();
        (
            row,
            thread + comptime!(i / threads.rows * threads.n_threads),
        )
    } else {
        let item = thread + comptime!(i * threads.count());
        (
            item / comptime!(threads.columns),
            item % comptime!(threads.columns),
        )
    }
}

/// Reduces the sums of all k-splits to `[i·outputs + out]` of the pairs that a thread owns.
///
/// With several k-splits there is one barrier inside; `partial` may be overwritten after the next barrier.
#[cube]
pub(crate) fn reduce_to_pairs<R: Size>(
    sums: &Array<Vector<f32, R>>,
    partial: &mut Shared<[f32]>,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Array<f32> {
    let (rows, width, vectors) = comptime!((threads.rows, threads.width, threads.vectors()));
    let outputs = comptime!(product.outputs);
    if comptime!(threads.owns_its_sums()) {
        let mut results = Array::<f32>::new(comptime!(threads.pairs() * outputs));
        #[unroll]
        for i in 0..comptime!(threads.pairs()) {
            let (c, v, w) = comptime!((i / rows, i % rows / width, i % rows % width));
            #[unroll]
            for out in 0..outputs {
                let at = comptime!((c * outputs + out) * vectors + v);
                results[comptime!(i * outputs + out)] = sums[at].extract(w);
            }
        }
        results
    } else {
        let (n, split) = (n_thread(threads), k_split(threads));
        #[unroll]
        for c in 0..comptime!(threads.n_per_thread()) {
            #[unroll]
            for out in 0..outputs {
                #[unroll]
                for b in 0..rows {
                    let column = n + c * comptime!(threads.n_threads);
                    let row = (split * outputs + out) * rows + b;
                    let sum = sums[comptime!((c * outputs + out) * vectors + b / width)];
                    partial[row * comptime!(threads.columns) + column] =
                        sum.extract(comptime!(b % width));
                }
            }
        }
        sync_cube();
        pairs_of_partials(partial, product, threads)
    }
}

/// `[i·outputs + out]` of a thread's pairs, from the partial sums of all k-splits:
/// `[(split·outputs + out)·rows·columns + row·columns + column]`.
///
/// If a pair has several threads, each first reduces the sums of some k-splits. Then there is one barrier
/// inside.
#[cube]
pub(crate) fn pairs_of_partials(
    partial: &mut Shared<[f32]>,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Array<f32> {
    let (outputs, out_stride) = comptime!((product.outputs, threads.rows * threads.columns));
    let helpers = comptime!(threads.sums_per_pair());
    if comptime!(helpers < threads.k_splits) {
        let (helper, item) = (
            UNIT_POS as usize / out_stride,
            UNIT_POS as usize % out_stride,
        );
        if helper < helpers {
            // No other helper reads what this helper writes.
            #[unroll]
            for out in 0..outputs {
                let to = (helper * outputs + out) * out_stride + item;
                let mut sum = partial[to];
                #[unroll]
                for round in 1..comptime!(threads.k_splits / helpers) {
                    let split = helper + comptime!(round * helpers);
                    sum += partial[(split * outputs + out) * out_stride + item];
                }
                if comptime!(!threads.k_splits.is_multiple_of(helpers)) {
                    let split = helper + comptime!(threads.k_splits / helpers * helpers);
                    if split < comptime!(threads.k_splits) {
                        sum += partial[(split * outputs + out) * out_stride + item];
                    }
                }
                partial[to] = sum;
            }
        }
        sync_cube();
    }
    let mut results = Array::<f32>::new(comptime!(threads.pairs() * outputs));
    #[unroll]
    for i in 0..comptime!(threads.pairs()) {
        let item = UNIT_POS as usize + comptime!(i * threads.count());
        let item = min(item, comptime!(out_stride - 1));
        #[unroll]
        for out in 0..outputs {
            results[comptime!(i * outputs + out)] = partial[out * out_stride + item];
        }
        // Not unrolled: a compiler would issue all loads first, and spill the weight registers.
        for s in 1..comptime!(helpers as u32) {
            #[unroll]
            for out in 0..outputs {
                let at = (s as usize * outputs + out) * out_stride + item;
                results[comptime!(i * outputs + out)] += partial[at];
            }
        }
    }
    results
}
