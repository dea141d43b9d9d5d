//! The steps of a round: products, gates, new states.
//!
//! Between two barriers a thread reads what was written before the first one. It writes only the units of
//! its own panels: in the states and gates of this step, in `p` and `rg`, and in `g` of the next step.

use super::{
    super::{
        next,
        project::{InputProduct, RoundRows},
        tile::{GateRows, Part, WriteLines},
        weights::Weights,
    },
    Group, Pass,
};
use crate::{
    product::{Panels, Prefetch, Strided, Sums},
    simd::{Gates, Lanes, clip},
    spec::Update,
    threads::{Member, Tile, tiles},
    tuning::{PANELS_OF_A_ROW, PREFETCH_FROM},
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// The steps of a round, for the panels of one thread.
pub(super) struct Steps<'a, 'b, 'c, E> {
    pub(super) group: &'a Group<'b, E>,
    pub(super) round: &'a RoundRows<'b>,
    pub(super) steps: Range<usize>,
    pub(super) panels: Range<usize>,
    pub(super) member: &'a mut Member<'c>,
}

impl<E: Lanes> WithSimd for Steps<'_, '_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.group.after && self.round.at(self.steps.start) == 1 {
            self.of_row(simd)
        } else {
            self.of_tiles(simd)
        }
    }
}

impl<E: Lanes> Steps<'_, '_, '_, E> {
    /// The steps of a single row, the reset gate acting after the product.
    #[inline(always)]
    fn of_row<S: Simd>(self, simd: S) {
        let Self {
            group,
            round,
            steps,
            panels,
            member,
        } = self;
        for s in steps.clone() {
            let step = Step::new(group, round, s);
            for first in panels.clone().step_by(PANELS_OF_A_ROW) {
                let some = first..panels.end.min(first + PANELS_OF_A_ROW);
                // SAFETY: all previous states were written before the last barrier, and these panels
                // belong to this thread.
                unsafe { step.row_after(simd, some, &panels) };
            }
            if s + 1 < steps.end {
                member.wait();
            }
        }
    }

    /// The steps of any other group.
    #[inline(always)]
    fn of_tiles<S: Simd>(self, simd: S) {
        let Self {
            group,
            round,
            steps,
            panels,
            member,
        } = self;
        let candidate = group.pass.weights.candidate.as_ref();
        let candidates = member.share(candidate.map_or(0, Panels::count));
        let (mut all, mut count) = (group.tiles.clone(), group.tiles.len());
        for s in steps.clone() {
            let step = Step::new(group, round, s);
            if let Some(live) = round.live {
                all = tiles(0..live.live(s), group.pass.machine.tile_rows);
                count = all.len();
            }
            for panel in panels.clone() {
                for (index, tile) in all.clone().enumerate() {
                    let part = Part {
                        tile,
                        panel,
                        next: next(panel, &panels),
                        index,
                        count,
                    };
                    // SAFETY: all previous states were written before the last barrier, and this panel
                    // belongs to this thread.
                    unsafe {
                        if group.after {
                            step.tile_after(simd, part)
                        } else {
                            step.tile_before(simd, part)
                        }
                    }
                }
            }
            if !group.after {
                member.wait();
                for panel in candidates.clone() {
                    for tile in all.clone() {
                        // SAFETY: `rg` and the gates of this step were written before the last barrier,
                        // and this panel of the candidate belongs to this thread.
                        unsafe { step.tile_of_candidate(simd, tile, panel) };
                    }
                }
            }
            if s + 1 < steps.end {
                member.wait();
            }
        }
    }
}

