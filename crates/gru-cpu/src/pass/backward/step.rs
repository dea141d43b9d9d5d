//! The steps of a round, from last to first: gates, products, state gradients.
//!
//! Between two barriers a thread writes `dh`, `ds` and `d` of its own rows and units only, and reads the parts
//! of `d` that were written before the first barrier.

use super::{
    super::{next, units},
    Pass, RoundRows,
    gate_of_d::{N, N_TIMES_R, R, Z},
};
use crate::{
    product::{Sums, prefetch_to_read},
    simd::{
        Lanes,
        way::{CALLED, DEFAULT},
    },
    spec::Update,
    threads::{Member, Tile, acting, tiles},
    tuning::{BARRIER_BACK_FROM, ROWS_AHEAD, VECTORS_BACK},
};
use core::ops::Range;
use pulp::Simd;

impl<E: Lanes> Pass<'_, E> {
    /// Computes the pre-activation gradients of a round's steps.
    #[inline(always)]
    pub(super) fn steps_back<S: Simd>(
        &self,
        simd: S,
        round: &RoundRows<'_>,
        steps: Range<usize>,
        member: &mut Member<'_>,
    ) {
        let pass = self;
        let (n, h) = (round.at(steps.start), pass.call.sizes.h);
        let plan = pass.plan.for_rows(n);
        let per_group = acting(n.div_ceil(plan.groups), h, BARRIER_BACK_FROM);
        let acting = member.team.min(plan.groups * per_group);
        let share = plan.share(member.index, acting);
        let panels = share.of_units(pass.weights.state.count(E::lanes::<S>()));
        let units = units(panels.clone(), VECTORS_BACK * E::lanes::<S>(), h);
        let (mut rows, full) = (share.rows.clone(), pass.machine.tile_rows);
        let mut all = tiles(rows.clone(), full);
        for s in steps.clone().rev() {
            let step = Step {
                pass,
                s,
                first_row: round.before(s),
            };
            if let Some(live) = round.live {
                let end = |row: usize| row.min(live.live(s));
                rows = end(share.rows.start)..end(share.rows.end);
                all = tiles(rows.clone(), full);
            }
            for n in rows.clone() {
                // SAFETY: these rows and units belong to this thread.
                unsafe {
                    if pass.gates.are_default() {
                        step.through_gates::<S, DEFAULT>(simd, n, &rows, &units)
                    } else {
                        step.through_gates::<S, CALLED>(simd, n, &rows, &units)
                    }
                }
            }
            member.wait_for(&share.peers);
            if !pass.after {
                for panel in panels.clone() {
                    for tile in all.clone() {
                        // SAFETY: these rows and units belong to this thread, and all units of dn̄ were
                        // written before the last barrier.
                        unsafe { step.through_candidate(simd, tile, panel) };
                    }
                }
                for n in rows.clone() {
                    // SAFETY: these rows and units belong to this thread.
                    unsafe {
                        if pass.gates.are_default() {
                            step.through_reset::<S, DEFAULT>(simd, n, &units)
                        } else {
                            step.through_reset::<S, CALLED>(simd, n, &units)
                        }
                    }
                }
                member.wait_for(&share.peers);
            }
            let multiplied = if s > 0 || pass.needs_first {
                panels.clone()
            } else {
                0..0
            };
            for panel in multiplied {
                let next = next(panel, &panels);
                for (at, tile) in all.clone().enumerate() {
                    // SAFETY: these rows and units belong to this thread, and all units of `d` were written
                    // before the last barrier.
                    unsafe { step.through_product(simd, tile, panel, next, (at, all.len())) };
                }
            }
            if pass.call.inputs.sequence.starts.is_some() {
                for n in rows.clone() {
                    // SAFETY: these rows and units belong to this thread.
                    unsafe { step.through_start(simd, n, &units) };
                }
            }
        }
    }
}

/// Where a row's gates, its upstream gradient and the state before it are.
struct RowAhead<E> {
    d_states: *const E,
    previous: *const E,
    /// The first gate, and the number of gates.
    gates: (*const E, usize),
}

