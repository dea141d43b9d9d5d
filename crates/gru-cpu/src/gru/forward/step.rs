//! The steps of a round: products, gates, new states.
//!
//! Between two meetings a thread reads what others wrote before the first, and writes the units of
//! its own panels only: of the states and gates of this step, of `p`, `rg`, and the next step's `g`.

use super::{super::next, Group, Pass, units};
use crate::{
    product::{Ahead, Left, Order, Panels, Product, ROWS, Strided, Sums},
    simd::{Lanes, clip},
    spec::Update,
    threads::Member,
    tuning::{ASKS_FROM, CANDIDATE_VECTORS, PANELS_OF_A_ROW},
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Lines that a tile asks for: the state and four gates of eight rows.
const MOST_LINES: usize = 5 * ROWS;

/// The steps of a round, for the panels of one thread.
pub(super) struct Steps<'a, 'b, 'c, E> {
    pub(super) group: &'a Group<'b, E>,
    pub(super) steps: Range<usize>,
    pub(super) panels: Range<usize>,
    pub(super) member: &'a mut Member<'c>,
}

impl<E: Lanes> WithSimd for Steps<'_, '_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.group.after && self.group.rows.len() == 1 {
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
            steps,
            panels,
            member,
        } = self;
        for s in steps.clone() {
            let step = Step::new(group, s, s - steps.start);
            for first in panels.clone().step_by(PANELS_OF_A_ROW) {
                let some = first..panels.end.min(first + PANELS_OF_A_ROW);
                // SAFETY: all states before this step were written before the threads last met, and
                // these panels are this thread's own.
                unsafe { step.row_after(simd, some, &panels) };
            }
            if s + 1 < steps.end {
                member.meet();
            }
        }
    }

    /// The steps of any other group.
    #[inline(always)]
    fn of_tiles<S: Simd>(self, simd: S) {
        let Self {
            group,
            steps,
            panels,
            member,
        } = self;
        let candidate = group.pass.weights.candidate.as_ref();
        let candidates = member.share(candidate.map_or(0, Panels::count));
        let count = group.tiles.len();
        for s in steps.clone() {
            let step = Step::new(group, s, s - steps.start);
            for panel in panels.clone() {
                for (at, tile) in group.tiles.clone().enumerate() {
                    let part = (at, count);
                    let next = next(panel, &panels);
                    // SAFETY: all states before this step were written before the threads last met,
                    // and this panel is this thread's own.
                    unsafe {
                        if group.after {
                            step.tile_after(simd, tile, panel, next, part)
                        } else {
                            step.tile_before(simd, tile, panel, next, part)
                        }
                    }
                }
            }
            if !group.after {
                member.meet();
                for panel in candidates.clone() {
                    for tile in group.tiles.clone() {
                        // SAFETY: `rg` and the gates of this step were written before the threads
                        // last met, and this panel of the candidate is this thread's own.
                        unsafe { step.tile_of_candidate(simd, tile, panel) };
                    }
                }
            }
            if s + 1 < steps.end {
                member.meet();
            }
        }
    }
}

/// One step of a group. Its rows are counted from the group's first.
struct Step<'a, 'b, E> {
    group: &'a Group<'b, E>,
    /// Counted from the round's first.
    in_round: usize,
    /// Where the first row stands in memory, and how far the next.
    place: usize,
    per_row: usize,
    /// The state before this step, and the same masked.
    previous: Strided<E>,
    source: Strided<E>,
    /// What this step makes: the state, the same masked for the next step, the gates.
    states: Strided<E>,
    next_source: Option<Strided<E>>,
    saved: Option<Strided<E>>,
}

