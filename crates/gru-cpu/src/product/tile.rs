//! The register tile: a few rows against a panel, over k.

use super::{MOST_VECTORS, Panel, WIDTH, prefetch};
use crate::{
    simd::Lanes,
    tuning::{ASKS_EVERY, ASKS_FROM, SUMS_1X3, SUMS_2X3, registers, tile_rows},
};
use pulp::{Simd, WithSimd};
use std::{
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
};

/// Most rows of a tile.
pub(crate) const ROWS: usize = 8;

/// Sums of a tile: as many rows as it has, of up to three vectors.
pub(crate) struct Sums<E: Lanes, S: Simd> {
    /// The first `size` are there; a tile of one row has no time to clear eight.
    rows: [MaybeUninit<[E::V<S>; MOST_VECTORS]>; ROWS],
    size: usize,
}

impl<E: Lanes, S: Simd> Sums<E, S> {
    /// No rows yet. They are filled where they stand: sums that a function made and returned would be
    /// copied, which took 5% of a forward pass.
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self {
            rows: [const { MaybeUninit::uninit() }; ROWS],
            size: 0,
        }
    }

    /// So many rows of the same vectors.
    #[inline(always)]
    pub(crate) fn fill(&mut self, size: usize, row: [E::V<S>; MOST_VECTORS]) {
        for to in &mut self.rows[..size] {
            to.write(row);
        }
        self.size = size;
    }

    /// So many rows of nothing.
    #[inline(always)]
    pub(crate) fn clear(&mut self, simd: S, size: usize) {
        self.fill(size, [E::real(simd, 0.0); MOST_VECTORS]);
    }
}

impl<E: Lanes, S: Simd> Deref for Sums<E, S> {
    type Target = [[E::V<S>; MOST_VECTORS]];

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        // SAFETY: `fill` wrote `size` rows.
        unsafe { std::slice::from_raw_parts(self.rows.as_ptr().cast(), self.size) }
    }
}

impl<E: Lanes, S: Simd> DerefMut for Sums<E, S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        // SAFETY: `fill` wrote `size` rows, and they are borrowed from `self`.
        unsafe { std::slice::from_raw_parts_mut(self.rows.as_mut_ptr().cast(), self.size) }
    }
}

/// Left sides of a tile's product: as many as it has rows.
#[derive(Clone, Copy)]
pub(crate) struct Left<E> {
    /// First element of each.
    rows: [*const E; ROWS],
    /// Elements from one k to the next.
    per_k: usize,
    /// Elements passed over after each [`WIDTH`] of k.
    gap: usize,
}

impl<E> Left<E> {
    /// Rows whose elements follow each other.
    #[inline(always)]
    pub(crate) fn dense(rows: [*const E; ROWS]) -> Self {
        let (per_k, gap) = (1, 0);
        Self { rows, per_k, gap }
    }

    /// Rows that stand side by side from `first` on, `per_k` elements for each k.
    #[inline(always)]
    pub(crate) fn columns(first: *const E, per_k: usize) -> Self {
        let (rows, gap) = (every(first, 1), 0);
        Self { rows, per_k, gap }
    }

    /// Rows that follow each other from `first` on, each cut into blocks that lie `per_block`
    /// elements apart.
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
fn every<E>(first: *const E, distance: usize) -> [*const E; ROWS] {
    let mut rows = [first; ROWS];
    for (m, row) in rows.iter_mut().enumerate() {
        *row = first.wrapping_add(m * distance);
    }
    rows
}

/// What a tile asks for while it multiplies, spread over its k: all at once would fill the queue
/// that its own weights come through.
#[derive(Clone, Copy)]
pub(crate) struct Ahead<'a, E> {
    /// Weights of the next panel, for the second-level cache: first line, and how many.
    far: (*const E, usize),
    /// What is needed when the product is done, or right after it.
    near: &'a [*const E],
}

impl<'a, E> Ahead<'a, E> {
    /// The part of tile `tile` out of `tiles` of a packed panel, and `near`.
    #[inline(always)]
    pub(crate) fn new(
        panel: Panel<E>,
        elements: usize,
        (tile, tiles): (usize, usize),
        near: &'a [*const E],
    ) -> Self {
        let lines = (elements * size_of::<E>()).div_ceil(64).div_ceil(tiles);
        let at = panel.at.cast::<u8>().wrapping_add(tile * lines * 64);
        Self {
            far: (at.cast(), lines),
            near,
        }
    }

    /// Nothing but `near`.
    #[inline(always)]
    pub(crate) fn near(near: &'a [*const E]) -> Self {
        Self {
            near,
            ..Self::NOTHING
        }
    }

    pub(crate) const NOTHING: Self = Self {
        far: (std::ptr::null(), 0),
        near: &[],
    };
}