/// One step of a group. Its rows are counted from the group's first.
struct Step<'a, 'b, E> {
    group: &'a Group<'b, E>,
    /// The step, counted from the first of the sequence.
    s: usize,
    /// The row of the round for the group's first row.
    first_row: usize,
    /// The previous state, and the same with the mask.
    previous: Strided<'b, E>,
    source: Strided<'b, E>,
    /// The same pair for a row that starts here, if the call has starts.
    start: Option<[Strided<'b, E>; 2]>,
    /// What this step writes: the state, the same with the mask for the next step, and the gates.
    states: Strided<'b, E>,
    next_source: Option<Strided<'b, E>>,
    saved: Option<Strided<'b, E>>,
}

impl<'a, 'b, E: Lanes> Step<'a, 'b, E> {
    #[inline(always)]
    fn new(group: &'a Group<'b, E>, round: &RoundRows<'_>, s: usize) -> Self {
        let Pass { call, states, .. } = group.pass;
        let (n, count, h) = (group.rows.start, group.rows.len(), call.sizes.h);
        let at_step = |rows, s| call.at_step(rows, group.rows.clone(), s);
        let previous = match (s, call.inputs.sequence.h0) {
            (0, Some(h0)) => Strided::reading(&h0[n * h..][..count * h], h, count),
            // Zeros are multiplied like any other state, so that a weight that is not finite shows at
            // the first step.
            (0, None) => Strided::reading(group.pass.zeros, h, count),
            _ => at_step(states, s - 1),
        };
        let sequence = &call.inputs.sequence;
        let masked_slot = |slot| {
            let mask = sequence.recurrent_mask;
            mask.map(|_| Strided::of(&group.g, slot * count, 1, count))
        };
        let masked = |s| masked_slot(s % 2);
        let start = sequence.starts.map(|_| {
            let state = match sequence.start_state {
                Some(state) => Strided::reading(&state[n * h..][..count * h], h, count),
                None => Strided::reading(group.pass.zeros, h, count),
            };
            [state, masked_slot(2).unwrap_or(state)]
        });
        Self {
            group,
            s,
            first_row: round.before(s),
            previous,
            source: masked(s).unwrap_or(previous),
            start,
            states: at_step(states, s),
            next_source: masked(s + 1),
            saved: group.pass.saved.as_ref().map(|saved| at_step(saved, s)),
        }
    }

    /// Whether a row starts here.
    #[inline(always)]
    fn starts(&self, row: usize) -> bool {
        let n = self.group.rows.start + row;
        self.group.pass.call.starts(n, self.s)
    }

    /// Some panels of the only row. All products come before the gates: a gate is a chain of dependent
    /// operations, and the processor overlaps the chains of several panels.
    ///
    /// # Safety
    /// As for [`GateRows::tile_after`].
    #[inline(always)]
    unsafe fn row_after<S: Simd>(&self, simd: S, some: Range<usize>, all: &Range<usize>) {
        let tile = Tile { first: 0, rows: 1 };
        // Not a constant: the compiler would set all of its bytes to zero.
        let mut sums: [_; PANELS_OF_A_ROW] = std::array::from_fn(|_| Sums::<E, S>::new());
        // SAFETY: the caller keeps the same promises.
        unsafe {
            for (panel, sums) in some.clone().zip(&mut sums) {
                let part = Part {
                    tile,
                    panel,
                    next: next(panel, all),
                    index: 0,
                    count: 1,
                };
                self.sums_after(simd, sums, part);
            }
            for (panel, sums) in some.zip(&sums) {
                self.gates_after(simd, sums, tile, panel);
            }
        }
    }

    /// A new state with the state clip and zoneout. At a skipped step it is the previous state, bit by
    /// bit.
    #[inline(always)]
    fn restrict<S: Simd>(
        &self,
        simd: S,
        mut new: E::V<S>,
        old: E::V<S>,
        row: usize,
        units: &Range<usize>,
    ) -> E::V<S> {
        let call = &self.group.pass.call;
        let place = call.row(self.group.rows.start + row, self.s);
        if let Some(c) = call.spec.clip_state {
            new = clip::<E, S>(simd, new, c);
        }
        if let Some(zoneout) = call.inputs.sequence.zoneout {
            let kept = E::read(simd, &zoneout[place * call.sizes.h..][units.clone()]);
            let taken = E::vsub(simd, E::real(simd, 1.0), kept);
            new = E::vfma(simd, new, taken, E::vmul(simd, old, kept));
        }
        if call.is_skipped(place) {
            old
        } else {
            E::without_subnormals(simd, new)
        }
    }
}

// SAFETY: `g` and `rg` are rows of H elements, which `Strided` and `Rows` checked.
unsafe impl<E: Lanes> GateRows<E> for Step<'_, '_, E> {
    #[inline(always)]
    fn weights(&self) -> &Weights<'_, E> {
        self.group.pass.weights
    }

