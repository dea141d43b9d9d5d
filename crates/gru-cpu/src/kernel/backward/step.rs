//! One step back: gates, products, gradients of the states.

use super::{Group, VECTORS};
use crate::{
    kernel::{
        panels::Panel,
        tile::{self, Ahead, ROWS, Sums as Tile, accumulate, load, store},
    },
    product::Element,
    spec::Update,
};
use pulp::Simd;
use std::ops::Range;

/// Lines that a tile asks for: four gates, the upstream gradient and the state, of two vectors of
/// eight rows.
const MAX_LINES: usize = 6 * VECTORS * 8;

/// One step back.
pub(super) struct Step<'a, 'b, E, const COMMON: bool, const AFTER: bool> {
    pub(super) group: &'a Group<'b, E>,
}

impl<E: Element, const COMMON: bool, const AFTER: bool> Step<'_, '_, E, COMMON, AFTER> {
    /// Where a row of the group stands in memory at step `s`.
    #[inline(always)]
    fn place(&self, row: usize, s: usize) -> usize {
        let call = self.group.call;
        call.place
            .row(self.group.rows.start + row, call.time.time(s))
    }

    /// The state of a row before step `s`; empty stands for zeros.
    #[inline(always)]
    fn previous(&self, row: usize, s: usize) -> &[E] {
        let (call, h) = (self.group.call, self.group.call.dims.h);
        let n = self.group.rows.start + row;
        match s {
            0 => call.inputs.h0.map_or(&[], |h0| &h0[n * h..][..h]),
            _ => &call.states[self.place(row, s - 1) * h..][..h],
        }
    }

    #[inline(always)]
    fn is_skipped(&self, place: usize) -> bool {
        let valid = self.group.call.inputs.valid;
        valid.is_some_and(|valid| valid[place] == E::zero())
    }

    /// Slopes of the three gates from their values.
    #[inline(always)]
    fn slope<S: Simd>(&self, simd: S, gate: usize, y: E::V<S>) -> E::V<S> {
        if !COMMON {
            return self.group.gates[gate].slope(simd, y);
        }
        let one = E::real(simd, 1.0);
        match gate {
            2 => E::vsub(simd, one, E::vmul(simd, y, y)),
            _ => E::vmul(simd, y, E::vsub(simd, one, y)),
        }
    }

