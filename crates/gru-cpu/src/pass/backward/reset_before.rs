//! A step where the reset gate acts before the product: the candidate's product, and the reset gate.

use super::{gate_of_d::R, step::Step};
use crate::{
    product::{Prefetch, Sums, WIDTH},
    simd::Lanes,
    threads::Tile,
};
use core::ops::Range;
use pulp::Simd;

impl<E: Lanes> Step<'_, '_, E> {
    /// One tile of `ds = dn̄·w_hnᵀ`.
    ///
    /// # Safety
    /// dn̄ of these rows at this step is complete, and these rows and units of `ds` belong to this thread until
    /// the next barrier.
    #[inline(always)]
    pub(super) unsafe fn through_candidate<S: Simd>(&self, simd: S, tile: Tile, panel: usize) {
        let (pass, h, lanes) = (self.pass, self.pass.call.sizes.h, E::lanes::<S>());
        let Some(weights) = &pass.weights.candidate else {
            return;
        };
        let all = weights.of_panel(panel, lanes);
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, tile.rows);
        let rows = (&pass.d, self.first_row + tile.first);
        // SAFETY: dn̄ is complete.
        unsafe { weights.multiply(simd, rows, panel, Prefetch::NOTHING, &mut sums) };
        for (n, sums) in tile.range().zip(sums.iter()) {
            for (start, &sum) in all.clone().step_by(lanes).zip(sums) {
                // SAFETY: these units belong to this thread.
                let ds = unsafe { pass.ds.cells_mut(n, start..(start + lanes).min(h)) };
                E::write(simd, ds, sum);
            }
        }
    }

    /// One row of `ds` through `r ⊙ g`, for some units. `ds` becomes `ds ⊙ r`.
    ///
    /// # Safety
    /// These units of the row belong to this thread until the next barrier.
    #[inline(always)]
    pub(super) unsafe fn through_reset<S: Simd, const WAY: u8>(
        &self,
        simd: S,
        n: usize,
        units: &Range<usize>,
    ) {
        let (pass, call) = (self.pass, &self.pass.call);
        let (h, lanes, row) = (call.sizes.h, E::lanes::<S>(), self.first_row + n);
        let is_skipped = call.is_skipped(call.row(n, self.s));
        let previous = pass.previous(n, self.s);
        let gates = self.gates(n);
        let zero = E::real(simd, 0.0);
        for start in units.clone().step_by(lanes) {
            let some = start..(start + lanes).min(units.end);
            // SAFETY: these units belong to this thread.
            let ds = unsafe { pass.ds.cells_mut(n, some.clone()) };
            let mut r = E::read(simd, &gates[some.clone()]);
            let mut g = E::read(simd, &previous[some.clone()]);
            if let Some(mask) = call.inputs.sequence.recurrent_mask {
                g = E::vmul(simd, g, E::read(simd, &mask[n * h..][some.clone()]));
            }
            let d = E::read(simd, ds);
            let mut dr = E::vmul(
                simd,
                E::vmul(simd, d, g),
                pass.gates.slope::<S, WAY>(simd, 0, r),
            );
            // The gates of a skipped row have no meaning, and its state has no effect.
            if is_skipped {
                (r, g, dr) = (zero, zero, zero);
            }
            E::write(simd, ds, E::vmul(simd, d, r));
            // SAFETY: a block is at least a vector wide, and these units belong to this thread.
            unsafe { E::store(simd, pass.d.at(R, start, row), dr) };
            if pass.dw_hh.is_some() {
                let mut rg = [E::zero(); WIDTH];
                E::write(simd, &mut rg[..some.len()], E::vmul(simd, r, g));
                // SAFETY: the same units of this step's `r ⊙ g` belong to this thread.
                unsafe { pass.lhs.rg.write(row, start, [&rg[..some.len()]]) };
            }
        }
    }
}
