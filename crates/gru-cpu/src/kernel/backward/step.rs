//! One step back: gates, products, gradients of the states.

use super::{VECTORS, Work, gate_of_d};
use crate::{
    element::Element,
    kernel::{
        panels::Panel,
        tile::{self, Ahead, Sums as Tile, load, store},
    },
    spec::Update,
};
use pulp::Simd;
use std::ops::Range;

/// Lines that a tile asks for: four gates, the upstream gradient and the state, of three vectors of
/// eight rows.
const MAX_LINES: usize = 6 * VECTORS * 8;

impl<E: Element> Work<'_, E> {
    /// Where a row of the batch stands in memory at step `s`.
    #[inline(always)]
    pub(super) fn place(&self, n: usize, s: usize) -> usize {
        self.call.place.row(n, self.call.time.time(s))
    }

    /// The state of a row of the batch before step `s`.
    #[inline(always)]
    pub(super) fn previous(&self, n: usize, s: usize) -> &[E] {
        let (call, h) = (self.call, self.call.dims.h);
        match (s, call.inputs.h0) {
            (0, Some(h0)) => &h0[n * h..][..h],
            (0, None) => self.zeros,
            _ => &call.states[self.place(n, s - 1) * h..][..h],
        }
    }

    #[inline(always)]
    pub(super) fn is_skipped(&self, place: usize) -> bool {
        let valid = self.call.inputs.valid;
        valid.is_some_and(|valid| valid[place] == E::zero())
    }
}

/// One step back.
pub(super) struct Step<'a, 'b, E, const COMMON: bool, const AFTER: bool> {
    pub(super) work: &'a Work<'b, E>,
    /// First step of the round.
    pub(super) first: usize,
}

impl<E: Element, const COMMON: bool, const AFTER: bool> Step<'_, '_, E, COMMON, AFTER> {
    /// The row of a round for a row of the batch at step `s`.
    #[inline(always)]
    fn row(&self, n: usize, s: usize) -> usize {
        (s - self.first) * self.work.call.dims.n + n
    }

    /// The gates of a row of the batch at step `s`.
    #[inline(always)]
    fn gates(&self, n: usize, s: usize) -> &[E] {
        let width = self.work.call.spec.saved_per_unit() * self.work.call.dims.h;
        match (self.work.call.saved, &self.work.replay) {
            (Some(saved), _) => &saved[self.work.place(n, s) * width..][..width],
            // SAFETY: the threads have met since the gates of this round were made.
            (None, Some(replay)) => unsafe { replay.made.cells(self.row(n, s), 0..width) },
            (None, None) => unreachable!("gates are kept or made anew"),
        }
    }

    /// Slopes of the three gates from their values.
    #[inline(always)]
    fn slope<S: Simd>(&self, simd: S, gate: usize, y: E::V<S>) -> E::V<S> {
        if !COMMON {
            return self.work.gates[gate].slope(simd, y);
        }
        let one = E::real(simd, 1.0);
        match gate {
            2 => E::vsub(simd, one, E::vmul(simd, y, y)),
            _ => E::vmul(simd, y, E::vsub(simd, one, y)),
        }
    }

