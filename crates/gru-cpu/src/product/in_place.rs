//! Products with a weight that is read in place, for calls that read it too rarely to pack it.

use super::{Blocks, ROWS, Sums, WIDTH, prefetch};
use crate::{
    simd::Lanes,
    tuning::{registers, tile_rows},
};
use core::ops::Range;
use pulp::{Simd, WithSimd};

/// The most elements of a row of [`Sums`]: three vectors of the widest instruction set.
const MOST: usize = 3 * WIDTH;

/// A row-major weight `[K,3H]`.
#[derive(Clone, Copy)]
pub(crate) struct WeightRows<'a, E> {
    elements: &'a [E],
    /// H, the units of a gate.
    h: usize,
}

impl<'a, E: Lanes> WeightRows<'a, E> {
    pub(crate) fn new(elements: &'a [E], h: usize) -> Self {
        Self { elements, h }
    }

    /// Some columns of a row.
    #[inline(always)]
    fn row(&self, row: usize, columns: &Range<usize>) -> &'a [E] {
        &self.elements[row * 3 * self.h..][..3 * self.h][columns.clone()]
    }

    /// Sets some units of some gates of the rows `to` `[3H]` to the products of the rows of `lhs`.
    ///
    /// # Safety
    /// The rows of `lhs` have K elements, which no thread writes. These units of `to` belong to this thread.
    #[inline(always)]
    pub(crate) unsafe fn multiply_gates<S: Simd>(
        &self,
        simd: S,
        lhs: &[*const E],
        gates: Range<usize>,
        units: &Range<usize>,
        to: &[*mut E; ROWS],
    ) {
        // The columns of this thread are adjacent, if it has all units.
        let (gates, width) = if units.len() == self.h {
            (gates.start..gates.start + 1, gates.len() * self.h)
        } else {
            (gates, units.len())
        };
        for gate in gates {
            let columns = gate * self.h + units.start..gate * self.h + units.start + width;
            let mut to = *to;
            for to in &mut to[..lhs.len()] {
                *to = to.wrapping_add(columns.start);
            }
            // SAFETY: the caller keeps the same promises.
            unsafe { self.multiply(simd, lhs, &columns, &to[..lhs.len()]) };
        }
    }

    /// Sets each of the rows `to` to the product of a row of `lhs` with some columns.
    ///
    /// Each element is a sequential sum, so a row has the same bits in a tile of any size.
    ///
    /// # Safety
    /// The rows of `lhs` have K elements, which no thread writes. The rows `to` have room for the columns, and belong
    /// to this thread.
    #[inline(always)]
    unsafe fn multiply<S: Simd>(
        &self,
        simd: S,
        lhs: &[*const E],
        columns: &Range<usize>,
        to: &[*mut E],
    ) {
        let mut at = 0;
        while at < lhs.len() {
            let (lhs, to) = (&lhs[at..], &to[at..]);
            // 8 to 12 sums hide the latency of a multiply-add.
            at += match lhs.len() {
                4.. => simd.vectorize(RowProducts::<E, 4, 3, 1>::new(*self, lhs, columns, to)),
                2.. => simd.vectorize(RowProducts::<E, 2, 6, 2>::new(*self, lhs, columns, to)),
                _ => simd.vectorize(RowProducts::<E, 1, 8, 4>::new(*self, lhs, columns, to)),
            };
        }
    }

    /// Sets the sums of each row of a tile to its products with some weight rows: the transposed product. Each gate
    /// of `d` multiplies the columns of a gate of the weight.
    ///
    /// Each product is a sum of its own, so a row has the same bits in a tile of any size.
    ///
    /// # Safety
    /// `d` has a row for each row of the sums, from `row` on, which no thread writes meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn multiply_transposed<S: Simd>(
        &self,
        simd: S,
        (d, row): (&Blocks<'_, E>, usize),
        gates: &[(usize, usize)],
        units: Range<usize>,
        sums: &mut Sums<E, S>,
    ) {
        let mut to = [[E::zero(); MOST]; ROWS];
        let tile = Tile {
            weight: *self,
            d,
            row,
            gates,
            units,
            to: &mut to,
        };
        // With 8 to 16 sums, the tile fills the registers and hides the latency of a multiply-add.
        match sums.len() {
            1 => simd.vectorize(Dots::<E, 1, 8>(tile)),
            2 => simd.vectorize(Dots::<E, 2, 4>(tile)),
            4 => simd.vectorize(Dots::<E, 4, 2>(tile)),
            8 if tile_rows(registers::<S>()) == 8 => simd.vectorize(Dots::<E, 8, 2>(tile)),
            rows => unreachable!("no tile has {rows} rows"),
        }
        for (sums, to) in sums.iter_mut().zip(&to) {
            for (sum, to) in sums.iter_mut().zip(to.chunks_exact(E::lanes::<S>())) {
                *sum = E::read(simd, to);
            }
        }
    }
}

