//! The steps of a round: products, gates, new states.
//!
//! Between two meetings a thread reads what others wrote before the first, and writes the units of
//! its own panels only: of the states and gates of this step, of `p`, `rg`, and the next step's `g`.

use super::{super::next, Group, Pass, units};
use crate::{
    product::{Ahead, Left, Order, Panels, Product, ROWS, Sums},
    simd::{Lanes, clip},
    spec::Update,
    threads::Member,
    tuning::{ASKS_FROM, CANDIDATE_VECTORS},
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
        let Self {
            group,
            steps,
            panels,
            member,
        } = self;
        let candidate = group.pass.weights.candidate.as_ref();
        let candidates = member.share(candidate.map_or(0, Panels::count));
        for s in steps.clone() {
            let step = Step {
                group,
                s,
                in_round: s - steps.start,
            };
            for panel in panels.clone() {
                for (at, &tile) in group.tiles.iter().enumerate() {
                    let part = (at, group.tiles.len());
                    let next = next(panel, &panels);
                    // SAFETY: all states before this step were written before the threads last met,
                    // and this panel is this thread's own.
                    unsafe {
                        match group.after {
                            true => step.tile_after(simd, tile, panel, next, part),
                            false => step.tile_before(simd, tile, panel, next, part),
                        }
                    }
                }
            }
            if !group.after {
                member.meet();
                for panel in candidates.clone() {
                    for &tile in &group.tiles {
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

/// One step.
struct Step<'a, 'b, E> {
    group: &'a Group<'b, E>,
    /// In the order of the walk: of all, and of this round's.
    s: usize,
    in_round: usize,
}

impl<E: Lanes> Step<'_, '_, E> {
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
        let Pass { weights, gates, .. } = self.group.pass;
        let [.., b_hn] = weights.bias(simd, panel);
        let mut sums = Sums::<E, S>::new(size, [b_hn; 3]);
        for (m, sums) in sums.iter_mut().enumerate() {
            // SAFETY: this thread wrote this panel of `p`.
            let [r, z] = [0, 1].map(|slot| unsafe { self.p(simd, panel, row + m, slot) });
            (sums[0], sums[1]) = (r, z);
        }
        // SAFETY: the states before this step are there.
        unsafe { self.product::<S, 3>(simd, &mut sums, row, panel, next, part) };
        // SAFETY: this panel is this thread's own.
        unsafe {
            match gates.are_usual() {
                true => self.finish_after::<S, true>(simd, &sums, row, panel),
                false => self.finish_after::<S, false>(simd, &sums, row, panel),
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
        first: usize,
        panel: usize,
    ) {
        let gates = self.group.pass.gates;
        for (row, &[r, z, q]) in (first..).zip(sums.iter()) {
            // SAFETY: this thread wrote this panel of `p`.
            let p_n = unsafe { self.p(simd, panel, row, 2) };
            let r = gates.reset::<S, USUAL>(simd, r);
            let z = gates.update::<S, USUAL>(simd, z);
            let n = gates.candidate::<S, USUAL>(simd, E::vfma(simd, r, q, p_n));
            // SAFETY: the units of this panel are this thread's own.
            unsafe {
                self.new_state(simd, z, n, row, panel);
                self.save(simd, row, panel, 0, &[r, z[0], n, q]);
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
        let gates = self.group.pass.gates;
        let mut sums = Sums::<E, S>::zeros(simd, size);
        for (m, sums) in sums.iter_mut().enumerate() {
            // SAFETY: this thread wrote this panel of `p`.
            let [r, z] = [0, 1].map(|slot| unsafe { self.p(simd, panel, row + m, slot) });
            (sums[0], sums[1]) = (r, z);
        }
        // SAFETY: the states before this step are there.
        unsafe { self.product::<S, 2>(simd, &mut sums, row, panel, next, part) };
        // SAFETY: this panel is this thread's own.
        unsafe {
            match gates.are_usual() {
                true => self.finish_before::<S, true>(simd, &sums, row, panel),
                false => self.finish_before::<S, false>(simd, &sums, row, panel),
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
        first: usize,
        panel: usize,
    ) {
        let gates = self.group.pass.gates;
        let units = self.units(panel, 1, E::lanes::<S>());
        for (row, &[r, z, _]) in (first..).zip(sums.iter()) {
            let r = gates.reset::<S, USUAL>(simd, r);
            let [z, rest] = gates.update::<S, USUAL>(simd, z);
            // SAFETY: the state before this step is there; this panel of `p` and the units of this
            // panel in `rg` are this thread's own.
            unsafe {
                // Nobody asks for the input product of r and z again.
                self.set_p(simd, panel, row, 0, rest);
                self.set_p(simd, panel, row, 1, z);
                let g = self.some::<S>(simd, self.source(row), &units);
                let rg = self.group.rg.cells_mut(row, units.clone());
                E::write(simd, rg, E::vmul(simd, r, g));
                self.save(simd, row, panel, 0, &[r, z]);
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
        let mut sums = Sums::<E, S>::zeros(simd, size);
        let mut rows = [std::ptr::null(); ROWS];
        for (m, (sums, to)) in sums.iter_mut().zip(&mut rows).enumerate() {
            *to = self.group.rg.at(row + m).cast_const();
            for (vector, sum) in vectors.clone().zip(sums) {
                // SAFETY: a thread wrote this before all met at the end of its input product.
                *sum = unsafe { self.p(simd, vector, row + m, 2) };
            }
        }
        let product = Product {
            left: &Left::dense(rows),
            k: self.group.pass.call.dims.h,
            panel: candidate.panel(panel),
            vectors: vectors.len(),
            order: Order::Free,
            ahead: Ahead::NOTHING,
        };
        // SAFETY: the rows have H units each, written before the threads last met and not to be
        // written before they meet again; the panel has H rows.
        unsafe { product.add_to(simd, &mut sums) };
        // SAFETY: these vectors are this thread's own.
        unsafe {
            match gates.are_usual() {
                true => self.finish_candidate::<S, true>(simd, &sums, row, vectors),
                false => self.finish_candidate::<S, false>(simd, &sums, row, vectors),
            }
        }
    }

    /// From the products of n to the new states.
    ///
    /// # Safety
    /// As for the tile.
    #[inline(always)]
    unsafe fn finish_candidate<S: Simd, const USUAL: bool>(
        &self,
        simd: S,
        sums: &Sums<E, S>,
        first: usize,
        vectors: Range<usize>,
    ) {
        for (row, &sums) in (first..).zip(sums.iter()) {
            for (vector, n) in vectors.clone().zip(sums) {
                let n = self.group.pass.gates.candidate::<S, USUAL>(simd, n);
                // SAFETY: z and 1 − z stand there since the threads last met; the units of these
                // vectors are this thread's own.
                unsafe {
                    let z = [1, 0].map(|slot| self.p(simd, vector, row, slot));
                    self.new_state(simd, z, n, row, vector);
                    self.save(simd, row, vector, 2, &[n]);
                }
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
        let (h, lanes) = (call.dims.h, E::lanes::<S>());
        let mut rows = [std::ptr::null(); ROWS];
        for (row, to) in (row..row + sums.len()).zip(&mut rows) {
            *to = self.source(row);
        }
        let mut lines = [std::ptr::null(); MOST_LINES];
        let near = match sums.len() < ASKS_FROM {
            true => &[],
            false => {
                self.lines_to_write(row..row + sums.len(), (panel + 1) * lanes - 1, &mut lines)
            }
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
        unsafe { product.add_to_small::<S, NV>(simd, sums) };
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
        let pass = self.group.pass;
        let mut count = 0;
        let mut push = |line: *mut E| {
            lines[count] = line;
            count += 1;
        };
        for row in rows {
            let at = self.place(row);
            push(pass.states.at(at).wrapping_add(unit));
            if let Some(saved) = pass.saved {
                for gate in 0..pass.call.spec.saved_per_unit() {
                    push(saved.at(at).wrapping_add(gate * pass.call.dims.h + unit));
                }
            }
        }
        &lines[..count]
    }

    /// The units of some panels from `panel` on, `lanes` units wide.
    #[inline(always)]
    fn units(&self, panel: usize, count: usize, lanes: usize) -> Range<usize> {
        units(panel..panel + count, lanes, self.group.pass.call.dims.h)
    }

    /// Where one of the group's rows stands in memory.
    #[inline(always)]
    fn place(&self, row: usize) -> usize {
        let group = self.group;
        group.pass.call.row(group.rows.start + row, self.s)
    }

    /// The state before this step, masked, of one of the group's rows: H units.
    #[inline(always)]
    fn source(&self, row: usize) -> *const E {
        match self.group.pass.call.inputs.mask {
            Some(_) => self.group.g.at(self.s % 2 * self.group.rows.len() + row),
            None => self.previous(row),
        }
    }

    /// The state before this step of one of the group's rows: H units.
    #[inline(always)]
    fn previous(&self, row: usize) -> *const E {
        let Pass {
            call,
            states,
            zeros,
            ..
        } = self.group.pass;
        let (n, h) = (self.group.rows.start + row, call.dims.h);
        match (self.s, call.inputs.h0) {
            (0, Some(h0)) => h0[n * h..][..h].as_ptr(),
            // Multiplied like any other state: a weight that is not finite shows at once.
            (0, None) => zeros[..h].as_ptr(),
            _ => states.at(call.row(n, self.s - 1)),
        }
    }

    /// Some units of the row at `from`.
    ///
    /// # Safety
    /// The row has H units, and nobody writes these meanwhile.
    #[inline(always)]
    unsafe fn some<S: Simd>(&self, simd: S, from: *const E, units: &Range<usize>) -> E::V<S> {
        // SAFETY: the caller has H units there that stay as they are, and these are among them.
        let units = unsafe { std::slice::from_raw_parts(from.add(units.start), units.len()) };
        E::read(simd, units)
    }

    /// A vector of a row of `p`.
    ///
    /// # Safety
    /// It was written, by this thread or before the threads last met, and nobody writes it now.
    #[inline(always)]
    unsafe fn p<S: Simd>(&self, simd: S, panel: usize, row: usize, slot: usize) -> E::V<S> {
        let place = self.group.place_in_p(panel, self.in_round, row);
        let p = self.group.p.at(place).wrapping_add(slot * E::lanes::<S>());
        // SAFETY: a row of `p` has three vectors; the caller keeps writers away.
        unsafe { E::load(simd, p) }
    }

    /// # Safety
    /// Until the threads meet this panel of `p` is this thread's own.
    #[inline(always)]
    unsafe fn set_p<S: Simd>(&self, simd: S, panel: usize, row: usize, slot: usize, v: E::V<S>) {
        let place = self.group.place_in_p(panel, self.in_round, row);
        let p = self.group.p.at(place).wrapping_add(slot * E::lanes::<S>());
        // SAFETY: a row of `p` has three vectors; the caller owns them.
        unsafe { E::store(simd, p, v) };
    }

    /// Keeps some gates of a panel, from gate `first` on, if they are asked for.
    ///
    /// # Safety
    /// The units of this panel are this thread's own.
    #[inline(always)]
    unsafe fn save<S: Simd>(
        &self,
        simd: S,
        row: usize,
        panel: usize,
        first: usize,
        gates: &[E::V<S>],
    ) {
        let Some(saved) = self.group.pass.saved else {
            return;
        };
        let units = self.units(panel, 1, E::lanes::<S>());
        let at = self.place(row);
        for (gate, &v) in (first..).zip(gates) {
            let start = gate * self.group.pass.call.dims.h + units.start;
            // SAFETY: the caller owns these units.
            let to = unsafe { saved.cells_mut(at, start..start + units.len()) };
            E::write(simd, to, v);
        }
    }

    /// Blends and stores a panel of one row's new state, from z, `1 − z` and n.
    ///
    /// Two products, not `n + z ⊙ (h₋₁ − n)`: that rounds a state which z = 1 should leave alone.
    ///
    /// # Safety
    /// The state before this step is there, and the units of this panel are this thread's own.
    #[inline(always)]
    unsafe fn new_state<S: Simd>(
        &self,
        simd: S,
        [z, rest]: [E::V<S>; 2],
        n: E::V<S>,
        row: usize,
        panel: usize,
    ) {
        let Pass { call, states, .. } = self.group.pass;
        let (at, h) = (self.place(row), call.dims.h);
        let units = self.units(panel, 1, E::lanes::<S>());
        // SAFETY: the state before this step is complete, and nobody writes it any more.
        let old = unsafe { self.some::<S>(simd, self.previous(row), &units) };
        let mut new = match call.spec.update {
            Update::Keeps => E::vfma(simd, z, old, E::vmul(simd, rest, n)),
            Update::Takes => E::vfma(simd, z, n, E::vmul(simd, rest, old)),
        };
        if let Some(c) = call.spec.clip_state {
            new = clip::<E, S>(simd, new, c);
        }
        if let Some(take) = call.inputs.take {
            let take = E::read(simd, &take[at * h..][units.clone()]);
            let past = E::vsub(simd, E::real(simd, 1.0), take);
            new = E::vfma(simd, new, take, E::vmul(simd, old, past));
        }
        if call.is_skipped(at) {
            new = old;
        }
        // SAFETY: these units of this step's state, and of the next step's g, are this thread's
        // own until the threads meet.
        unsafe {
            E::write(simd, states.cells_mut(at, units.clone()), new);
            if let Some(mask) = call.inputs.mask {
                let n = self.group.rows.start + row;
                let mask = E::read(simd, &mask[n * h..][units.clone()]);
                let g = (self.s + 1) % 2 * self.group.rows.len() + row;
                let g = self.group.g.cells_mut(g, units);
                E::write(simd, g, E::vmul(simd, new, mask));
            }
        }
    }
}
