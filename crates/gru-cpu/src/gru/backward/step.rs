//! The walk back: gates, products, gradients of the states.
//!
//! Between two meetings a thread writes `dh`, `ds` and `d` of its own rows and units only, and of
//! `d` reads what was written before the threads last met.

use super::{
    super::{next, units},
    Pass,
    gate_of_d::{DQ, N, N_TIMES_R, R, R_AND_Z, Z},
};
use crate::{
    product::{Ahead, ROWS, Sums, WIDTH},
    simd::Lanes,
    spec::Update,
    threads::{Member, tiles},
    tuning::{ASKS_FROM, VECTORS_BACK},
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Lines that a tile asks for: four gates, the upstream gradient and the state, of all its vectors
/// and rows.
const MOST_LINES: usize = 6 * VECTORS_BACK * ROWS;

/// From the upstream gradients of a round's steps to those of their pre-activations.
pub(super) struct Walk<'a, 'b, 'c, E> {
    pub(super) pass: &'a Pass<'b, E>,
    pub(super) steps: Range<usize>,
    pub(super) member: &'a mut Member<'c>,
}

impl<E: Lanes> WithSimd for Walk<'_, '_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            pass,
            steps,
            member,
        } = self;
        let seat = pass.plan.seat(member.index, member.team);
        let panels = seat.share(pass.weights.gates.count());
        let units = units(
            panels.clone(),
            VECTORS_BACK * E::lanes::<S>(),
            pass.call.sizes.h,
        );
        let tiles = tiles(seat.rows.clone(), pass.machine.tile_rows);
        for s in steps.clone().rev() {
            let step = Step {
                pass,
                s,
                first_row: (s - steps.start) * pass.call.sizes.n,
            };
            for n in seat.rows.clone() {
                // SAFETY: these rows and units are this thread's own.
                unsafe {
                    if pass.gates.are_usual() {
                        step.through_gates::<S, true>(simd, n, &units)
                    } else {
                        step.through_gates::<S, false>(simd, n, &units)
                    }
                }
            }
            member.meet_some(&seat.peers);
            if !pass.after {
                for panel in panels.clone() {
                    for tile in tiles.clone() {
                        // SAFETY: these rows and units are this thread's own, and all units of dn̄
                        // were written before the threads last met.
                        unsafe { step.through_candidate(simd, tile, panel) };
                    }
                }
                for n in seat.rows.clone() {
                    // SAFETY: these rows and units are this thread's own.
                    unsafe {
                        if pass.gates.are_usual() {
                            step.through_reset::<S, true>(simd, n, &units)
                        } else {
                            step.through_reset::<S, false>(simd, n, &units)
                        }
                    }
                }
                member.meet_some(&seat.peers);
            }
            for panel in panels.clone() {
                let next = next(panel, &panels);
                for (at, tile) in tiles.clone().enumerate() {
                    // SAFETY: these rows and units are this thread's own, and all units of `d` were
                    // written before the threads last met.
                    unsafe { step.through_product(simd, tile, panel, next, (at, tiles.len())) };
                }
            }
        }
    }
}

/// One step back.
struct Step<'a, 'b, E> {
    pass: &'a Pass<'b, E>,
    s: usize,
    /// The row of the round for row 0 of the batch.
    first_row: usize,
}

impl<E: Lanes> Step<'_, '_, E> {
    /// The gates of a row of the batch at this step.
    #[inline(always)]
    fn gates(&self, n: usize) -> &[E] {
        let width = self.pass.call.saved_width();
        match (self.pass.saved, &self.pass.replay) {
            (Some(saved), _) => &saved[self.pass.call.row(n, self.s) * width..][..width],
            // SAFETY: the threads have met since the gates of this round were made.
            (None, Some(replay)) => unsafe { replay.gates.cells(self.first_row + n, 0..width) },
            (None, None) => unreachable!("gates are kept or made anew"),
        }
    }