impl<E> RowAhead<E> {
    /// Prefetches the cache lines that begin in a vector of units from `start` on.
    #[inline(always)]
    fn prefetch(&self, start: usize, lanes: usize, h: usize) {
        if start % (64 / size_of::<E>()) >= lanes {
            return;
        }
        let (gates, count) = self.gates;
        for gate in 0..count {
            prefetch_to_read(gates.wrapping_add(gate * h + start));
        }
        prefetch_to_read(self.d_states.wrapping_add(start));
        prefetch_to_read(self.previous.wrapping_add(start));
    }
}

/// One step of the backward pass.
pub(super) struct Step<'a, 'b, E> {
    pub(super) pass: &'a Pass<'b, E>,
    pub(super) s: usize,
    /// The row of the round for row 0 of the batch.
    pub(super) first_row: usize,
}

impl<E: Lanes> Step<'_, '_, E> {
    /// The gates of a row of the batch at this step.
    #[inline(always)]
    pub(super) fn gates(&self, n: usize) -> &[E] {
        let width = self.pass.call.saved_width();
        match (self.pass.saved, &self.pass.recompute) {
            (Some(saved), _) => &saved[self.pass.call.row(n, self.s) * width..][..width],
            // SAFETY: the gates of this round were recomputed before the last barrier.
            (None, Some(recompute)) => unsafe {
                recompute.gates.cells(self.first_row + n, 0..width)
            },
            (None, None) => unreachable!("gates are kept or recomputed"),
        }
    }

    /// The row that [`through_gates`](Self::through_gates) computes [`ROWS_AHEAD`] rows after `n`: a row of this step,
    /// or of the step before it.
    #[inline(always)]
    fn row_ahead(&self, n: usize, rows: &Range<usize>) -> Option<RowAhead<E>> {
        let (pass, call) = (self.pass, &self.pass.call);
        let (n, s) = if n + ROWS_AHEAD < rows.end {
            (n + ROWS_AHEAD, self.s)
        } else if rows.len() >= ROWS_AHEAD && self.s > 0 {
            (n + ROWS_AHEAD - rows.len(), self.s - 1)
        } else {
            return None;
        };
        let place = call.row(n, s);
        let (h, width) = (call.sizes.h, call.saved_width());
        Some(RowAhead {
            d_states: pass.d_states[place * h..].as_ptr(),
            previous: pass.previous(n, s).as_ptr(),
            gates: match pass.saved {
                Some(saved) => (saved[place * width..].as_ptr(), call.spec.saved_per_unit()),
                None => (core::ptr::null(), 0),
            },
        })
    }

