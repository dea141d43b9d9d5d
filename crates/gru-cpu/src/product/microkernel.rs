//! The register tile: a few rows times a panel, summed over k.

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
use super::avx2;
use super::{Lhs, MOST_VECTORS, Prefetch, Product, ROWS, SumOrder, WIDTH, prefetch};
use crate::{
    simd::Lanes,
    tuning::{PREFETCH_EVERY, PREFETCH_FROM, SUMS_1X3, SUMS_2X3, registers, tile_rows},
};
use core::{
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
};
use pulp::{Simd, WithSimd};

/// The sums of a tile: rows of up to three vectors.
pub(crate) struct Sums<E: Lanes, S: Simd> {
    /// The first `size` rows are initialized: clearing all eight would slow down a tile of one row.
    rows: [MaybeUninit<[E::V<S>; MOST_VECTORS]>; ROWS],
    size: usize,
}

impl<E: Lanes, S: Simd> Sums<E, S> {
    /// No rows. They are filled in place: returning filled sums from a function copies them, which took 5% of a
    /// forward pass.
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self {
            rows: [const { MaybeUninit::uninit() }; ROWS],
            size: 0,
        }
    }

    /// Sets the number of rows, and each row to the same vectors.
    #[inline(always)]
    pub(crate) fn fill(&mut self, size: usize, row: [E::V<S>; MOST_VECTORS]) {
        for to in &mut self.rows[..size] {
            to.write(row);
        }
        self.size = size;
    }

    /// Sets the number of rows, and each row to zero.
    #[inline(always)]
    pub(crate) fn clear(&mut self, simd: S, size: usize) {
        self.fill(size, [E::real(simd, 0.0); MOST_VECTORS]);
    }
}

impl<E: Lanes, S: Simd> Deref for Sums<E, S> {
    type Target = [[E::V<S>; MOST_VECTORS]];

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        // SAFETY: `fill` initialized `size` rows.
        unsafe { core::slice::from_raw_parts(self.rows.as_ptr().cast(), self.size) }
    }
}

impl<E: Lanes, S: Simd> DerefMut for Sums<E, S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        // SAFETY: `fill` initialized `size` rows, which are borrowed from `self`.
        unsafe { core::slice::from_raw_parts_mut(self.rows.as_mut_ptr().cast(), self.size) }
    }
}

impl<E: Lanes> Product<'_, E> {
    /// Adds the product to the sums.
    ///
    /// The rows are read in place: a broadcast from memory costs no more than a broadcast from a packed copy. Each
    /// tile size is a separate function. Otherwise each caller would contain the code of all sizes.
    ///
    /// # Safety
    /// The left side has a row for each row of the sums. Each has `k` elements, which no thread writes during the
    /// product. The panel has `k` rows of so many vectors.
    #[inline(always)]
    pub(crate) unsafe fn add_to<S: Simd>(self, simd: S, sums: &mut Sums<E, S>) {
        let is_strict = self.order == SumOrder::Strict;
        let (vectors, all) = (self.vectors, sums.rows.as_mut_ptr().cast());
        let is_wide = tile_rows(registers::<S>()) == 8;
        // Small tiles have several partial sums.
        match (vectors, sums.size) {
            (3, 8) if is_wide => simd.vectorize(Microkernel::<E, 8, 3, 1>(self, all)),
            (3, 4) => simd.vectorize(Microkernel::<E, 4, 3, 1>(self, all)),
            (3, 2) if is_strict => simd.vectorize(Microkernel::<E, 2, 3, 1>(self, all)),
            (3, 2) => simd.vectorize(Microkernel::<E, 2, 3, SUMS_2X3>(self, all)),
            (3, 1) if is_strict => simd.vectorize(Microkernel::<E, 1, 3, 1>(self, all)),
            (3, 1) => simd.vectorize(Microkernel::<E, 1, 3, SUMS_1X3>(self, all)),
            (2, 8) if is_wide => simd.vectorize(Microkernel::<E, 8, 2, 1>(self, all)),
            (2, 4) => simd.vectorize(Microkernel::<E, 4, 2, 1>(self, all)),
            (2, 2) => simd.vectorize(Microkernel::<E, 2, 2, 4>(self, all)),
            (2, 1) => simd.vectorize(Microkernel::<E, 1, 2, 4>(self, all)),
            (1, 8) if is_wide => simd.vectorize(Microkernel::<E, 8, 1, 2>(self, all)),
            (1, 4) => simd.vectorize(Microkernel::<E, 4, 1, 2>(self, all)),
            (1, 2) => simd.vectorize(Microkernel::<E, 2, 1, 4>(self, all)),
            (1, 1) => simd.vectorize(Microkernel::<E, 1, 1, 4>(self, all)),
            (vectors, size) => unreachable!("no tile has {size} rows of {vectors} vectors"),
        }
    }

    /// [`add_to`](Self::add_to) in free order, inlined if the tile is a single row: a function call would cost too
    /// much. But in the large function of a round, V8 spills all sums in each iteration.
    ///
    /// # Safety
    /// As for [`add_to`](Self::add_to).
    #[inline(always)]
    pub(crate) unsafe fn add_to_small<S: Simd>(self, simd: S, sums: &mut Sums<E, S>) {
        if sums.size > 1 || cfg!(target_family = "wasm") {
            // SAFETY: the caller keeps this promise.
            return unsafe { self.add_to(simd, sums) };
        }
        debug_assert!(self.order == SumOrder::Free);
        let all = sums.rows.as_mut_ptr().cast();
        match self.vectors {
            3 => Microkernel::<E, 1, 3, SUMS_1X3>(self, all).with_simd(simd),
            2 => Microkernel::<E, 1, 2, 4>(self, all).with_simd(simd),
            1 => Microkernel::<E, 1, 1, 4>(self, all).with_simd(simd),
            vectors => unreachable!("no tile has {vectors} vectors"),
        }
    }
}