    #[inline(always)]
    fn gates(&self) -> &Gates<E> {
        &self.group.pass.gates
    }

    #[inline(always)]
    fn hidden(&self) -> usize {
        self.group.pass.call.sizes.h
    }

    #[inline(always)]
    fn p(&self) -> (InputProduct<'_, E>, usize) {
        (self.group.p, self.first_row)
    }

    #[inline(always)]
    fn g(&self, row: usize) -> *const E {
        match &self.start {
            Some([_, source]) if self.starts(row) => source.at(row),
            _ => self.source.at(row),
        }
    }

    #[inline(always)]
    fn rg(&self, row: usize) -> *mut E {
        self.group.rg.at(row)
    }

    /// The weights of the next panel, and the lines that the tile writes: without the prefetch each store
    /// waits for its line.
    #[inline(always)]
    fn prefetch<'l>(
        &self,
        part: Part,
        vectors: usize,
        lines: &'l mut WriteLines<E>,
    ) -> Prefetch<'l, E> {
        let (h, lanes) = (self.hidden(), self.group.pass.machine.lanes);
        if part.tile.rows >= PREFETCH_FROM {
            let unit = (part.panel + 1) * lanes - 1;
            for row in part.tile.range() {
                lines.push(self.states.at(row).wrapping_add(unit));
                if let Some(saved) = self.saved {
                    for gate in 0..self.group.pass.call.spec.saved_per_unit() {
                        lines.push(saved.at(row).wrapping_add(gate * h + unit));
                    }
                }
            }
        }
        let panel = self.weights().state.panel(part.next);
        Prefetch::new(panel, h * vectors * lanes, (part.index, part.count), lines)
    }

    /// The blend is two products, and not `n + z ⊙ (h₋₁ − n)`, which rounds a state that z = 1 keeps.
    #[inline(always)]
    unsafe fn new_state<S: Simd>(
        &self,
        simd: S,
        [z, rest]: [E::V<S>; 2],
        n: E::V<S>,
        row: usize,
        units: &Range<usize>,
    ) {
        let call = &self.group.pass.call;
        let previous = match &self.start {
            Some([previous, _]) if self.starts(row) => previous,
            _ => &self.previous,
        };
        // SAFETY: the previous state is complete, and no thread writes it again.
        let old = E::read(simd, unsafe { previous.cells(row, units) });
        let new = match call.spec.update {
            Update::Keeps => E::vfma(simd, z, old, E::vmul(simd, rest, n)),
            Update::Takes => E::vfma(simd, z, n, E::vmul(simd, rest, old)),
        };
        let new = if self.group.is_plain {
            E::without_subnormals(simd, new)
        } else {
            self.restrict(simd, new, old, row, units)
        };
        // SAFETY: these units of this step's state belong to this thread until the next barrier.
        E::write(simd, unsafe { self.states.cells_mut(row, units) }, new);
        if let (Some(g), Some(mask)) = (self.next_source, call.inputs.sequence.recurrent_mask) {
            let n = self.group.rows.start + row;
            let mask = E::read(simd, &mask[n * call.sizes.h..][units.clone()]);
            // SAFETY: the same units of the next step's `g` belong to this thread too.
            let g = unsafe { g.cells_mut(row, units) };
            E::write(simd, g, E::vmul(simd, new, mask));
        }
    }

    #[inline(always)]
    unsafe fn save<S: Simd>(
        &self,
        simd: S,
        row: usize,
        units: &Range<usize>,
        first: usize,
        gates: &[E::V<S>],
    ) {
        let Some(saved) = self.saved else {
            return;
        };
        for (gate, &v) in (first..).zip(gates) {
            let start = gate * self.hidden() + units.start;
            // SAFETY: the caller owns these units, and a row has all gates.
            let to = unsafe { saved.cells_mut(row, &(start..start + units.len())) };
            E::write(simd, to, v);
        }
    }
}
