//! The input gradient.

use super::{Pass, RoundRows, gate_of_d, weights::Rhs};
use crate::{
    product::{Prefetch, Rows, Sums},
    simd::Lanes,
    threads::tiles,
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// `dx = dp·w_ihᵀ` of some rows of a round, or `dp` itself where the input is projected.
pub(super) struct InputGradients<'a, 'b, E> {
    pub(super) pass: &'a Pass<'b, E>,
    pub(super) round: RoundRows<'b>,
    /// The rows of the round that belong to this thread.
    pub(super) rows: Range<usize>,
}

impl<E: Lanes> WithSimd for InputGradients<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (self.pass.dx, &self.pass.weights.input) {
            (Some(dx), Some(w_ih)) => self.multiply(simd, dx, w_ih),
            (Some(dx), None) => self.copy(simd, dx),
            (None, _) => {}
        }
    }
}

impl<E: Lanes> InputGradients<'_, '_, E> {
    /// Where a row of the round is in memory.
    #[inline(always)]
    fn place(&self, row: usize) -> usize {
        let (n, s) = self.round.place(row);
        self.pass.call.row(n, s)
    }

    #[inline(always)]
    fn copy<S: Simd>(&self, simd: S, dx: Rows<'_, E>) {
        let (h, lanes) = (self.pass.call.sizes.h, E::lanes::<S>());
        for row in self.rows.clone() {
            for (at, gate) in gate_of_d::PACKED.into_iter().take(3).enumerate() {
                for unit in (0..h).step_by(lanes) {
                    let columns = at * h + unit..at * h + (unit + lanes).min(h);
                    // SAFETY: a block of `d` is at least a vector wide, and was written before the last
                    // barrier; this row of dx belongs to this thread.
                    unsafe {
                        let v = E::load(simd, self.pass.d.at(gate, unit, row));
                        E::write(simd, dx.cells_mut(self.place(row), columns), v);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn multiply<S: Simd>(&self, simd: S, dx: Rows<'_, E>, w_ih: &Rhs<'_, E>) {
        let lanes = E::lanes::<S>();
        for panel in 0..w_ih.count(lanes) {
            let units = w_ih.of_panel(panel, lanes);
            for tile in tiles(self.rows.clone(), self.pass.machine.tile_rows) {
                let mut sums = Sums::<E, S>::new();
                sums.clear(simd, tile.rows);
                let rows = (&self.pass.d, tile.first);
                // SAFETY: all rows of `d` were written before the last barrier.
                unsafe { w_ih.multiply(simd, rows, panel, Prefetch::NOTHING, &mut sums) };
                for (row, sums) in tile.range().zip(sums.iter()) {
                    let place = self.place(row);
                    // Zero times a weight may be NaN.
                    let is_skipped = self.pass.call.is_skipped(place);
                    for (first, &sum) in units.clone().step_by(lanes).zip(sums) {
                        let sum = if is_skipped { E::real(simd, 0.0) } else { sum };
                        let columns = first..(first + lanes).min(units.end);
                        // SAFETY: this row of dx belongs to this thread.
                        let to = unsafe { dx.cells_mut(place, columns) };
                        E::write(simd, to, sum);
                    }
                }
            }
        }
    }
}
