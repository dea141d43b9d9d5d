//! The register tile: a few rows against a panel, over k.

use super::{
    blocks::WIDTH,
    lanes::Lanes,
    panels::{MOST_VECTORS, Panel},
    prefetch,
};
use pulp::{Simd, WithSimd};
use std::{
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
};

/// Most rows of a tile.
pub(super) const ROWS: usize = 8;

/// Sums of a tile: as many rows as it has, of `NV` vectors.
pub(super) struct Sums<E: Lanes, S: Simd, const NV: usize> {
    /// The first `size` are there; a tile of one row has no time to clear eight.
    rows: [MaybeUninit<[E::V<S>; NV]>; ROWS],
    size: usize,
}

impl<E: Lanes, S: Simd, const NV: usize> Sums<E, S, NV> {
    /// So many rows of the same vectors.
    #[inline(always)]
    pub(super) fn new(size: usize, row: [E::V<S>; NV]) -> Self {
        let mut rows = [const { MaybeUninit::uninit() }; ROWS];
        for to in &mut rows[..size] {
            to.write(row);
        }
        Self { rows, size }
    }
}

impl<E: Lanes, S: Simd, const NV: usize> Deref for Sums<E, S, NV> {
    type Target = [[E::V<S>; NV]];

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        // SAFETY: `new` wrote so many rows.
        unsafe { std::slice::from_raw_parts(self.rows.as_ptr().cast(), self.size) }
    }
}

impl<E: Lanes, S: Simd, const NV: usize> DerefMut for Sums<E, S, NV> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        // SAFETY: `new` wrote so many rows.
        unsafe { std::slice::from_raw_parts_mut(self.rows.as_mut_ptr().cast(), self.size) }
    }
}

/// Left sides of a tile's product: as many as it has rows.
#[derive(Clone, Copy)]
pub(super) struct Left<E> {
    /// First element of each.
    rows: [*const E; ROWS],
    /// Elements from one k to the next.
    per_k: usize,
    /// Elements passed over after each [`WIDTH`] of k.
    gap: usize,
}

impl<E> Left<E> {
    /// Rows whose elements follow each other.
    pub(super) fn dense(rows: [*const E; ROWS]) -> Self {
        let (per_k, gap) = (1, 0);
        Self { rows, per_k, gap }
    }

    /// Rows that stand side by side from `first` on, `per_k` elements for each k.
    pub(super) fn columns(first: *const E, per_k: usize) -> Self {
        let rows = std::array::from_fn(|m| first.wrapping_add(m));
        Self {
            rows,
            per_k,
            gap: 0,
        }
    }

    /// Rows that follow each other from `first` on, each cut into blocks that lie `per_block`
    /// elements apart.
    pub(super) fn blocks(first: *const E, per_block: usize) -> Self {
        Self {
            rows: std::array::from_fn(|m| first.wrapping_add(m * WIDTH)),
            per_k: 1,
            gap: per_block - WIDTH,
        }
    }
}

/// Rows of a full tile. With three vectors of weights and one broadcast, 8 rows fill 32 registers
/// and 4 rows fill 16.
pub(super) const fn tile_rows<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 8 } else { 4 }
}

/// Rows from which a tile asks for memory: with fewer it waits for its own weights.
pub(super) const ASKS_FROM: usize = 4;

/// Steps of k between two rounds of asking for memory.
const BLOCK: usize = 8;

/// What a tile asks for while it multiplies, spread over its k: all at once would fill the queue
/// that its own weights come through.
#[derive(Clone, Copy)]
pub(super) struct Ahead<'a, E> {
    /// Weights of the next panel, for the second-level cache: first line, and how many.
    far: (*const E, usize),
    /// What is needed when the product is done, or right after it.
    near: &'a [*const E],
}