impl<'a, 'b, E: Lanes> Step<'a, 'b, E> {
    #[inline(always)]
    fn new(group: &'a Group<'b, E>, s: usize, in_round: usize) -> Self {
        let Pass { call, states, .. } = group.pass;
        let (n, count, h) = (group.rows.start, group.rows.len(), call.sizes.h);
        let (place, per_row) = (call.row(n, s), call.per_row());
        let at_step = |rows, s| Strided::of(rows, call.row(n, s), per_row, count);
        let previous = match (s, call.inputs.sequence.h0) {
            (0, Some(h0)) => Strided::reading(&h0[n * h..][..count * h], h, count),
            // Multiplied like any other state: a weight that is not finite shows at once.
            (0, None) => Strided::reading(group.pass.zeros, h, count),
            _ => at_step(states, s - 1),
        };
        let masked = |s| {
            let mask = call.inputs.sequence.recurrent_mask;
            mask.map(|_| Strided::of(&group.g, s % 2 * count, 1, count))
        };
        Self {
            group,
            in_round,
            place,
            per_row,
            previous,
            source: masked(s).unwrap_or(previous),
            states: at_step(states, s),
            next_source: masked(s + 1),
            saved: group.pass.saved.as_ref().map(|saved| at_step(saved, s)),
        }
    }

    /// The vectors of `p` of some rows.
    #[inline(always)]
    fn p(&self, panel: usize, rows: Range<usize>) -> Strided<E> {
        let first = self.group.place_in_p(panel, self.in_round, rows.start);
        Strided::of(&self.group.p, first, 1, rows.len())
    }

    /// The units of a panel.
    #[inline(always)]
    fn units(&self, panel: usize, lanes: usize) -> Range<usize> {
        units(panel..panel + 1, lanes, self.group.pass.call.sizes.h)
    }

    /// One tile, the reset gate acting after the product: from the products to the new states.
    ///
    /// # Safety
    /// The states before this step are there, and until the threads meet this panel is this
    /// thread's own.
    #[inline(always)]
    unsafe fn tile_after<S: Simd>(
        &self,
        simd: S,
        (row, size): (usize, usize),
        panel: usize,
        next: usize,
        part: (usize, usize),
    ) {
        // SAFETY: the caller keeps the same promises.
        unsafe {
            let mut sums = Sums::new();
            self.sums_after(simd, &mut sums, (row, size), panel, next, part);
            self.gates_after(simd, &sums, row, panel);
        }
    }

    /// Some panels of the only row. Their gates come after all of their products, since each is a chain
    /// of operations that wait for each other: those of several panels fill the time.
    ///
    /// # Safety
    /// As for a tile.
    #[inline(always)]
    unsafe fn row_after<S: Simd>(&self, simd: S, some: Range<usize>, all: &Range<usize>) {
        let mut sums: [_; PANELS_OF_A_ROW] = [const { Sums::<E, S>::new() }; PANELS_OF_A_ROW];
        // SAFETY: the caller keeps the same promises.
        unsafe {
            for (panel, sums) in some.clone().zip(&mut sums) {
                self.sums_after(simd, sums, (0, 1), panel, next(panel, all), (0, 1));
            }
            for (panel, sums) in some.zip(&sums) {
                self.gates_after(simd, sums, 0, panel);
            }
        }
    }

    /// The products of a tile: r and z with those of the input, q_n with its bias.
    ///
    /// # Safety
    /// As for the tile.
    #[inline(always)]
    unsafe fn sums_after<S: Simd>(
        &self,
        simd: S,
        sums: &mut Sums<E, S>,
        (row, size): (usize, usize),
        panel: usize,
        next: usize,
        part: (usize, usize),
    ) {
        let [.., b_hn] = self.group.pass.weights.bias(simd, panel);
        sums.fill(size, [b_hn; 3]);
        let p = self.p(panel, row..row + size);
        for (m, sums) in sums.iter_mut().enumerate() {
            // SAFETY: this thread wrote this panel of `p`.
            let [r, z] = [0, 1].map(|slot| unsafe { slot_of::<E, S>(simd, p.at(m), slot) });
            (sums[0], sums[1]) = (r, z);
        }
        // SAFETY: the states before this step are there.
        unsafe { self.product::<S, 3>(simd, sums, row, panel, next, part) };
    }