    /// The lines that the gates of some rows at step `s` are going to read.
    #[inline(always)]
    fn lines_of_gates<'l>(
        &self,
        rows: Range<usize>,
        s: usize,
        units: &Range<usize>,
        lanes: usize,
        lines: &'l mut [*const E; MAX_LINES],
    ) -> &'l [*const E] {
        let (call, h) = (self.work.call, self.work.call.dims.h);
        let mut count = 0;
        for n in rows {
            let place = self.work.place(n, s);
            let d_states = call.d_states[place * h..].as_ptr();
            let previous = self.work.previous(n, s).as_ptr();
            let saved = call.saved.map(|_| self.gates(n, s).as_ptr());
            for unit in units.clone().step_by(lanes) {
                // A vector that lies across two lines shares the first with the one before it.
                let last = unit + lanes - 1;
                for gate in 0..saved.map_or(0, |_| call.spec.saved_per_unit()) {
                    lines[count + gate] =
                        saved.map_or(d_states, |s| s).wrapping_add(gate * h + last);
                }
                count += saved.map_or(0, |_| call.spec.saved_per_unit());
                lines[count] = d_states.wrapping_add(last);
                lines[count + 1] = previous.wrapping_add(last);
                count += 2;
            }
        }
        &lines[..count]
    }

    /// One row through the blend and the gates, for some units: `dh` becomes the part that the
    /// update gate hands on, and `d` the gradients of the pre-activations (but r where the reset
    /// gate acts before the product).
    #[inline(always)]
    pub(super) fn through_gates<S: Simd>(&self, simd: S, n: usize, s: usize, units: &Range<usize>) {
        use gate_of_d::{N, N_TIMES_R, R, Z};
        let call = self.work.call;
        let (h, lanes, place) = (call.dims.h, E::lanes::<S>(), self.work.place(n, s));
        let skipped = self.work.is_skipped(place);
        let previous = self.work.previous(n, s);
        let gates = self.gates(n, s);
        let (zero, one) = (E::real(simd, 0.0), E::real(simd, 1.0));
        let distance = self.work.d.gate_distance();
        for start in units.clone().step_by(lanes) {
            let some = start..(start + lanes).min(units.end);
            let d_at = self.work.d.at(R, start, self.row(n, s));
            let write = |gate: usize, v: E::V<S>| {
                // SAFETY: a block is at least a vector wide, and these units of this row are this
                // thread's own until the threads meet.
                unsafe { E::store(simd, d_at.add(gate * distance), v) };
            };
            // SAFETY: these units are this thread's own.
            let dh = unsafe { call.dh.cells_mut(n, some.clone()) };
            let d = E::vadd(
                simd,
                load::<E, S>(simd, dh),
                load::<E, S>(simd, &call.d_states[place * h..][some.clone()]),
            );
            if skipped {
                // The state was carried on, so its gradient is too.
                for gate in 0..call.spec.saved_per_unit() {
                    write(gate, zero);
                }
                store(simd, dh, d);
                continue;
            }
            let gate = |gate: usize| load::<E, S>(simd, &gates[gate * h..][some.clone()]);
            let [r, z, new] = [gate(0), gate(1), gate(2)];
            let before = load::<E, S>(simd, &previous[some.clone()]);
            let (less, more) = match call.spec.update {
                Update::Keeps => (before, new),
                Update::Takes => (new, before),
            };
            // The part of dh that goes to the candidate, and the part that goes to the state.
            let rest = E::vsub(simd, one, z);
            let (taken, kept) = match call.spec.update {
                Update::Keeps => (rest, z),
                Update::Takes => (z, rest),
            };
            let change = E::vsub(simd, less, more);
            let (mut d, mut past) = (d, zero);
            if let (false, Some(take)) = (COMMON, call.inputs.take) {
                let take = load::<E, S>(simd, &take[place * h..][some.clone()]);
                past = E::vmul(simd, d, E::vsub(simd, one, take));
                d = E::vmul(simd, d, take);
            }
            if let (false, Some(c)) = (COMMON, call.spec.clip_state) {
                // As the forward pass makes it.
                let u = E::vfma(simd, z, less, E::vmul(simd, rest, more));
                d = E::if_less(simd, (E::real(simd, c), E::vabs(simd, u)), zero, d);
            }
            let dz = E::vmul(simd, E::vmul(simd, d, change), self.slope(simd, 1, z));
            let dn = E::vmul(simd, E::vmul(simd, d, taken), self.slope(simd, 2, new));
            // What is not taken hands its gradient past the step.
            store(simd, dh, E::vfma(simd, d, kept, past));
            write(Z, dz);
            write(N, dn);
            if AFTER {
                let q = gate(3);
                write(
                    R,
                    E::vmul(simd, E::vmul(simd, dn, q), self.slope(simd, 0, r)),
                );
                write(N_TIMES_R, E::vmul(simd, dn, r));
            }
        }
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
        use gate_of_d::{N_TIMES_R, R_AND_Z};
        let call = self.work.call;
        let (h, lanes) = (call.dims.h, E::lanes::<S>());
        let mut lines = [std::ptr::null(); MAX_LINES];
        let units = panel * VECTORS * lanes..((panel + 1) * VECTORS * lanes).min(h);
        let lines = match s == 0 || size < tile::ASKS_FROM {
            true => &[][..],
            false => self.lines_of_gates(row..row + size, s - 1, &units, lanes, &mut lines),
        };
        let k = if AFTER { 3 * h } else { 2 * h };
        let ahead = Ahead::new(next, k * VECTORS * lanes, part, lines);
        let weights = self.work.weights.gates.panel(panel);
        let mut sums = Tile::<E, S, VECTORS>::new(size, [E::real(simd, 0.0); VECTORS]);
        let vectors = (h.div_ceil(lanes) - panel * VECTORS).min(VECTORS);
        let at = self.row(row, s);
        let into = (&mut sums, vectors);
        self.work.product(simd, into, at, R_AND_Z, weights, ahead);
        if AFTER {
            let (into, weights) = ((&mut sums, vectors), weights.skip(2 * h));
            let n = N_TIMES_R..N_TIMES_R + 1;
            self.work
                .product(simd, into, at, n, weights, Ahead::NOTHING);
        }
        for (m, &sums) in sums.iter().enumerate() {
            let n = row + m;
            // Its gradients are zero, but zero times a weight need not be.
            if self.work.is_skipped(self.work.place(n, s)) {
                continue;
            }
            for (v, sum) in sums.into_iter().enumerate().take(vectors) {
                let start = (panel * VECTORS + v) * lanes;
                let units = start..(start + lanes).min(h);
                let mut sum = sum;
                if !AFTER {
                    // SAFETY: these units are this thread's own.
                    let ds = unsafe { self.work.ds.cells(n, units.clone()) };
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
        let (h, lanes) = (self.work.call.dims.h, E::lanes::<S>());
        let Some(weights) = &self.work.weights.candidate else {
            return;
        };
        let mut sums = Tile::<E, S, VECTORS>::new(size, [E::real(simd, 0.0); VECTORS]);
        let vectors = (h.div_ceil(lanes) - panel * VECTORS).min(VECTORS);
        let (at, n) = (self.row(row, s), gate_of_d::N..gate_of_d::N + 1);
        let (into, weights) = ((&mut sums, vectors), weights.panel(panel));
        self.work
            .product(simd, into, at, n, weights, Ahead::NOTHING);
        for (m, &sums) in sums.iter().enumerate() {
            for (v, sum) in sums.into_iter().enumerate().take(vectors) {
                let start = (panel * VECTORS + v) * lanes;
                let units = start..(start + lanes).min(h);
                // SAFETY: these units are this thread's own.
                let ds = unsafe { self.work.ds.cells_mut(row + m, units) };
                store(simd, ds, sum);
            }
        }
    }

    /// Reset before the product: one row of `ds` through `r ⊙ g`, for some units. `ds` becomes
    /// `ds ⊙ r`.
    #[inline(always)]
    pub(super) fn through_reset<S: Simd>(&self, simd: S, n: usize, s: usize, units: &Range<usize>) {
        let (work, call) = (self.work, self.work.call);
        let (h, lanes, row) = (call.dims.h, E::lanes::<S>(), self.row(n, s));
        let skipped = work.is_skipped(work.place(n, s));
        let previous = work.previous(n, s);
        let gates = self.gates(n, s);
        let zero = E::real(simd, 0.0);
        for start in units.clone().step_by(lanes) {
            let some = start..(start + lanes).min(units.end);
            // SAFETY: these units of this row are this thread's own.
            let ds = unsafe { work.ds.cells_mut(n, some.clone()) };
            let mut r = load::<E, S>(simd, &gates[some.clone()]);
            let mut g = load::<E, S>(simd, &previous[some.clone()]);
            if let Some(mask) = call.inputs.mask {
                g = E::vmul(simd, g, load::<E, S>(simd, &mask[n * h..][some.clone()]));
            }
            let d = load::<E, S>(simd, ds);
            let mut dr = E::vmul(simd, E::vmul(simd, d, g), self.slope(simd, 0, r));
            // The gates of a skipped row have no meaning, and its state plays no part.
            if skipped {
                (r, g, dr) = (zero, zero, zero);
            }
            store(simd, ds, E::vmul(simd, d, r));
            // SAFETY: a block is at least a vector wide; these units of this row are this thread's
            // own.
            unsafe { E::store(simd, work.d.at(gate_of_d::R, start, row), dr) };
            if call.dw_hh.is_some() {
                let mut rg = [E::zero(); super::super::blocks::WIDTH];
                store(simd, &mut rg[..some.len()], E::vmul(simd, r, g));
                // SAFETY: as above.
                unsafe { work.sides.rg.write::<S>(row, start, &rg[..some.len()]) };
            }
        }
    }
}