impl<'a, E> Ahead<'a, E> {
    /// The part of tile `tile` out of `tiles` of a packed panel, and `near`.
    #[inline(always)]
    pub(super) fn new(
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
    pub(super) fn near(near: &'a [*const E]) -> Self {
        Self {
            near,
            ..Self::NOTHING
        }
    }

    pub(super) const NOTHING: Self = Self {
        far: (std::ptr::null(), 0),
        near: &[],
    };
}

/// Adds `a·b` to the first `vectors` vectors of `sums`: rows of `k` elements each, by `k` rows of
/// the panel.
///
/// The rows are read where they stand: a broadcast from memory costs no more than one from a
/// packed copy, and nothing has to be interleaved. Each size is one function for all who ask for
/// it, or every caller's code would hold them all; a single row has too little work for a call.
///
/// # Safety
/// There are as many left sides as the sums have rows, each of `k` elements that nobody writes
/// meanwhile, and the panel has `k` rows of so many vectors.
#[inline(always)]
pub(super) unsafe fn accumulate<E: Lanes, S: Simd, const NV: usize>(
    simd: S,
    sums: &mut Sums<E, S, NV>,
    vectors: usize,
    left: &Left<E>,
    k: usize,
    panel: Panel<E>,
    ahead: Ahead<'_, E>,
) {
    let product = Product::new(sums, left, k, panel, ahead);
    // Tiles of 8 and of 4 rows add up in the same order: see `plan::CUT`.
    match (vectors, sums.size) {
        (3, 8) if tile_rows::<S>() == 8 => simd.vectorize(Sized::<E, 8, 3, NV, 1>(product)),
        (3, 4) => simd.vectorize(Sized::<E, 4, 3, NV, 1>(product)),
        (3, 2) => simd.vectorize(Sized::<E, 2, 3, NV, 2>(product)),
        (3, _) => Sized::<E, 1, 3, NV, 4>(product).with_simd(simd),
        (2, 8) if tile_rows::<S>() == 8 => simd.vectorize(Sized::<E, 8, 2, NV, 1>(product)),
        (2, 4) => simd.vectorize(Sized::<E, 4, 2, NV, 1>(product)),
        (2, 2) => simd.vectorize(Sized::<E, 2, 2, NV, 4>(product)),
        (2, _) => Sized::<E, 1, 2, NV, 4>(product).with_simd(simd),
        (_, 8) if tile_rows::<S>() == 8 => simd.vectorize(Sized::<E, 8, 1, NV, 2>(product)),
        (_, 4) => simd.vectorize(Sized::<E, 4, 1, NV, 2>(product)),
        (_, 2) => simd.vectorize(Sized::<E, 2, 1, NV, 4>(product)),
        _ => Sized::<E, 1, 1, NV, 4>(product).with_simd(simd),
    }
}

/// [`accumulate`] of three vectors, every size of a tile in the order of a full one.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn accumulate_in_order<E: Lanes, S: Simd>(
    simd: S,
    sums: &mut Sums<E, S, 3>,
    left: &Left<E>,
    k: usize,
    panel: Panel<E>,
) {
    let product = Product::new(sums, left, k, panel, Ahead::NOTHING);
    match sums.size {
        8 if tile_rows::<S>() == 8 => simd.vectorize(Sized::<E, 8, 3, 3, 1>(product)),
        4 => simd.vectorize(Sized::<E, 4, 3, 3, 1>(product)),
        2 => simd.vectorize(Sized::<E, 2, 3, 3, 1>(product)),
        _ => simd.vectorize(Sized::<E, 1, 3, 3, 1>(product)),
    }
}

/// A call of [`accumulate`], which answers for it.
struct Product<'a, E> {
    /// `Sums` of the instruction set that this is given to.
    sums: *mut E,
    left: &'a Left<E>,
    k: usize,
    panel: Panel<E>,
    ahead: Ahead<'a, E>,
}

impl<'a, E: Lanes> Product<'a, E> {
    #[inline(always)]
    fn new<S: Simd, const NV: usize>(
        sums: &mut Sums<E, S, NV>,
        left: &'a Left<E>,
        k: usize,
        panel: Panel<E>,
        ahead: Ahead<'a, E>,
    ) -> Self {
        Self {
            sums: sums.as_mut_ptr().cast(),
            left,
            k,
            panel,
            ahead,
        }
    }
}

/// A product of `MR` rows and `NV` out of `OF` vectors. `KU` independent sums hide the latency of
/// the multiply-add where these are few.
struct Sized<'a, E, const MR: usize, const NV: usize, const OF: usize, const KU: usize>(
    Product<'a, E>,
);

impl<E: Lanes, const MR: usize, const NV: usize, const OF: usize, const KU: usize> WithSimd
    for Sized<'_, E, MR, NV, OF, KU>
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
        } = self.0;
        let Left { per_k, gap, .. } = *left;
        let rows: [*const E; MR] = std::array::from_fn(|m| left.rows[m]);
        // SAFETY: `accumulate` made this of sums of the same `S`, borrowed for the call.
        let sums = unsafe { &mut *self.0.sums.cast::<[[E::V<S>; OF]; MR]>() };
        let mut all = [[[E::real(simd, 0.0); NV]; MR]; KU];
        for (to, from) in all[0].iter_mut().zip(&*sums) {
            to.copy_from_slice(&from[..NV]);
        }
        let mut b = panel.at;
        let (mut at, mut a) = (0, 0);
        let block = match gap {
            _ if MR >= ASKS_FROM => BLOCK,
            0 => k,
            _ => WIDTH,
        };
        let blocks = (k / BLOCK).max(1);
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
            while at + KU <= end {
                for sums in &mut all {
                    // SAFETY: `at` is below `k`; so the caller's word covers one element of each row
                    // and one row of the panel.
                    unsafe { step::<E, S, MR, NV>(simd, sums, &rows, a, b, &panel.vectors) };
                    b = b.wrapping_add(panel.per_k);
                    a += per_k;
                    at += 1;
                }
            }
            if at % WIDTH == 0 {
                a += gap;
            }
        }
        while at < k {
            // SAFETY: as above.
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
        // SAFETY: the caller's word.
        *weights = unsafe { E::load(simd, b.add(vectors[v])) };
    }
    for m in 0..MR {
        // SAFETY: the caller's word.
        let a = E::splat(simd, unsafe { *rows[m].add(a) });
        for v in 0..NV {
            sums[m][v] = E::vfma(simd, a, weights[v], sums[m][v]);
        }
    }
}

/// A vector of `from`, zero past its end.
#[inline(always)]
pub(super) fn load<E: Lanes, S: Simd>(simd: S, from: &[E]) -> E::V<S> {
    if from.len() >= E::lanes::<S>() {
        // SAFETY: `from` is at least a vector long.
        return unsafe { E::load(simd, from.as_ptr()) };
    }
    E::load_part(simd, from)
}

/// Writes as much of a vector as `to` is long.
#[inline(always)]
pub(super) fn store<E: Lanes, S: Simd>(simd: S, to: &mut [E], v: E::V<S>) {
    if to.len() >= E::lanes::<S>() {
        // SAFETY: `to` is at least a vector long.
        return unsafe { E::store(simd, to.as_mut_ptr(), v) };
    }
    E::store_part(simd, to, v);
}