    /// The gates and new states of a tile, from its products. On WebAssembly this is a function of its
    /// own: where V8 has it in the loop of the products, their sums leave the registers.
    ///
    /// # Safety
    /// As for the tile.
    #[cfg_attr(target_family = "wasm", inline(never))]
    #[cfg_attr(not(target_family = "wasm"), inline(always))]
    unsafe fn gates_after<S: Simd>(&self, simd: S, sums: &Sums<E, S>, row: usize, panel: usize) {
        let p = self.p(panel, row..row + sums.len());
        // SAFETY: this panel is this thread's own.
        unsafe {
            if self.group.pass.gates.are_usual() {
                self.finish_after::<S, true>(simd, sums, p, row, panel)
            } else {
                self.finish_after::<S, false>(simd, sums, p, row, panel)
            }
        }
    }

    /// From the products of r, z and q_n to the new states.
    ///
    /// # Safety
    /// As for the tile.
    #[inline(always)]
    unsafe fn finish_after<S: Simd, const USUAL: bool>(
        &self,
        simd: S,
        sums: &Sums<E, S>,
        p: Strided<E>,
        first: usize,
        panel: usize,
    ) {
        let gates = &self.group.pass.gates;
        let units = self.units(panel, E::lanes::<S>());
        for (m, &[r, z, q]) in sums.iter().enumerate() {
            // SAFETY: this thread wrote this panel of `p`.
            let p_n = unsafe { slot_of::<E, S>(simd, p.at(m), 2) };
            let r = gates.reset::<S, USUAL>(simd, r);
            let z = gates.update::<S, USUAL>(simd, z);
            let n = gates.candidate::<S, USUAL>(simd, E::vfma(simd, r, q, p_n));
            // SAFETY: the units of this panel are this thread's own.
            unsafe {
                self.new_state(simd, z, n, first + m, &units);
                self.save(simd, first + m, &units, 0, &[r, z[0], n, q]);
            }
        }
    }