    /// One row through the blend and the gates, for some units. `dh` becomes the part that the update gate
    /// passes to the previous state, and `d` the pre-activation gradients (without r where the reset gate acts
    /// before the product).
    ///
    /// `rows` are all rows of this thread.
    ///
    /// # Safety
    /// These units of the row belong to this thread until the next barrier.
    #[inline(always)]
    unsafe fn through_gates<S: Simd, const WAY: u8>(
        &self,
        simd: S,
        n: usize,
        rows: &Range<usize>,
        units: &Range<usize>,
    ) {
        let (pass, call) = (self.pass, &self.pass.call);
        let (h, lanes, place) = (call.sizes.h, E::lanes::<S>(), call.row(n, self.s));
        let is_skipped = call.is_skipped(place);
        let previous = pass.previous(n, self.s);
        let gates = self.gates(n);
        let slope = |gate: usize, y| pass.gates.slope::<S, WAY>(simd, gate, y);
        let (zero, one) = (E::real(simd, 0.0), E::real(simd, 1.0));
        let distance = pass.d.gate_distance();
        let ahead = self.row_ahead(n, rows);
        for start in units.clone().step_by(lanes) {
            if let Some(ahead) = &ahead {
                ahead.prefetch(start, lanes, h);
            }
            let some = start..(start + lanes).min(units.end);
            let d_at = pass.d.at(0, start, self.first_row + n);
            let write = |gate: usize, v: E::V<S>| {
                // SAFETY: a block is at least a vector wide, and these units belong to this thread.
                unsafe { E::store(simd, d_at.add(gate * distance), v) };
            };
            // SAFETY: these units belong to this thread.
            let dh = unsafe { pass.dh.cells_mut(n, some.clone()) };
            let d = E::vadd(
                simd,
                E::read(simd, dh),
                E::read(simd, &pass.d_states[place * h..][some.clone()]),
            );
            if is_skipped {
                // The step kept the state, so the gradient is kept too.
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
            // `taken` of dh goes to the candidate, and `kept` to the previous state.
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
                // The new state before the clip, with 1 − z from the saved z.
                let u = E::vfma(simd, z, less, E::vmul(simd, rest, more));
                d = E::if_less(simd, (E::real(simd, c), E::vabs(simd, u)), zero, d);
            }
            let dz = E::vmul(simd, E::vmul(simd, d, change), slope(1, z));
            let dn = E::vmul(simd, E::vmul(simd, d, taken), slope(2, new));
            // The share that zoneout keeps passes its gradient to the previous state.
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

    /// One row through its start, for some units: the gradient of a row that starts here goes to the start state.
    ///
    /// # Safety
    /// These units of the row belong to this thread until the next barrier.
    #[inline(always)]
    unsafe fn through_start<S: Simd>(&self, simd: S, n: usize, units: &Range<usize>) {
        if !self.pass.call.starts(n, self.s) {
            return;
        }
        for start in units.clone().step_by(E::lanes::<S>()) {
            let some = start..(start + E::lanes::<S>()).min(units.end);
            // SAFETY: these units belong to this thread.
            let dh = unsafe { self.pass.dh.cells_mut(n, some.clone()) };
            if let Some(d_start) = self.pass.d_start {
                // SAFETY: the same units of the start state's gradient belong to this thread too.
                let d_start = unsafe { d_start.cells_mut(n, some) };
                let sum = E::vadd(simd, E::read(simd, d_start), E::read(simd, dh));
                E::write(simd, d_start, sum);
            }
            dh.fill(E::zero());
        }
    }

    /// One tile: `dh += m ⊙ dg` for a panel of units.
    ///
    /// # Safety
    /// `d` of these rows at this step is complete, and these rows and units belong to this thread until the
    /// next barrier.
    #[inline(always)]
    unsafe fn through_product<S: Simd>(
        &self,
        simd: S,
        tile: Tile,
        panel: usize,
        next: usize,
        part: (usize, usize),
    ) {
        let (pass, call, weights) = (self.pass, &self.pass.call, &self.pass.weights.state);
        let (h, lanes) = (call.sizes.h, E::lanes::<S>());
        let all = weights.of_panel(panel, lanes);
        let prefetch = weights.prefetch(next, part, lanes);
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, tile.rows);
        let rows = (&pass.d, self.first_row + tile.first);
        // SAFETY: `d` is complete.
        unsafe { weights.multiply(simd, rows, panel, prefetch, &mut sums) };
        for (n, sums) in tile.range().zip(sums.iter()) {
            // The gradients are zero, but zero times a weight may be NaN.
            if call.is_skipped(call.row(n, self.s)) {
                continue;
            }
            for (start, &sum) in all.clone().step_by(lanes).zip(sums) {
                let units = start..(start + lanes).min(h);
                let mut sum = sum;
                if !pass.after {
                    // SAFETY: these units belong to this thread, which holds the slice for this line only.
                    let ds = unsafe { pass.ds.cells_mut(n, units.clone()) };
                    sum = E::vadd(simd, sum, E::read(simd, ds));
                }
                if let Some(mask) = call.inputs.sequence.recurrent_mask {
                    let mask = E::read(simd, &mask[n * h..][units.clone()]);
                    sum = E::vmul(simd, sum, mask);
                }
                // SAFETY: these units belong to this thread.
                let dh = unsafe { pass.dh.cells_mut(n, units) };
                let total = E::vadd(simd, E::read(simd, dh), sum);
                E::write(simd, dh, total);
            }
        }
    }
}