/// Weight rows whose products are added before the next columns. Fewer rows store the sums more often, and more rows
/// are more sequences of cache lines than a processor prefetches.
const BLOCK: usize = 8;

/// The products of `R` rows with some columns: `C` vectors of columns at a time, then `D`, then one.
struct RowProducts<'a, E, const R: usize, const C: usize, const D: usize> {
    weight: WeightRows<'a, E>,
    lhs: [*const E; R],
    columns: Range<usize>,
    to: [*mut E; R],
}

impl<'a, E: Lanes, const R: usize, const C: usize, const D: usize> RowProducts<'a, E, R, C, D> {
    /// The first `R` rows of [`WeightRows::multiply`], whose promises hold.
    #[inline(always)]
    fn new(
        weight: WeightRows<'a, E>,
        lhs: &[*const E],
        columns: &Range<usize>,
        to: &[*mut E],
    ) -> Self {
        Self {
            weight,
            lhs: *lhs.first_chunk().expect("so many rows"),
            columns: columns.clone(),
            to: *to.first_chunk().expect("so many rows"),
        }
    }

    /// Adds the products with the weight rows `block` to `COUNT` vectors from `column` on.
    #[inline(always)]
    fn add<S: Simd, const COUNT: usize>(&self, simd: S, block: &Range<usize>, column: usize) {
        let Self {
            weight, lhs, to, ..
        } = self;
        let lanes = E::lanes::<S>();
        let mut sums = [[E::real(simd, 0.0); COUNT]; R];
        if block.start > 0 {
            for (sums, &to) in sums.iter_mut().zip(to) {
                for (at, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the caller of `multiply` promises room for all columns.
                    *sum = unsafe { E::load(simd, to.add(column + at * lanes)) };
                }
            }
        }
        // The columns of one thread of several are short sequences, and no hardware prefetcher goes on in the next row.
        // With AVX2 and two threads, a step of one row with I = H = 512 took 0.73 to 0.83 of the time. With tiles of more
        // rows it was 0.70 to 1.29, with whole weight rows 0.89 to 1.35.
        let prefetches = R == 1 && self.columns.len() < weight.h;
        for k in block.clone() {
            let row = weight.row(k, &self.columns)[column..][..COUNT * lanes].as_ptr();
            if prefetches {
                let next = row.wrapping_add(BLOCK * 3 * weight.h);
                for line in (0..COUNT * lanes).step_by(64 / size_of::<E>()) {
                    prefetch::to_read(next.wrapping_add(line));
                }
            }
            let mut weights = [E::real(simd, 0.0); COUNT];
            for (at, weights) in weights.iter_mut().enumerate() {
                // SAFETY: `row` has so many vectors.
                *weights = unsafe { E::load(simd, row.add(at * lanes)) };
            }
            for (sums, lhs) in sums.iter_mut().zip(lhs) {
                // SAFETY: the caller of `multiply` promises K elements.
                let factor = E::splat(simd, unsafe { *lhs.add(k) });
                for (sum, &weights) in sums.iter_mut().zip(&weights) {
                    *sum = E::vfma(simd, factor, weights, *sum);
                }
            }
        }
        for (sums, &to) in sums.iter().zip(to) {
            for (at, &sum) in sums.iter().enumerate() {
                // SAFETY: as above.
                unsafe { E::store(simd, to.add(column + at * lanes), sum) };
            }
        }
    }

    /// The same for the columns from `column` on, which are less than a vector.
    #[inline(always)]
    fn add_rest<S: Simd>(&self, simd: S, block: &Range<usize>, column: usize) {
        let width = self.columns.len() - column;
        for (&lhs, &to) in self.lhs.iter().zip(&self.to) {
            // SAFETY: as above.
            let to = unsafe { core::slice::from_raw_parts_mut(to.add(column), width) };
            let mut sum = if block.start > 0 {
                E::read(simd, to)
            } else {
                E::real(simd, 0.0)
            };
            for k in block.clone() {
                let row = &self.weight.row(k, &self.columns)[column..];
                // SAFETY: as above.
                sum = E::vfma(
                    simd,
                    E::splat(simd, unsafe { *lhs.add(k) }),
                    E::read(simd, row),
                    sum,
                );
            }
            E::write(simd, to, sum);
        }
    }
}