/// In which order the elements of k are added up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// One after the other, in a tile of three vectors and any size: a row has the same sums in each.
    Strict,
    /// In tiles of less than four rows, several sums side by side hide the latency of the
    /// multiply-add. Larger ones have enough of them: see [`CUT`](crate::tuning::CUT).
    Free,
}

/// A product `a·b` of a tile: rows of `k` elements each, by `k` rows of a panel.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a, E> {
    pub(crate) left: &'a Left<E>,
    pub(crate) k: usize,
    pub(crate) panel: Panel<E>,
    /// Of the panel, from the first on.
    pub(crate) vectors: usize,
    pub(crate) order: Order,
    pub(crate) ahead: Ahead<'a, E>,
}

impl<E: Lanes> Product<'_, E> {
    /// Adds the product to the sums.
    ///
    /// The rows are read where they stand: a broadcast from memory costs no more than one from a
    /// packed copy, and nothing has to be interleaved. Each size is one function for all who ask
    /// for it, or every caller's code would hold them all.
    ///
    /// # Safety
    /// There are as many left sides as the sums have rows, each of `k` elements that nobody writes
    /// meanwhile, and the panel has `k` rows of so many vectors.
    #[inline(always)]
    pub(crate) unsafe fn add_to<S: Simd>(self, simd: S, sums: &mut Sums<E, S>) {
        let Self { vectors, order, .. } = self;
        let tile = Tile {
            sums: sums.rows.as_mut_ptr().cast(),
            product: self,
        };
        // The sums side by side make up for too few of them.
        match (vectors, sums.size) {
            (3, 8) if tile_rows(registers::<S>()) == 8 => simd.vectorize(Sized::<E, 8, 3, 1>(tile)),
            (3, 4) => simd.vectorize(Sized::<E, 4, 3, 1>(tile)),
            (3, 2) if order == Order::Strict => simd.vectorize(Sized::<E, 2, 3, 1>(tile)),
            (3, 2) => simd.vectorize(Sized::<E, 2, 3, SUMS_2X3>(tile)),
            (3, 1) if order == Order::Strict => simd.vectorize(Sized::<E, 1, 3, 1>(tile)),
            (3, 1) => simd.vectorize(Sized::<E, 1, 3, SUMS_1X3>(tile)),
            (2, 8) if tile_rows(registers::<S>()) == 8 => simd.vectorize(Sized::<E, 8, 2, 1>(tile)),
            (2, 4) => simd.vectorize(Sized::<E, 4, 2, 1>(tile)),
            (2, 2) => simd.vectorize(Sized::<E, 2, 2, 4>(tile)),
            (2, 1) => simd.vectorize(Sized::<E, 1, 2, 4>(tile)),
            (1, 8) if tile_rows(registers::<S>()) == 8 => simd.vectorize(Sized::<E, 8, 1, 2>(tile)),
            (1, 4) => simd.vectorize(Sized::<E, 4, 1, 2>(tile)),
            (1, 2) => simd.vectorize(Sized::<E, 2, 1, 4>(tile)),
            (1, 1) => simd.vectorize(Sized::<E, 1, 1, 4>(tile)),
            (vectors, size) => unreachable!("no tile has {size} rows of {vectors} vectors"),
        }
    }

    /// [`add_to`](Self::add_to), in free order, within the caller's code where the tile is a single
    /// row: that has too little work for a call.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn add_to_small<S: Simd>(self, simd: S, sums: &mut Sums<E, S>) {
        if sums.size > 1 {
            // SAFETY: the caller keeps this promise.
            return unsafe { self.add_to(simd, sums) };
        }
        let Self { vectors, order, .. } = self;
        debug_assert!(order == Order::Free);
        let tile = Tile {
            sums: sums.rows.as_mut_ptr().cast(),
            product: self,
        };
        match vectors {
            3 => Sized::<E, 1, 3, SUMS_1X3>(tile).with_simd(simd),
            2 => Sized::<E, 1, 2, 4>(tile).with_simd(simd),
            1 => Sized::<E, 1, 1, 4>(tile).with_simd(simd),
            _ => unreachable!("no tile has {vectors} vectors"),
        }
    }
}

/// A product and the sums that it is added to.
#[derive(Clone, Copy)]
struct Tile<'a, E> {
    /// `Sums` of the instruction set that this is given to.
    sums: *mut E,
    product: Product<'a, E>,
}

/// A product of `MR` rows and `NV` vectors, in `KU` sums side by side.
struct Sized<'a, E, const MR: usize, const NV: usize, const KU: usize>(Tile<'a, E>);