/// A product of `MR` rows and `NV` vectors, with `KU` partial sums, and [`Sums`] of the instruction set to which this is
/// dispatched.
struct Microkernel<'a, E, const MR: usize, const NV: usize, const KU: usize>(
    Product<'a, E>,
    *mut E,
);

impl<E: Lanes, const MR: usize, const NV: usize, const KU: usize> WithSimd
    for Microkernel<'_, E, MR, NV, KU>
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(product, sums) = self;
        let Product {
            lhs,
            k,
            panel,
            prefetch,
            ..
        } = product;
        let Lhs { per_k, gap, .. } = *lhs;
        let rows = *lhs.rows.first_chunk::<MR>().expect("no tile has more");
        // SAFETY: the caller of the product keeps its promises, and `sums` are sums of the product.
        let done = unsafe { add_first::<E, S, MR, NV>(&product, sums) };
        if done == k {
            return;
        }
        // The assembly has prefetched everything.
        let prefetch = if done > 0 {
            Prefetch::NOTHING
        } else {
            prefetch
        };
        // SAFETY: `Product::add_to` passes `MR` rows of sums of the same `S`, and borrows them until this returns. The
        // assembly does not use them any more.
        let sums = unsafe { &mut *sums.cast::<[[E::V<S>; MOST_VECTORS]; MR]>() };
        let mut all = [[[E::real(simd, 0.0); NV]; MR]; KU];
        for (to, from) in all[0].iter_mut().zip(&*sums) {
            to.copy_from_slice(&from[..NV]);
        }
        let mut b = panel.skip(done).at;
        let (mut at, mut a) = (done, done * per_k + done / WIDTH * gap);
        let block = match gap {
            _ if MR >= PREFETCH_FROM => PREFETCH_EVERY,
            0 => k,
            _ => WIDTH,
        };
        let blocks = (k / PREFETCH_EVERY).max(1);
        // Constant offsets: WebAssembly engines fold them into their loads, which leaves another register for the
        // sums.
        let lanes = size_of::<E::V<S>>() / size_of::<E>();
        let dense = [0, lanes, 2 * lanes];
        let is_dense = cfg!(target_family = "wasm")
            && panel.per_k == NV * lanes
            && panel.offsets[..NV] == dense[..NV];
        let (mut far, far_lines) = prefetch.far();
        let far_lines = far_lines.div_ceil(blocks);
        let mut near = prefetch
            .near
            .chunks(prefetch.near.len().div_ceil(blocks).max(1));
        while at + KU <= k {
            if MR >= PREFETCH_FROM {
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
                    // SAFETY: as below; the vectors of the panel are contiguous.
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
                    // SAFETY: `at` is below `k`, and the caller of the product promised `k` elements of each row and
                    // `k` rows of the panel.
                    unsafe { step::<E, S, MR, NV>(simd, sums, &rows, a, b, &panel.offsets) };
                    b = b.wrapping_add(panel.per_k);
                    a += per_k;
                    at += 1;
                }
            }
            if at % WIDTH == 0 {
                a += gap;
                if MR >= PREFETCH_FROM && gap > 0 {
                    // The block after the next one. It is on another page, where the hardware does not prefetch.
                    for row in &rows {
                        prefetch::to_read(row.wrapping_add(a + gap + WIDTH));
                    }
                }
            }
        }
        while at < k {
            // SAFETY: `at` is below `k`, as above.
            unsafe { step::<E, S, MR, NV>(simd, &mut all[0], &rows, a, b, &panel.offsets) };
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

/// Adds the first k of a product, and returns how many: with AVX2 some tiles are in assembly.
///
/// # Safety
/// As for [`Product::add_to`]. The tile has `MR` rows of `NV` vectors of `S`.
#[inline(always)]
unsafe fn add_first<E: Lanes, S: Simd, const MR: usize, const NV: usize>(
    product: &Product<'_, E>,
    sums: *mut E,
) -> usize {
    // Miri has no assembly, and the address sanitizer of a fuzz target does not see its reads.
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
    if cfg!(not(any(miri, fuzzing)))
        && MR == avx2::ROWS
        && NV > 1
        && core::any::TypeId::of::<S>() == core::any::TypeId::of::<pulp::x86::V3>()
    {
        // SAFETY: `V3` exists only on machines with AVX2, and its vectors are `__m256`.
        return unsafe { avx2::add_to::<E, NV>(product, sums.cast()) };
    }
    let _ = (product, sums);
    0
}

/// Adds the products for one k.
///
/// # Safety
/// Element `a` of every row and the vectors at `b` can be read.
#[inline(always)]
unsafe fn step<E: Lanes, S: Simd, const MR: usize, const NV: usize>(
    simd: S,
    sums: &mut [[E::V<S>; NV]; MR],
    rows: &[*const E; MR],
    a: usize,
    b: *const E,
    offsets: &[usize; MOST_VECTORS],
) {
    let mut weights = [E::real(simd, 0.0); NV];
    for (v, weights) in weights.iter_mut().enumerate() {
        // SAFETY: the vectors at `b` can be read.
        *weights = unsafe { E::load(simd, b.add(offsets[v])) };
    }
    for m in 0..MR {
        // SAFETY: element `a` of every row can be read.
        let a = E::splat(simd, unsafe { *rows[m].add(a) });
        for v in 0..NV {
            sums[m][v] = E::vfma(simd, a, weights[v], sums[m][v]);
        }
    }
}
