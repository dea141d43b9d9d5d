//! The input gradient.

use super::{Pass, RoundRows, gate_of_d};
use crate::{
    product::{Panels, Prefetch, Rows, Sums},
    simd::Lanes,
    threads::tiles,
    tuning::VECTORS_BACK,
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
    fn multiply<S: Simd>(&self, simd: S, dx: Rows<'_, E>, w_ih: &Panels<'_, E>) {
        let (i, lanes) = (self.pass.call.sizes.i, E::lanes::<S>());
        for panel in 0..w_ih.count() {
            let (first, rhs) = (panel * VECTORS_BACK, w_ih.panel(panel));
            for tile in tiles(self.rows.clone(), self.pass.machine.tile_rows) {
                let mut sums = Sums::<E, S>::new();
                sums.clear(simd, tile.rows);
                let (at, gates, prefetch) = (tile.first, gate_of_d::DP, Prefetch::NOTHING);
                // SAFETY: all rows of `d` were written before the last barrier; the panel has 3H rows.
                unsafe {
                    self.pass
                        .add_product(simd, &mut sums, at, gates, rhs, prefetch)
                };
                for (row, sums) in tile.range().zip(sums.iter()) {
                    let place = self.place(row);
                    // Zero times a weight may be NaN.
                    let is_skipped = self.pass.call.is_skipped(place);
                    for (vector, &sum) in (first..).zip(&sums[..rhs.count]) {
                        let sum = if is_skipped { E::real(simd, 0.0) } else { sum };
                        let columns = vector * lanes..((vector + 1) * lanes).min(i);
                        // SAFETY: this row of dx belongs to this thread.
                        let to = unsafe { dx.cells_mut(place, columns) };
                        E::write(simd, to, sum);
                    }
                }
            }
        }
    }
}