impl<E: Lanes, const MR: usize, const NV: usize, const KU: usize> WithSimd
    for Sized<'_, E, MR, NV, KU>
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Product {
            left,
            k,
            panel,
            ahead,
            ..
        } = self.0.product;
        let Left { per_k, gap, .. } = *left;
        let rows = *left.rows.first_chunk::<MR>().expect("no tile has more");
        // SAFETY: `Product::add_to` made this of `MR` rows of sums of the same `S`, which it borrows
        // until this returns.
        let sums = unsafe { &mut *self.0.sums.cast::<[[E::V<S>; MOST_VECTORS]; MR]>() };
        let mut all = [[[E::real(simd, 0.0); NV]; MR]; KU];
        for (to, from) in all[0].iter_mut().zip(&*sums) {
            to.copy_from_slice(&from[..NV]);
        }
        let mut b = panel.at;
        let (mut at, mut a) = (0, 0);
        let block = match gap {
            _ if MR >= ASKS_FROM => ASKS_EVERY,
            0 => k,
            _ => WIDTH,
        };
        let blocks = (k / ASKS_EVERY).max(1);
        // Distances that are known when this is compiled: engines of WebAssembly fold them into their
        // loads, and have a register more for the sums.
        let lanes = size_of::<E::V<S>>() / size_of::<E>();
        let dense = [0, lanes, 2 * lanes];
        let is_dense = cfg!(target_family = "wasm")
            && panel.per_k == NV * lanes
            && panel.vectors[..NV] == dense[..NV];
        let (mut far, far_lines) = ahead.far;
        let far_lines = far_lines.div_ceil(blocks);
        let mut near = ahead.near.chunks(ahead.near.len().div_ceil(blocks).max(1));
        while at + KU <= k {
            if MR >= ASKS_FROM {
                for &line in near.next().unwrap_or(&[]) {
                    prefetch::to_write(line);
                }
                for _ in 0..far_lines {
                    prefetch::for_later(far);
                    far = far.cast::<u8>().wrapping_add(64).cast();
                }
            }
            let end = (at + block).min(k);
            while is_dense && at + KU <= end {
                for (u, sums) in all.iter_mut().enumerate() {
                    // SAFETY: as below; the vectors of the panel follow each other.
                    unsafe {
                        let b = b.add(u * NV * lanes);
                        step::<E, S, MR, NV>(simd, sums, &rows, a, b, &dense);
                    }
                    a += per_k;
                }
                b = b.wrapping_add(KU * NV * lanes);
                at += KU;
            }
            while at + KU <= end {
                for sums in &mut all {
                    // SAFETY: `at` is below `k`, and whoever asked for the product promised `k`
                    // elements of each row and `k` rows of the panel.
                    unsafe { step::<E, S, MR, NV>(simd, sums, &rows, a, b, &panel.vectors) };
                    b = b.wrapping_add(panel.per_k);
                    a += per_k;
                    at += 1;
                }
            }
            if at % WIDTH == 0 {
                a += gap;
                if MR >= ASKS_FROM && gap > 0 {
                    // The block after the one that begins: in another page, which no machine guesses.
                    for row in &rows {
                        prefetch::to_read(row.wrapping_add(a + gap + WIDTH));
                    }
                }
            }
        }
        while at < k {
            // SAFETY: `at` is below `k` here too.
            unsafe { step::<E, S, MR, NV>(simd, &mut all[0], &rows, a, b, &panel.vectors) };
            b = b.wrapping_add(panel.per_k);
            a += per_k;
            at += 1;
        }
        let mut total = all[0];
        for other in &all[1..] {
            for (total, other) in total.iter_mut().zip(other) {
                for (total, &other) in total.iter_mut().zip(other) {
                    *total = E::vadd(simd, *total, other);
                }
            }
        }
        for (to, from) in sums.iter_mut().zip(&total) {
            to[..NV].copy_from_slice(from);
        }
    }
}

/// # Safety
/// Element `a` of every row and the vectors at `b` can be read.
#[inline(always)]
unsafe fn step<E: Lanes, S: Simd, const MR: usize, const NV: usize>(
    simd: S,
    sums: &mut [[E::V<S>; NV]; MR],
    rows: &[*const E; MR],
    a: usize,
    b: *const E,
    vectors: &[usize; MOST_VECTORS],
) {
    let mut weights = [E::real(simd, 0.0); NV];
    for (v, weights) in weights.iter_mut().enumerate() {
        // SAFETY: the caller lets the vectors at `b` be read.
        *weights = unsafe { E::load(simd, b.add(vectors[v])) };
    }
    for m in 0..MR {
        // SAFETY: the caller lets element `a` of every row be read.
        let a = E::splat(simd, unsafe { *rows[m].add(a) });
        for v in 0..NV {
            sums[m][v] = E::vfma(simd, a, weights[v], sums[m][v]);
        }
    }
}
