//! The input gradient.

use super::{Pass, RoundRows, gate_of_d, weights::Rhs};
use crate::{
    product::{Prefetch, Rows, Sums},
    simd::Lanes,
    threads::tiles,
};
use core::ops::Range;
use pulp::Simd;

impl<E: Lanes> Pass<'_, E> {
    /// `dx = dp·w_ihᵀ` of some rows of a round, which belong to this thread, or `dp` itself where the input is projected.
    #[inline(always)]
    pub(super) fn input_gradients<S: Simd>(
        &self,
        simd: S,
        round: &RoundRows<'_>,
        rows: Range<usize>,
    ) {
        match (self.dx, &self.weights.input) {
            (Some(dx), Some(w_ih)) => self.multiply_by_input(simd, round, rows, dx, w_ih),
            (Some(dx), None) => self.copy_to_input(simd, round, rows, dx),
            (None, _) => {}
        }
    }

    /// Where a row of a round is in memory.
    #[inline(always)]
    fn place(&self, round: &RoundRows<'_>, row: usize) -> usize {
        let (n, s) = round.place(row);
        self.call.row(n, s)
    }

    #[inline(always)]
    fn copy_to_input<S: Simd>(
        &self,
        simd: S,
        round: &RoundRows<'_>,
        rows: Range<usize>,
        dx: Rows<'_, E>,
    ) {
        let (h, lanes) = (self.call.sizes.h, E::lanes::<S>());
        for row in rows {
            for (at, gate) in gate_of_d::PACKED.into_iter().take(3).enumerate() {
                for unit in (0..h).step_by(lanes) {
                    let columns = at * h + unit..at * h + (unit + lanes).min(h);
                    // SAFETY: a block of `d` is at least a vector wide, and was written before the last
                    // barrier; this row of dx belongs to this thread.
                    unsafe {
                        let v = E::load(simd, self.d.at(gate, unit, row));
                        dx.write(simd, self.place(round, row), columns, v);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn multiply_by_input<S: Simd>(
        &self,
        simd: S,
        round: &RoundRows<'_>,
        rows: Range<usize>,
        dx: Rows<'_, E>,
        w_ih: &Rhs<'_, E>,
    ) {
        let lanes = E::lanes::<S>();
        for panel in 0..w_ih.count(lanes) {
            let units = w_ih.of_panel(panel, lanes);
            for tile in tiles(rows.clone(), self.machine.tile_rows) {
                let mut sums = Sums::<E, S>::new();
                sums.clear(simd, tile.rows);
                let lhs = (&self.d, tile.first);
                // SAFETY: all rows of `d` were written before the last barrier.
                unsafe { w_ih.multiply(simd, lhs, panel, Prefetch::NOTHING, &mut sums) };
                for (row, sums) in tile.range().zip(sums.iter()) {
                    let place = self.place(round, row);
                    // Zero times a weight may be NaN.
                    let is_skipped = self.call.is_skipped(place);
                    for (first, &sum) in units.clone().step_by(lanes).zip(sums) {
                        let sum = if is_skipped { E::real(simd, 0.0) } else { sum };
                        let columns = first..(first + lanes).min(units.end);
                        // SAFETY: this row of dx belongs to this thread.
                        unsafe { dx.write(simd, place, columns, sum) };
                    }
                }
            }
        }
    }
}