impl<E: Lanes, const R: usize, const C: usize, const D: usize> WithSimd
    for RowProducts<'_, E, R, C, D>
{
    /// `R`.
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let rows = self.weight.elements.len() / (3 * self.weight.h);
        let (lanes, width) = (E::lanes::<S>(), self.columns.len());
        // Without rows, the product is zero.
        for first in (0..rows.max(1)).step_by(BLOCK) {
            let block = first..rows.min(first + BLOCK);
            let mut column = 0;
            while column + C * lanes <= width {
                self.add::<S, C>(simd, &block, column);
                column += C * lanes;
            }
            while column + D * lanes <= width {
                self.add::<S, D>(simd, &block, column);
                column += D * lanes;
            }
            while column + lanes <= width {
                self.add::<S, 1>(simd, &block, column);
                column += lanes;
            }
            if column < width {
                self.add_rest(simd, &block, column);
            }
        }
        R
    }
}

/// Some rows of `d` from `row` on, some weight rows, and the columns for their products.
struct Tile<'a, 'b, E> {
    weight: WeightRows<'a, E>,
    d: &'a Blocks<'b, E>,
    row: usize,
    gates: &'a [(usize, usize)],
    units: Range<usize>,
    to: &'a mut [[E; MOST]; ROWS],
}

/// Sums that are in memory between two gates. If they crossed cache lines, a layer of few units would take 1.4 times as long.
#[repr(align(64))]
struct Aligned<T>(T);

/// The products of `R` rows, with `U` weight rows at a time.
struct Dots<'a, 'b, E, const R: usize, const U: usize>(Tile<'a, 'b, E>);

impl<E: Lanes, const R: usize, const U: usize> WithSimd for Dots<'_, '_, E, R, U> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Range { start, end } = self.0.units;
        let mut unit = start;
        while unit + U <= end {
            self.dots::<S, U>(simd, unit, unit - start);
            unit += U;
        }
        while unit < end {
            self.dots::<S, 1>(simd, unit, unit - start);
            unit += 1;
        }
    }
}

impl<E: Lanes, const R: usize, const U: usize> Dots<'_, '_, E, R, U> {
    /// The products with `COUNT` weight rows from `unit` on, to columns from `place` on.
    #[inline(always)]
    fn dots<S: Simd, const COUNT: usize>(&mut self, simd: S, unit: usize, place: usize) {
        let Tile {
            weight,
            d,
            row,
            gates,
            to,
            ..
        } = &mut self.0;
        let (h, row) = (weight.h, *row);
        let lanes = E::lanes::<S>();
        let Aligned(sums) = &mut Aligned([[E::real(simd, 0.0); COUNT]; R]);
        for &(gate, of_weight) in gates.iter() {
            let columns = of_weight * h..(of_weight + 1) * h;
            let mut weights = [core::ptr::null(); COUNT];
            for (u, weights) in weights.iter_mut().enumerate() {
                *weights = weight.row(unit + u, &columns).as_ptr();
            }
            let whole = h - h % lanes;
            for k in (0..whole).step_by(lanes) {
                let mut rows = [E::real(simd, 0.0); R];
                for (r, to) in rows.iter_mut().enumerate() {
                    // SAFETY: a block is a multiple of a vector, and the caller of `multiply_transposed` promises this row.
                    *to = unsafe { E::load(simd, d.at(gate, k, row + r)) };
                }
                for (u, weights) in weights.iter().enumerate() {
                    // SAFETY: each of these rows has H elements.
                    let weights = unsafe { E::load(simd, weights.add(k)) };
                    for (r, &d) in rows.iter().enumerate() {
                        sums[r][u] = E::vfma(simd, d, weights, sums[r][u]);
                    }
                }
            }
            let rest = h - whole;
            if rest > 0 {
                for (u, weights) in weights.iter().enumerate() {
                    for (r, sums) in sums.iter_mut().enumerate() {
                        // SAFETY: as above. The units past the last are not read, because their weights would
                        // belong to another gate, and zero times a weight may be NaN.
                        let (d, weights) = unsafe {
                            (
                                core::slice::from_raw_parts(d.at(gate, whole, row + r), rest),
                                core::slice::from_raw_parts(weights.add(whole), rest),
                            )
                        };
                        let (d, weights) = (E::read(simd, d), E::read(simd, weights));
                        sums[u] = E::vfma(simd, d, weights, sums[u]);
                    }
                }
            }
        }
        for (to, sums) in to.iter_mut().zip(sums) {
            for (to, &mut sum) in to[place..].iter_mut().zip(sums) {
                *to = E::sum(simd, sum);
            }
        }
    }
}