    /// The lines that the gates of some rows at step `s` are going to read and write.
    #[inline(always)]
    fn lines_of_gates<'l>(
        &self,
        rows: Range<usize>,
        s: usize,
        units: &Range<usize>,
        lanes: usize,
        lines: &'l mut [*const E; MAX_LINES],
    ) -> &'l [*const E] {
        let (call, h) = (self.group.call, self.group.call.dims.h);
        let mut count = 0;
        for row in rows {
            let place = self.place(row, s);
            let d_states = call.d_states[place * h..].as_ptr();
            let previous = self.previous(row, s).as_ptr();
            for unit in units.clone().step_by(lanes) {
                // A vector that lies across two lines shares the first with the one before it.
                let last = unit + lanes - 1;
                for gate in 0..call.saved.width() / h {
                    lines[count + gate] = call.saved.at(place).wrapping_add(gate * h + last);
                }
                lines[count + 4] = d_states.wrapping_add(last);
                lines[count + 5] = previous.wrapping_add(last);
                count += 6;
            }
        }
        &lines[..count]
    }

    /// Some units of a saved gate.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // `Rows` is what this borrows from, not `self`.
    fn saved(&self, place: usize, gate: usize, units: &Range<usize>) -> &mut [E] {
        let at = gate * self.group.call.dims.h;
        // SAFETY: these units are this thread's own until the threads meet, and no caller holds
        // two slices of them.
        unsafe {
            self.group
                .call
                .saved
                .cells_mut(place, at + units.start..at + units.end)
        }
    }

    /// Adds to the bias sums of some units.
    #[inline(always)]
    fn add<S: Simd>(&self, simd: S, gate: usize, units: &Range<usize>, d: E::V<S>) {
        let at = gate * self.group.call.dims.h;
        // SAFETY: these units are this thread's own until the threads meet.
        let sums = unsafe {
            self.group
                .sums
                .cells_mut(0, at + units.start..at + units.end)
        };
        store(simd, sums, E::vadd(simd, load::<E, S>(simd, sums), d));
    }

    /// One row through the blend and the gates, for some units: `dh` becomes the part that the
    /// update gate hands on, the gates become the gradients of their pre-activations (but r where
    /// the reset gate acts before the product).
    #[inline(always)]
    pub(super) fn through_gates<S: Simd>(
        &self,
        simd: S,
        row: usize,
        s: usize,
        units: &Range<usize>,
    ) {
        let call = self.group.call;
        let (h, lanes, place) = (call.dims.h, E::lanes::<S>(), self.place(row, s));
        let skipped = self.is_skipped(place);
        let previous = self.previous(row, s);
        let (zero, one) = (E::real(simd, 0.0), E::real(simd, 1.0));
        for start in units.clone().step_by(lanes) {
            let some = start..(start + lanes).min(units.end);
            // SAFETY: these units are this thread's own.
            let dh = unsafe { call.dh.cells_mut(self.group.rows.start + row, some.clone()) };
            let d = E::vadd(
                simd,
                load::<E, S>(simd, dh),
                load::<E, S>(simd, &call.d_states[place * h..][some.clone()]),
            );
            if skipped {
                // The state was carried on, so its gradient is too.
                for gate in 0..call.spec.saved_per_unit() {
                    store(simd, self.saved(place, gate, &some), zero);
                }
                store(simd, dh, d);
                continue;
            }
            let [r, z, n] =
                [0, 1, 2].map(|gate| load::<E, S>(simd, self.saved(place, gate, &some)));
            let before = match previous {
                [] => zero,
                previous => load::<E, S>(simd, &previous[some.clone()]),
            };
            let (less, more) = match call.spec.update {
                Update::Keeps => (before, n),
                Update::Takes => (n, before),
            };
            // The part of dh that goes to the candidate, and the part that goes to the state.
            let rest = E::vsub(simd, one, z);
            let (taken, kept) = match call.spec.update {
                Update::Keeps => (rest, z),
                Update::Takes => (z, rest),
            };
            let change = E::vsub(simd, less, more);
            let mut d = d;
            if let (false, Some(c)) = (COMMON, call.spec.clip_state) {
                let u = E::vabs(simd, E::vfma(simd, z, change, more));
                d = E::if_less(simd, (E::real(simd, c), u), zero, d);
            }
            let dz = E::vmul(simd, E::vmul(simd, d, change), self.slope(simd, 1, z));
            let dn = E::vmul(simd, E::vmul(simd, d, taken), self.slope(simd, 2, n));
            store(simd, dh, E::vmul(simd, d, kept));
            store(simd, self.saved(place, 1, &some), dz);
            store(simd, self.saved(place, 2, &some), dn);
            self.add(simd, 1, &some, dz);
            self.add(simd, 2, &some, dn);
            if AFTER {
                let q = load::<E, S>(simd, self.saved(place, 3, &some));
                let dr = E::vmul(simd, E::vmul(simd, dn, q), self.slope(simd, 0, r));
                let dn_r = E::vmul(simd, dn, r);
                store(simd, self.saved(place, 0, &some), dr);
                store(simd, self.saved(place, 3, &some), dn_r);
                self.add(simd, 0, &some, dr);
                self.add(simd, 3, &some, dn_r);
            }
        }
    }

    /// Adds `a·b` to the sums, for `k` columns of the saved rows from column `from` on.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // A product's operands and their places.
    fn product<S: Simd>(
        &self,
        simd: S,
        (sums, vectors): (&mut Tile<E, S, VECTORS>, usize),
        row: usize,
        s: usize,
        (from, k): (usize, usize),
        panel: Panel<E>,
        ahead: Ahead<'_, E>,
    ) {
        let saved = self.group.call.saved;
        let mut rows = [std::ptr::null(); ROWS];
        for (m, to) in rows.iter_mut().enumerate().take(sums.len()) {
            *to = saved
                .at(self.place(row + m, s))
                .wrapping_add(from)
                .cast_const();
        }
        debug_assert!(from + k <= saved.width());
        // SAFETY: a saved row is longer than `from + k`, all of this step's were written before
        // the threads last met, and nobody writes these columns before they meet again; the
        // caller's panel has `k` rows.
        unsafe { accumulate(simd, sums, vectors, &rows, k, panel, ahead) };
    }

    /// One tile: `dh += m ⊙ dg` for a panel of units.
    #[inline(always)]
    pub(super) fn through_product<S: Simd>(
        &self,
        simd: S,
        (row, size): (usize, usize),
        panel: usize,
        s: usize,
        (next, part): (Panel<E>, (usize, usize)),
    ) {
        let call = self.group.call;
        let (h, lanes) = (call.dims.h, E::lanes::<S>());
        let mut lines = [std::ptr::null(); MAX_LINES];
        let units = panel * VECTORS * lanes..((panel + 1) * VECTORS * lanes).min(h);
        let lines = match s == 0 || size < tile::ASKS_FROM {
            true => &[][..],
            false => self.lines_of_gates(row..row + size, s - 1, &units, lanes, &mut lines),
        };
        let k = if AFTER { 3 * h } else { 2 * h };
        let ahead = Ahead::new(next, k * VECTORS * lanes, part, lines);
        let weights = self.group.weights.gates.panel(panel);
        let mut sums = Tile::<E, S, VECTORS>::new(size, [E::real(simd, 0.0); VECTORS]);
        let vectors = (h.div_ceil(lanes) - panel * VECTORS).min(VECTORS);
        self.product(
            simd,
            (&mut sums, vectors),
            row,
            s,
            (0, 2 * h),
            weights,
            ahead,
        );
        if AFTER {
            let (weights, nothing) = (weights.skip(2 * h), Ahead::NOTHING);
            self.product(
                simd,
                (&mut sums, vectors),
                row,
                s,
                (3 * h, h),
                weights,
                nothing,
            );
        }
        for (m, &sums) in sums.iter().enumerate() {
            let n = self.group.rows.start + row + m;
            for (v, sum) in sums.into_iter().enumerate().take(vectors) {
                let start = (panel * VECTORS + v) * lanes;
                let units = start..(start + lanes).min(h);
                let mut sum = sum;
                if !AFTER {
                    // SAFETY: these units are this thread's own.
                    let ds = unsafe { self.group.ds.cells(row + m, units.clone()) };
                    sum = E::vadd(simd, sum, load::<E, S>(simd, ds));
                }
                if let Some(mask) = call.inputs.mask {
                    let mask = load::<E, S>(simd, &mask[n * h..][units.clone()]);
                    sum = E::vmul(simd, sum, mask);
                }
                // SAFETY: these units are this thread's own.
                let dh = unsafe { call.dh.cells_mut(n, units) };
                store(simd, dh, E::vadd(simd, load::<E, S>(simd, dh), sum));
            }
        }
    }

    /// Reset before the product: one tile of `ds = dn̄·w_hnᵀ`.
    #[inline(always)]
    pub(super) fn through_candidate<S: Simd>(
        &self,
        simd: S,
        (row, size): (usize, usize),
        panel: usize,
        s: usize,
    ) {
        let (h, lanes) = (self.group.call.dims.h, E::lanes::<S>());
        let Some(weights) = &self.group.weights.candidate else {
            return;
        };
        let mut sums = Tile::<E, S, VECTORS>::new(size, [E::real(simd, 0.0); VECTORS]);
        let vectors = (h.div_ceil(lanes) - panel * VECTORS).min(VECTORS);
        let panel_k = weights.panel(panel);
        let ahead = Ahead::NOTHING;
        self.product(
            simd,
            (&mut sums, vectors),
            row,
            s,
            (2 * h, h),
            panel_k,
            ahead,
        );
        for (m, &sums) in sums.iter().enumerate() {
            for (v, sum) in sums.into_iter().enumerate().take(vectors) {
                let start = (panel * VECTORS + v) * lanes;
                let units = start..(start + lanes).min(h);
                // SAFETY: these units are this thread's own.
                store(
                    simd,
                    unsafe { self.group.ds.cells_mut(row + m, units) },
                    sum,
                );
            }
        }
    }

    /// Reset before the product: one row of `ds` through `r ⊙ g`, for some units. r becomes `dr̄`,
    /// `ds` becomes `ds ⊙ r`.
    #[inline(always)]
    pub(super) fn through_reset<S: Simd>(
        &self,
        simd: S,
        row: usize,
        s: usize,
        units: &Range<usize>,
    ) {
        let call = self.group.call;
        let (h, lanes, place) = (call.dims.h, E::lanes::<S>(), self.place(row, s));
        let skipped = self.is_skipped(place);
        let n = self.group.rows.start + row;
        let previous = self.previous(row, s);
        let zero = E::real(simd, 0.0);
        for start in units.clone().step_by(lanes) {
            let some = start..(start + lanes).min(units.end);
            // SAFETY: these units of this row, of `ds`, `rg` and the sums, are this thread's own.
            let (ds, saved, sums) = unsafe {
                (
                    self.group.ds.cells_mut(row, some.clone()),
                    call.saved.cells_mut(place, some.clone()),
                    self.group.sums.cells_mut(0, some.clone()),
                )
            };
            let r = load::<E, S>(simd, saved);
            let mut g = match previous {
                [] => zero,
                previous => load::<E, S>(simd, &previous[some.clone()]),
            };
            if let Some(mask) = call.inputs.mask {
                g = E::vmul(simd, g, load::<E, S>(simd, &mask[n * h..][some.clone()]));
            }
            let d = load::<E, S>(simd, ds);
            let mut dr = E::vmul(simd, E::vmul(simd, d, g), self.slope(simd, 0, r));
            // The gates of a skipped row were zeroed: so are r, ds and r ⊙ g.
            if skipped {
                dr = zero;
            }
            store(simd, saved, dr);
            store(simd, ds, E::vmul(simd, d, r));
            store(simd, sums, E::vadd(simd, load::<E, S>(simd, sums), dr));
            if let Some(rg) = call.rg {
                // SAFETY: these units of this row are this thread's own.
                store(
                    simd,
                    unsafe { rg.cells_mut(place, some) },
                    E::vmul(simd, r, g),
                );
            }
        }
    }
}
