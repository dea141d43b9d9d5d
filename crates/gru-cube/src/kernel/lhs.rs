//! Moves the lhs of a step's product from global to shared memory, one block of K at a time. Each thread
//! prefetches its values of the next block into registers before it multiplies the current block. The
//! product then hides the latency of the loads.

use super::threads::{ALIGNMENT, Product, Threads};
use cubecl::prelude::*;

/// The lhs in shared memory.
#[derive(CubeType)]
pub(crate) struct Lhs<M: Float, R: Size> {
    /// For products by threads: vectors of rows, `[k·vectors + v]`.
    pub(crate) vectors: ComptimeOption<Shared<[Vector<f32, R>]>>,
    /// For matrix units: row by row.
    pub(crate) rows: ComptimeOption<Shared<[M]>>,
}

/// The lhs of a product by threads, of so many vectors; none for matrix units.
#[cube]
pub(crate) fn shared_vectors<R: Size>(
    #[comptime] len: usize,
) -> ComptimeOption<Shared<[Vector<f32, R>]>> {
    if comptime!(len > 0) {
        ComptimeOption::new_Some(Shared::<[Vector<f32, R>]>::new_slice(len))
    } else {
        ComptimeOption::new_None()
    }
}

/// The lhs of a product by matrix units, of so many values; none for threads.
#[cube]
pub(crate) fn shared_rows<M: Float>(#[comptime] len: usize) -> ComptimeOption<Shared<[M]>> {
    if comptime!(len > 0) {
        ComptimeOption::new_Some(Shared::<[M]>::new_aligned_slice(len, ALIGNMENT))
    } else {
        ComptimeOption::new_None()
    }
}

/// Partial sums. Matrix units may write them.
#[cube]
pub(crate) fn shared_partial(
    #[comptime] len: usize,
    #[comptime] threads: Threads,
) -> Shared<[f32]> {
    if comptime!(threads.matrices.is_some()) {
        Shared::<[f32]>::new_aligned_slice(len, ALIGNMENT)
    } else {
        Shared::<[f32]>::new_slice(len)
    }
}

impl Product {
    /// Values of a block that a thread prefetches.
    pub(crate) fn prefetch_len(&self, threads: &Threads) -> usize {
        let block = self.padded_block(threads);
        match threads.matrices {
            Some(_) => (threads.rows * block).div_ceil(threads.count()),
            None => threads.rows * block.div_ceil(threads.count()),
        }
    }
}

/// Row of the tile and index in the block of the value that a thread prefetches as number `i`. Both may be
/// outside of the tile; such values are not stored.
///
/// Neighbouring threads load neighbours in K for matrix units, otherwise they load the rows of one k.
#[cube]
pub(crate) fn prefetch_position(
    #[comptime] i: usize,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> (usize, usize) {
    if comptime!(threads.matrices.is_some()) {
        let block = comptime!(product.padded_block(&threads));
        let item = UNIT_POS as usize + comptime!(i * threads.count());
        (item / block, item % block)
    } else {
        let first = comptime!(i / threads.rows * threads.count());
        (
            comptime!(i % threads.rows).runtime(),
            UNIT_POS as usize + first,
        )
    }
}

/// First k and first row of the block after the one that starts at `k0` and `row0`: the next block of the
/// same rows, or the first block of the next rows.
#[cube]
pub(crate) fn next_block(
    k0: usize,
    row0: usize,
    next_row0: usize,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> (usize, usize) {
    let next = k0 + comptime!(product.padded_block(&threads));
    let exists = next < comptime!(product.k);
    (
        select(exists, next, 0usize),
        select(exists, row0, next_row0),
    )
}

/// Stores the prefetched values in shared memory.
#[cube]
pub(crate) fn store_tile<M: Float, R: Size>(
    prefetched: &Array<f32>,
    lhs: &mut Lhs<M, R>,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) {
    let block = comptime!(product.padded_block(&threads));
    #[comptime]
    if let ComptimeOption::Some(lhs_rows) = lhs.rows.as_mut() {
        #[unroll]
        for i in 0..comptime!(product.prefetch_len(&threads)) {
            let (row, k) = prefetch_position(i, product, threads);
            if row < comptime!(threads.rows) {
                lhs_rows[row * comptime!(product.lhs_stride(&threads)) + k] =
                    M::cast_from(prefetched[i]);
            }
        }
    }
    #[comptime]
    if let ComptimeOption::Some(lhs_vectors) = lhs.vectors.as_mut() {
        let (width, vectors) = comptime!((threads.width, threads.vectors()));
        #[unroll]
        for i in 0..comptime!(product.prefetch_len(&threads) / width) {
            let (_, k) = prefetch_position(comptime!(i * width), product, threads);
            if k < block {
                let mut rows = Vector::<f32, R>::new(0.0);
                #[unroll]
                for w in 0..width {
                    rows.insert(w, prefetched[comptime!(i * width + w)]);
                }
                lhs_vectors[k * vectors + comptime!(i % vectors)] = rows;
            }
        }
    }
}