    /// One tile, the reset gate acting before the product: r, z and `r ⊙ g`.
    ///
    /// # Safety
    /// As for the other: the states before this step are there, this panel is this thread's own.
    #[inline(always)]
    unsafe fn tile_before<S: Simd>(
        &self,
        simd: S,
        (row, size): (usize, usize),
        panel: usize,
        next: usize,
        part: (usize, usize),
    ) {
        let gates = &self.group.pass.gates;
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, size);
        let p = self.p(panel, row..row + size);
        for (m, sums) in sums.iter_mut().enumerate() {
            // SAFETY: this thread wrote this panel of `p`.
            let [r, z] = [0, 1].map(|slot| unsafe { slot_of::<E, S>(simd, p.at(m), slot) });
            (sums[0], sums[1]) = (r, z);
        }
        // SAFETY: the states before this step are there.
        unsafe { self.product::<S, 2>(simd, &mut sums, row, panel, next, part) };
        // SAFETY: this panel is this thread's own.
        unsafe {
            if gates.are_usual() {
                self.finish_before::<S, true>(simd, &sums, p, row, panel)
            } else {
                self.finish_before::<S, false>(simd, &sums, p, row, panel)
            }
        }
    }

    /// From the products of r and z to `r ⊙ g`.
    ///
    /// # Safety
    /// As for the tile.
    #[inline(always)]
    unsafe fn finish_before<S: Simd, const USUAL: bool>(
        &self,
        simd: S,
        sums: &Sums<E, S>,
        p: Strided<E>,
        first: usize,
        panel: usize,
    ) {
        let (gates, lanes) = (&self.group.pass.gates, E::lanes::<S>());
        let units = self.units(panel, lanes);
        for (m, &[r, z, _]) in sums.iter().enumerate() {
            let r = gates.reset::<S, USUAL>(simd, r);
            let [z, rest] = gates.update::<S, USUAL>(simd, z);
            // SAFETY: the state before this step is there; this panel of `p`, whose rows are three
            // vectors, and the units of this panel in `rg` are this thread's own.
            unsafe {
                // Nobody asks for the input product of r and z again.
                E::store(simd, p.at(m), rest);
                E::store(simd, p.at(m).add(lanes), z);
                let g = E::read(simd, self.source.cells(first + m, &units));
                let rg = self.group.rg.cells_mut(first + m, units.clone());
                E::write(simd, rg, E::vmul(simd, r, g));
                self.save(simd, first + m, &units, 0, &[r, z]);
            }
        }
    }

    /// Reset before the product, second half: the candidate of some vectors of units.
    ///
    /// # Safety
    /// All of `rg` and of the gates r and z is there, and until the threads meet this panel of the
    /// candidate is this thread's own.
    #[inline(always)]
    unsafe fn tile_of_candidate<S: Simd>(
        &self,
        simd: S,
        (row, size): (usize, usize),
        panel: usize,
    ) {
        let Pass { weights, gates, .. } = self.group.pass;
        let Some(candidate) = &weights.candidate else {
            return;
        };
        let start = panel * CANDIDATE_VECTORS;
        let vectors = start..(start + CANDIDATE_VECTORS).min(weights.state.count());
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, size);
        let mut rows = [std::ptr::null(); ROWS];
        for (row, to) in (row..row + size).zip(&mut rows) {
            *to = self.group.rg.at(row).cast_const();
        }
        for (at, vector) in vectors.clone().enumerate() {
            let p = self.p(vector, row..row + size);
            for (m, sums) in sums.iter_mut().enumerate() {
                // SAFETY: a thread wrote this before all met at the end of its input product.
                sums[at] = unsafe { slot_of::<E, S>(simd, p.at(m), 2) };
            }
        }
        let product = Product {
            left: &Left::dense(rows),
            k: self.group.pass.call.sizes.h,
            panel: candidate.panel(panel),
            vectors: vectors.len(),
            order: Order::Free,
            ahead: Ahead::NOTHING,
        };
        // SAFETY: the rows have H units each, written before the threads last met and not to be
        // written before they meet again; the panel has H rows.
        unsafe { product.add_to_small(simd, &mut sums) };
        for (at, vector) in vectors.enumerate() {
            // SAFETY: these vectors are this thread's own.
            unsafe {
                if gates.are_usual() {
                    self.finish_candidate::<S, true>(simd, &sums, at, row, vector)
                } else {
                    self.finish_candidate::<S, false>(simd, &sums, at, row, vector)
                }
            }
        }
    }

    /// From the products of n, in vector `at` of the sums, to the new states.
    ///
    /// # Safety
    /// As for the tile.
    #[inline(always)]
    unsafe fn finish_candidate<S: Simd, const USUAL: bool>(
        &self,
        simd: S,
        sums: &Sums<E, S>,
        at: usize,
        first: usize,
        vector: usize,
    ) {
        let gates = &self.group.pass.gates;
        let units = self.units(vector, E::lanes::<S>());
        let p = self.p(vector, first..first + sums.len());
        for (m, sums) in sums.iter().enumerate() {
            let n = gates.candidate::<S, USUAL>(simd, sums[at]);
            // SAFETY: z and 1 − z stand there since the threads last met; the units of this vector
            // are this thread's own.
            unsafe {
                let z = [1, 0].map(|slot| slot_of::<E, S>(simd, p.at(m), slot));
                self.new_state(simd, z, n, first + m, &units);
                self.save(simd, first + m, &units, 2, &[n]);
            }
        }
    }

    /// Adds the recurrent product of some rows to the sums, and asks for what comes after it.
    ///
    /// # Safety
    /// The states before this step are there, and nobody writes them any more.
    #[inline(always)]
    unsafe fn product<S: Simd, const NV: usize>(
        &self,
        simd: S,
        sums: &mut Sums<E, S>,
        row: usize,
        panel: usize,
        next: usize,
        part: (usize, usize),
    ) {
        let Pass { call, weights, .. } = self.group.pass;
        let (h, lanes) = (call.sizes.h, E::lanes::<S>());
        let mut rows = [std::ptr::null(); ROWS];
        for (row, to) in (row..row + sums.len()).zip(&mut rows) {
            *to = self.source.at(row).cast_const();
        }
        let mut lines = [std::ptr::null(); MOST_LINES];
        let near = if sums.len() < ASKS_FROM {
            &[]
        } else {
            let last = (panel + 1) * lanes - 1;
            self.lines_to_write(row..row + sums.len(), last, &mut lines)
        };
        let product = Product {
            left: &Left::dense(rows),
            k: h,
            panel: weights.state.panel(panel),
            vectors: NV,
            order: Order::Free,
            ahead: Ahead::new(weights.state.panel(next), h * NV * lanes, part, near),
        };
        // SAFETY: the rows have H units each, which nobody writes any more; the panel has H rows.
        unsafe { product.add_to_small(simd, sums) };
    }

    /// The lines that a tile is going to write, around some unit: otherwise each store waits for
    /// its line when the product is done.
    #[inline(always)]
    fn lines_to_write<'l>(
        &self,
        rows: Range<usize>,
        unit: usize,
        lines: &'l mut [*const E; MOST_LINES],
    ) -> &'l [*const E] {
        let call = &self.group.pass.call;
        let mut count = 0;
        let mut push = |line: *mut E| {
            lines[count] = line;
            count += 1;
        };
        for row in rows {
            push(self.states.at(row).wrapping_add(unit));
            if let Some(saved) = self.saved {
                for gate in 0..call.spec.saved_per_unit() {
                    push(saved.at(row).wrapping_add(gate * call.sizes.h + unit));
                }
            }
        }
        &lines[..count]
    }

    /// Keeps some gates of some units, from gate `first` on, if they are asked for.
    ///
    /// # Safety
    /// These units are this thread's own.
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
            let start = gate * self.group.pass.call.sizes.h + units.start;
            // SAFETY: the caller owns these units, and a row has so many gates.
            let to = unsafe { saved.cells_mut(row, &(start..start + units.len())) };
            E::write(simd, to, v);
        }
    }

    /// Blends and stores some units of one row's new state, from z, `1 − z` and n.
    ///
    /// Two products, not `n + z ⊙ (h₋₁ − n)`: that rounds a state which z = 1 should leave alone.
    ///
    /// # Safety
    /// The state before this step is there, and these units are this thread's own.
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
        // SAFETY: the state before this step is complete, and nobody writes it any more.
        let old = E::read(simd, unsafe { self.previous.cells(row, units) });
        let new = match call.spec.update {
            Update::Keeps => E::vfma(simd, z, old, E::vmul(simd, rest, n)),
            Update::Takes => E::vfma(simd, z, n, E::vmul(simd, rest, old)),
        };
        let new = if self.group.is_plain {
            E::without_subnormals(simd, new)
        } else {
            self.restrict(simd, new, old, row, units)
        };
        // SAFETY: these units of this step's state are this thread's own until the threads meet.
        E::write(simd, unsafe { self.states.cells_mut(row, units) }, new);
        if let (Some(g), Some(mask)) = (self.next_source, call.inputs.sequence.recurrent_mask) {
            let n = self.group.rows.start + row;
            let mask = E::read(simd, &mask[n * call.sizes.h..][units.clone()]);
            // SAFETY: and so are these of the next step's g.
            let g = unsafe { g.cells_mut(row, units) };
            E::write(simd, g, E::vmul(simd, new, mask));
        }
    }

    /// A new state clipped, taken in part, or not at all; then it is the old one, bit by bit.
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
        let place = self.place + row * self.per_row;
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

/// A vector of a row of `p`: of r, z or n.
///
/// # Safety
/// The row was written, by this thread or before the threads last met, and nobody writes it now.
#[inline(always)]
unsafe fn slot_of<E: Lanes, S: Simd>(simd: S, row: *mut E, slot: usize) -> E::V<S> {
    // SAFETY: a row of `p` has three vectors; the caller keeps writers away.
    unsafe { E::load(simd, row.add(slot * E::lanes::<S>())) }
}
