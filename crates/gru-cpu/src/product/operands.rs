//! A tile's product, as plain data.

use super::{Panel, Prefetch, WIDTH};

/// The largest number of rows of a tile.
pub(crate) const ROWS: usize = 8;

/// The left side of a tile's product.
#[derive(Clone, Copy)]
pub(crate) struct Lhs<E> {
    /// The first element of each row.
    pub(super) rows: [*const E; ROWS],
    /// Elements from one k to the next.
    pub(super) per_k: usize,
    /// Elements that are skipped after each [`WIDTH`] of k.
    pub(super) gap: usize,
}

impl<E> Lhs<E> {
    /// Rows of contiguous elements.
    #[inline(always)]
    pub(crate) fn dense(rows: [*const E; ROWS]) -> Self {
        let (per_k, gap) = (1, 0);
        Self { rows, per_k, gap }
    }

    /// Rows that are adjacent columns from `first` on, with `per_k` elements for each k.
    #[inline(always)]
    pub(crate) fn columns(first: *const E, per_k: usize) -> Self {
        let (rows, gap) = (every(first, 1), 0);
        Self { rows, per_k, gap }
    }

    /// Rows of blocks from `first` on. The blocks of a row are `per_block` elements apart.
    #[inline(always)]
    pub(crate) fn blocks(first: *const E, per_block: usize) -> Self {
        Self {
            rows: every(first, WIDTH),
            per_k: 1,
            gap: per_block - WIDTH,
        }
    }
}

/// Pointers `distance` elements apart.
#[inline(always)]
pub(super) fn every<E>(first: *const E, distance: usize) -> [*const E; ROWS] {
    let mut rows = [first; ROWS];
    for (m, row) in rows.iter_mut().enumerate() {
        *row = first.wrapping_add(m * distance);
    }
    rows
}

/// The order of the sum over k.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SumOrder {
    /// Sequential, in tiles of three vectors. A row has the same sums in a tile of any size.
    Strict,
    /// In tiles of fewer than four rows, several partial sums hide the latency of the multiply-add. Larger tiles
    /// have enough sums: see [`ROW_GRANULE`](crate::tuning::ROW_GRANULE).
    Free,
}

/// A tile's product: rows of `k` elements times `k` rows of a panel.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a, E> {
    pub(crate) lhs: &'a Lhs<E>,
    pub(crate) k: usize,
    pub(crate) panel: Panel<E>,
    /// Vectors of the panel, from the first on.
    pub(crate) vectors: usize,
    pub(crate) order: SumOrder,
    pub(crate) prefetch: Prefetch<'a, E>,
}