    /// The lines that the gates of some rows at the step before this one are going to read.
    #[inline(always)]
    fn lines_of_next<'l>(
        &self,
        rows: Range<usize>,
        units: &Range<usize>,
        lanes: usize,
        lines: &'l mut [*const E; MOST_LINES],
    ) -> &'l [*const E] {
        let (pass, call, s) = (self.pass, &self.pass.call, self.s - 1);
        let (h, width) = (call.sizes.h, call.saved_width());
        let mut count = 0;
        let mut push = |line: *const E| {
            lines[count] = line;
            count += 1;
        };
        for n in rows {
            let place = call.row(n, s);
            let d_states = pass.d_states[place * h..].as_ptr();
            let previous = pass.previous(n, s).as_ptr();
            let saved = pass.saved.map(|saved| saved[place * width..].as_ptr());
            for unit in units.clone().step_by(lanes) {
                // A vector that lies across two lines shares the first with the one before it.
                let last = unit + lanes - 1;
                if let Some(saved) = saved {
                    for gate in 0..call.spec.saved_per_unit() {
                        push(saved.wrapping_add(gate * h + last));
                    }
                }
                push(d_states.wrapping_add(last));
                push(previous.wrapping_add(last));
            }
        }
        &lines[..count]
    }

    /// One row through the blend and the gates, for some units: `dh` becomes the part that the
    /// update gate hands on, and `d` the gradients of the pre-activations (but r where the reset
    /// gate acts before the product).
    ///
    /// # Safety
    /// Until the threads meet these units of the row are this thread's own.
    #[inline(always)]
    unsafe fn through_gates<S: Simd, const USUAL: bool>(
        &self,
        simd: S,
        n: usize,
        units: &Range<usize>,
    ) {
        let (pass, call) = (self.pass, &self.pass.call);
        let (h, lanes, place) = (call.sizes.h, E::lanes::<S>(), call.row(n, self.s));
        let is_skipped = call.is_skipped(place);
        let previous = pass.previous(n, self.s);
        let gates = self.gates(n);
        let slope = |gate: usize, y| pass.gates.slope::<S, USUAL>(simd, gate, y);
        let (zero, one) = (E::real(simd, 0.0), E::real(simd, 1.0));
        let distance = pass.d.gate_distance();
        for start in units.clone().step_by(lanes) {
            let some = start..(start + lanes).min(units.end);
            let d_at = pass.d.at(0, start, self.first_row + n);
            let write = |gate: usize, v: E::V<S>| {
                // SAFETY: a block is at least a vector wide, and the caller owns these units.
                unsafe { E::store(simd, d_at.add(gate * distance), v) };
            };
            // SAFETY: the caller owns these units.
            let dh = unsafe { pass.dh.cells_mut(n, some.clone()) };
            let d = E::vadd(
                simd,
                E::read(simd, dh),
                E::read(simd, &pass.d_states[place * h..][some.clone()]),
            );
            if is_skipped {
                // The state was carried on, so its gradient is too.
                for gate in 0..call.spec.saved_per_unit() {
                    write(gate, zero);
                }
                E::write(simd, dh, d);
                continue;
            }
            let d = E::without_subnormals(simd, d);
            let gate = |gate: usize| E::read(simd, &gates[gate * h..][some.clone()]);
            let [r, z, new] = [gate(0), gate(1), gate(2)];
            let before = E::read(simd, &previous[some.clone()]);
            let rest = E::vsub(simd, one, z);
            // The part of dh that goes to the candidate, and the part that goes to the state.
            let (less, more, taken, kept) = match call.spec.update {
                Update::Keeps => (before, new, rest, z),
                Update::Takes => (new, before, z, rest),
            };
            let change = E::vsub(simd, less, more);
            let (mut d, mut past) = (d, zero);
            if let Some(zoneout) = call.inputs.sequence.zoneout {
                let kept = E::read(simd, &zoneout[place * h..][some.clone()]);
                past = E::vmul(simd, d, kept);
                d = E::vmul(simd, d, E::vsub(simd, one, kept));
            }
            if let Some(c) = call.spec.clip_state {
                // As the forward pass makes it.
                let u = E::vfma(simd, z, less, E::vmul(simd, rest, more));
                d = E::if_less(simd, (E::real(simd, c), E::vabs(simd, u)), zero, d);
            }
            let dz = E::vmul(simd, E::vmul(simd, d, change), slope(1, z));
            let dn = E::vmul(simd, E::vmul(simd, d, taken), slope(2, new));
            // What is not taken hands its gradient past the step.
            E::write(simd, dh, E::vfma(simd, d, kept, past));
            write(Z, dz);
            write(N, dn);
            if pass.after {
                let dr = E::vmul(simd, E::vmul(simd, dn, gate(3)), slope(0, r));
                write(R, dr);
                write(N_TIMES_R, E::vmul(simd, dn, r));
            }
        }
    }

    /// One tile: `dh += m ⊙ dg` for a panel of units.
    ///
    /// # Safety
    /// All of `d` of these rows at this step is there, and until the threads meet these rows and
    /// units are this thread's own.
    #[inline(always)]
    unsafe fn through_product<S: Simd>(
        &self,
        simd: S,
        (row, size): (usize, usize),
        panel: usize,
        next: usize,
        part: (usize, usize),
    ) {
        let (pass, call, weights) = (self.pass, &self.pass.call, &self.pass.weights.gates);
        let (h, lanes) = (call.sizes.h, E::lanes::<S>());
        let all = units(panel..panel + 1, VECTORS_BACK * lanes, h);
        let vectors = all.len().div_ceil(lanes);
        let mut lines = [std::ptr::null(); MOST_LINES];
        let near = if self.s == 0 || size < ASKS_FROM {
            &[][..]
        } else {
            self.lines_of_next(row..row + size, &all, lanes, &mut lines)
        };
        let k = if pass.after { 3 * h } else { 2 * h };
        let ahead = Ahead::new(weights.panel(next), k * VECTORS_BACK * lanes, part, near);
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, size);
        let (at, panel) = (self.first_row + row, weights.panel(panel));
        let gates = if pass.after { DQ } else { R_AND_Z };
        // SAFETY: `d` is there, and the panel has H rows for each of these gates.
        unsafe { pass.add_product(simd, (&mut sums, vectors), at, gates, panel, ahead) };
        for (n, sums) in (row..).zip(sums.iter()) {
            // Its gradients are zero, but zero times a weight need not be.
            if call.is_skipped(call.row(n, self.s)) {
                continue;
            }
            for (start, &sum) in all.clone().step_by(lanes).zip(sums) {
                let units = start..(start + lanes).min(h);
                let mut sum = sum;
                if !pass.after {
                    // SAFETY: these units are this thread's own, and held for this line only.
                    let ds = unsafe { pass.ds.cells_mut(n, units.clone()) };
                    sum = E::vadd(simd, sum, E::read(simd, ds));
                }
                if let Some(mask) = call.inputs.sequence.recurrent_mask {
                    let mask = E::read(simd, &mask[n * h..][units.clone()]);
                    sum = E::vmul(simd, sum, mask);
                }
                // SAFETY: these units are this thread's own.
                let dh = unsafe { pass.dh.cells_mut(n, units) };
                let total = E::vadd(simd, E::read(simd, dh), sum);
                E::write(simd, dh, total);
            }
        }
    }

    /// Reset before the product: one tile of `ds = dn̄·w_hnᵀ`.
    ///
    /// # Safety
    /// All of dn̄ of these rows at this step is there, and until the threads meet these rows and
    /// units of `ds` are this thread's own.
    #[inline(always)]
    unsafe fn through_candidate<S: Simd>(
        &self,
        simd: S,
        (row, size): (usize, usize),
        panel: usize,
    ) {
        let (pass, h, lanes) = (self.pass, self.pass.call.sizes.h, E::lanes::<S>());
        let Some(weights) = &pass.weights.candidate else {
            return;
        };
        let all = units(panel..panel + 1, VECTORS_BACK * lanes, h);
        let vectors = all.len().div_ceil(lanes);
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, size);
        // SAFETY: dn̄ is there, and the panel has H rows.
        unsafe {
            let (to, at) = ((&mut sums, vectors), self.first_row + row);
            pass.add_product(simd, to, at, N..N + 1, weights.panel(panel), Ahead::NOTHING);
        }
        for (n, sums) in (row..).zip(sums.iter()) {
            for (start, &sum) in all.clone().step_by(lanes).zip(sums) {
                // SAFETY: these units are this thread's own.
                let ds = unsafe { pass.ds.cells_mut(n, start..(start + lanes).min(h)) };
                E::write(simd, ds, sum);
            }
        }
    }

    /// Reset before the product: one row of `ds` through `r ⊙ g`, for some units. `ds` becomes
    /// `ds ⊙ r`.
    ///
    /// # Safety
    /// Until the threads meet these units of the row are this thread's own.
    #[inline(always)]
    unsafe fn through_reset<S: Simd, const USUAL: bool>(
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
            // SAFETY: the caller owns these units.
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
                pass.gates.slope::<S, USUAL>(simd, 0, r),
            );
            // The gates of a skipped row have no meaning, and its state plays no part.
            if is_skipped {
                (r, g, dr) = (zero, zero, zero);
            }
            E::write(simd, ds, E::vmul(simd, d, r));
            // SAFETY: a block is at least a vector wide; the caller owns these units.
            unsafe { E::store(simd, pass.d.at(R, start, row), dr) };
            if pass.dw_hh.is_some() {
                let mut rg = [E::zero(); WIDTH];
                E::write(simd, &mut rg[..some.len()], E::vmul(simd, r, g));
                // SAFETY: the caller owns these units of this step, here too.
                unsafe { pass.sides.rg.write(row, start, &rg[..some.len()]) };
            }
        }
    }
}
