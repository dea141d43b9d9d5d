//! One step of a round: products, gates, new states.

use super::Group;
use crate::{
    element::Element,
    kernel::{
        gate::{Apply, clip},
        panels::Panel,
        tile::{self, Ahead, Left, ROWS, Sums, accumulate, load, store},
        weights::CANDIDATE_VECTORS,
    },
    spec::Update,
};
use pulp::Simd;
use std::ops::Range;

/// Lines that a tile asks for: the state and four gates of eight rows.
const MAX_LINES: usize = 5 * 8;

/// The units of some panels of a vector each.
#[inline(always)]
pub(super) fn units(panels: &Range<usize>, lanes: usize, h: usize) -> Range<usize> {
    (panels.start * lanes).min(h)..(panels.end * lanes).min(h)
}

/// One step of a round.
pub(super) struct Step<'a, 'b, E, const COMMON: bool, const AFTER: bool> {
    pub(super) group: &'a Group<'b, E>,
    /// First step of the round.
    pub(super) first: usize,
}

impl<E: Element, const COMMON: bool, const AFTER: bool> Step<'_, '_, E, COMMON, AFTER> {
    /// The state before step `s`, masked, of one of the group's rows.
    #[inline(always)]
    fn source(&self, row: usize, s: usize) -> *const E {
        match self.group.call.inputs.mask {
            Some(_) => self.group.g.at(s % 2 * self.group.rows.len() + row),
            None => self.previous(row, s),
        }
    }

    /// The state before step `s` of one of the group's rows.
    #[inline(always)]
    fn previous(&self, row: usize, s: usize) -> *const E {
        let call = self.group.call;
        let (n, h) = (self.group.rows.start + row, call.dims.h);
        match (s, call.inputs.h0) {
            (0, Some(h0)) => h0[n * h..][..h].as_ptr(),
            // Multiplied like any other state: a weight that is not finite shows at once.
            (0, None) => self.group.zeros[..h].as_ptr(),
            _ => call.states.at(call.place.row(n, call.time.time(s - 1))),
        }
    }

    /// Some units of the row at `from`.
    ///
    /// # Safety
    /// The row has H units, and nobody writes these meanwhile.
    #[inline(always)]
    unsafe fn some<S: Simd>(&self, simd: S, from: *const E, units: &Range<usize>) -> E::V<S> {
        // SAFETY: `units` are below H; the rest is the caller's word.
        let units = unsafe { std::slice::from_raw_parts(from.add(units.start), units.len()) };
        load::<E, S>(simd, units)
    }

    /// Adds the product of the rows before step `s` to the sums.
    #[inline(always)]
    fn product<S: Simd, const NV: usize>(
        &self,
        simd: S,
        sums: &mut Sums<E, S, NV>,
        row: usize,
        s: usize,
        panel: usize,
        ahead: Ahead<'_, E>,
    ) {
        let mut rows = [std::ptr::null(); ROWS];
        for (m, to) in rows.iter_mut().enumerate().take(sums.len()) {
            *to = self.source(row + m, s);
        }
        let panel = self.group.weights.state.panel(panel);
        // SAFETY: the rows have H units each, written before the threads last met and not to be
        // written before they meet again; the panel has H rows.
        unsafe {
            let h = self.group.call.dims.h;
            accumulate(simd, sums, NV, &Left::dense(rows), h, panel, ahead);
        }
    }

    /// One tile of a step. Reset after the product: from the products to the new states. Before
    /// it: r, z and `r ⊙ g`. Where the activations are uncommon only the products, left in `p`.
    #[inline(always)]
    pub(super) fn tile<S: Simd>(
        &self,
        simd: S,
        (row, size): (usize, usize),
        s: usize,
        panel: usize,
        (next, part): (Panel<E>, (usize, usize)),
    ) {
        let lanes = E::lanes::<S>();
        let mut lines = [std::ptr::null(); MAX_LINES];
        let lines = match size < tile::ASKS_FROM {
            true => &[],
            false => self.lines_to_write(row..row + size, s, (panel + 1) * lanes - 1, &mut lines),
        };
        let width = if AFTER { 3 } else { 2 } * lanes;
        let ahead = Ahead::new(next, self.group.call.dims.h * width, part, lines);
        if AFTER {
            let [.., b_hn] = self.group.weights.bias(simd, panel);
            let mut sums = Sums::<E, S, 3>::new(size, [b_hn; 3]);
            for (m, sums) in sums.iter_mut().enumerate() {
                sums[0] = self.p(simd, panel, s, row + m, 0);
                sums[1] = self.p(simd, panel, s, row + m, 1);
            }
            self.product(simd, &mut sums, row, s, panel, ahead);
            for (m, &[r, z, q]) in sums.iter().enumerate() {
                let row = row + m;
                if !COMMON {
                    self.set_p(simd, panel, s, row, 0, r);
                    self.set_p(simd, panel, s, row, 1, z);
                    self.set_p(simd, panel, s, row, 3, q);
                    continue;
                }
                let p_n = self.p(simd, panel, s, row, 2);
                let (r, _) = E::vsigmoid(simd, r);
                let (z, rest) = E::vsigmoid(simd, z);
                let n = E::vtanh(simd, E::vfma(simd, r, q, p_n));
                let units = units(&(panel..panel + 1), lanes, self.group.call.dims.h);
                self.new_state(simd, (z, rest), n, row, s, &units);
                self.save(simd, row, s, &units, [r, z, n, q]);
            }
        } else {
            let mut sums = Sums::<E, S, 2>::new(size, [E::real(simd, 0.0); 2]);
            for (m, sums) in sums.iter_mut().enumerate() {
                *sums = [0, 1].map(|gate| self.p(simd, panel, s, row + m, gate));
            }
            self.product(simd, &mut sums, row, s, panel, ahead);
            for (m, &[r, z]) in sums.iter().enumerate() {
                let row = row + m;
                if COMMON {
                    let (r, _) = E::vsigmoid(simd, r);
                    let (z, rest) = E::vsigmoid(simd, z);
                    // Nobody asks for the input product of r again.
                    self.set_p(simd, panel, s, row, 0, rest);
                    self.set_p(simd, panel, s, row, 1, z);
                    self.finish_gates(simd, r, z, row, s, panel);
                } else {
                    self.set_p(simd, panel, s, row, 0, r);
                    self.set_p(simd, panel, s, row, 1, z);
                }
            }
        }
    }

    /// The lines that a tile is going to write, around some unit: otherwise each store waits for
    /// its line when the product is done.
    #[inline(always)]
    fn lines_to_write<'l>(
        &self,
        rows: Range<usize>,
        s: usize,
        unit: usize,
        lines: &'l mut [*const E; MAX_LINES],
    ) -> &'l [*const E] {
        let (call, mut count) = (self.group.call, 0);
        let mut push = |row: *mut E| {
            lines[count] = row;
            count += 1;
        };
        for row in rows {
            let at = self.saved_row(row, s);
            push(call.states.at(at).wrapping_add(unit));
            if let Some(saved) = call.saved {
                for gate in 0..saved.width() / call.dims.h {
                    push(saved.at(at).wrapping_add(gate * call.dims.h + unit));
                }
            }
        }
        &lines[..count]
    }

    /// A vector of a row of `p`.
    #[inline(always)]
    fn p<S: Simd>(&self, simd: S, panel: usize, s: usize, row: usize, slot: usize) -> E::V<S> {
        let p = self
            .group
            .p
            .at(self.group.place_in_p(panel, s - self.first, row));
        // SAFETY: a row of `p` has so many vectors, which this thread wrote, or another one before
        // the threads last met.
        unsafe { E::load(simd, p.add(slot * E::lanes::<S>())) }
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // A place of five coordinates.
    fn set_p<S: Simd>(&self, simd: S, panel: usize, s: usize, row: usize, slot: usize, v: E::V<S>) {
        let p = self
            .group
            .p
            .at(self.group.place_in_p(panel, s - self.first, row));
        // SAFETY: a row of `p` has so many vectors, and until the threads meet this panel is this
        // thread's own.
        unsafe { E::store(simd, p.add(slot * E::lanes::<S>()), v) };
    }

    /// Applies a gate to one vector of all rows of `p` in a panel, at one step.
    #[inline(always)]
    fn apply<S: Simd>(&self, simd: S, gate: usize, s: usize, panel: usize) {
        let (group, lanes) = (self.group, E::lanes::<S>());
        let first = group.place_in_p(panel, s - self.first, 0);
        // One function for every gate: the activations are long.
        simd.vectorize(Apply {
            gate: &group.gates[gate],
            rows: group.p,
            range: first..first + group.rows.len(),
            columns: gate * lanes..(gate + 1) * lanes,
        });
    }

    /// From the products of a panel, in `p`, to the new states, or to r, z and `r ⊙ g`.
    #[inline(always)]
    pub(super) fn finish_panel<S: Simd>(&self, simd: S, s: usize, panel: usize) {
        let units = units(&(panel..panel + 1), E::lanes::<S>(), self.group.call.dims.h);
        let rows = 0..self.group.rows.len();
        self.apply(simd, 0, s, panel);
        self.apply(simd, 1, s, panel);
        if !AFTER {
            for row in rows {
                let [r, z] = [0, 1].map(|slot| self.p(simd, panel, s, row, slot));
                self.finish_gates(simd, r, z, row, s, panel);
            }
            return;
        }
        for row in rows.clone() {
            let [r, p_n, q] = [0, 2, 3].map(|slot| self.p(simd, panel, s, row, slot));
            self.set_p(simd, panel, s, row, 2, E::vfma(simd, r, q, p_n));
        }
        self.apply(simd, 2, s, panel);
        for row in rows {
            let gates = [0, 1, 2, 3].map(|slot| self.p(simd, panel, s, row, slot));
            let z = gates[1];
            let rest = E::vsub(simd, E::real(simd, 1.0), z);
            self.new_state(simd, (z, rest), gates[2], row, s, &units);
            self.save(simd, row, s, &units, gates);
        }
    }

    /// Keeps the gates of some units, if they are asked for.
    #[inline(always)]
    fn save<S: Simd, const COUNT: usize>(
        &self,
        simd: S,
        row: usize,
        s: usize,
        units: &Range<usize>,
        gates: [E::V<S>; COUNT],
    ) {
        for (gate, v) in gates.into_iter().enumerate() {
            self.save_one(simd, row, s, units, gate, v);
        }
    }

    #[inline(always)]
    fn save_one<S: Simd>(
        &self,
        simd: S,
        row: usize,
        s: usize,
        units: &Range<usize>,
        gate: usize,
        v: E::V<S>,
    ) {
        let call = self.group.call;
        if let Some(saved) = call.saved {
            let start = gate * call.dims.h + units.start;
            let at = self.saved_row(row, s);
            // SAFETY: these units of this row are this thread's own.
            let to = unsafe { saved.cells_mut(at, start..start + units.len()) };
            store(simd, to, v);
        }
    }

    /// Reset before the product: `r ⊙ g` from the gates of one row.
    #[inline(always)]
    fn finish_gates<S: Simd>(
        &self,
        simd: S,
        r: E::V<S>,
        z: E::V<S>,
        row: usize,
        s: usize,
        panel: usize,
    ) {
        let units = units(&(panel..panel + 1), E::lanes::<S>(), self.group.call.dims.h);
        // SAFETY: the state before this step was written before the threads last met; these units
        // of `rg` are this thread's own until they meet.
        unsafe {
            let g = self.some::<S>(simd, self.source(row, s), &units);
            let rg = self.group.rg.cells_mut(row, units.clone());
            store(simd, rg, E::vmul(simd, r, g));
        }
        self.save(simd, row, s, &units, [r, z]);
    }

    /// Reset before the product, second half: the candidate of some vectors of units.
    #[inline(always)]
    pub(super) fn candidate<S: Simd>(
        &self,
        simd: S,
        (row, size): (usize, usize),
        s: usize,
        panel: usize,
    ) {
        let Some(weights) = &self.group.weights.candidate else {
            return;
        };
        let vectors = self.vectors(panel);
        let zeros = [E::real(simd, 0.0); CANDIDATE_VECTORS];
        let mut sums = Sums::<E, S, CANDIDATE_VECTORS>::new(size, zeros);
        let mut rows = [std::ptr::null(); ROWS];
        for (m, (sums, to)) in sums.iter_mut().zip(&mut rows).enumerate() {
            *to = self.group.rg.at(row + m).cast_const();
            for (vector, sum) in vectors.clone().zip(sums) {
                *sum = self.p(simd, vector, s, row + m, 2);
            }
        }
        let (h, panel) = (self.group.call.dims.h, weights.panel(panel));
        // SAFETY: the rows have H units each, written before the threads last met and not to be
        // written before they meet again; the panel has H rows.
        unsafe {
            accumulate(
                simd,
                &mut sums,
                vectors.len(),
                &Left::dense(rows),
                h,
                panel,
                Ahead::NOTHING,
            )
        };
        for (m, &sums) in sums.iter().enumerate() {
            for (vector, n) in vectors.clone().zip(sums) {
                if COMMON {
                    self.finish_candidate_row(simd, E::vtanh(simd, n), row + m, s, vector);
                } else {
                    self.set_p(simd, vector, s, row + m, 2, n);
                }
            }
        }
    }

    /// The panels of a vector each that a panel of the candidate covers.
    #[inline(always)]
    fn vectors(&self, panel: usize) -> Range<usize> {
        let start = panel * CANDIDATE_VECTORS;
        start..(start + CANDIDATE_VECTORS).min(self.group.weights.state.count())
    }

    #[inline(always)]
    pub(super) fn finish_candidate<S: Simd>(&self, simd: S, s: usize, panel: usize) {
        for vector in self.vectors(panel) {
            self.apply(simd, 2, s, vector);
            for row in 0..self.group.rows.len() {
                let n = self.p(simd, vector, s, row, 2);
                self.finish_candidate_row(simd, n, row, s, vector);
            }
        }
    }

    #[inline(always)]
    fn finish_candidate_row<S: Simd>(
        &self,
        simd: S,
        n: E::V<S>,
        row: usize,
        s: usize,
        vector: usize,
    ) {
        let z = self.p(simd, vector, s, row, 1);
        let rest = match COMMON {
            true => self.p(simd, vector, s, row, 0),
            false => E::vsub(simd, E::real(simd, 1.0), z),
        };
        let units = units(
            &(vector..vector + 1),
            E::lanes::<S>(),
            self.group.call.dims.h,
        );
        self.new_state(simd, (z, rest), n, row, s, &units);
        self.save_one(simd, row, s, &units, 2, n);
    }

    /// Where a row stands in memory at step `s`.
    #[inline(always)]
    fn saved_row(&self, row: usize, s: usize) -> usize {
        let call = self.group.call;
        call.place
            .row(self.group.rows.start + row, call.time.time(s))
    }

    /// Blends and stores some units of one row's new state. `rest` is `1 − z`.
    ///
    /// Two products, not `n + z ⊙ (h₋₁ − n)`: that rounds a state which z = 1 should leave alone.
    #[inline(always)]
    fn new_state<S: Simd>(
        &self,
        simd: S,
        (z, rest): (E::V<S>, E::V<S>),
        n: E::V<S>,
        row: usize,
        s: usize,
        units: &Range<usize>,
    ) {
        let call = self.group.call;
        // SAFETY: the state before this step is complete, and nobody writes it any more.
        let old = unsafe { self.some::<S>(simd, self.previous(row, s), units) };
        let mut new = match call.spec.update {
            Update::Keeps => E::vfma(simd, z, old, E::vmul(simd, rest, n)),
            Update::Takes => E::vfma(simd, z, n, E::vmul(simd, rest, old)),
        };
        if let (false, Some(c)) = (COMMON, call.spec.clip_state) {
            new = clip::<E, S>(simd, new, c);
        }
        let at = self.saved_row(row, s);
        if let (false, Some(take)) = (COMMON, call.inputs.take) {
            let take = load::<E, S>(simd, &take[at * call.dims.h..][units.clone()]);
            let past = E::vsub(simd, E::real(simd, 1.0), take);
            new = E::vfma(simd, new, take, E::vmul(simd, old, past));
        }
        if call
            .inputs
            .valid
            .is_some_and(|valid| valid[at] == E::zero())
        {
            new = old;
        }
        // SAFETY: these units of this step's state, and of the next step's g, are this thread's
        // own until the threads meet.
        unsafe {
            store(simd, call.states.cells_mut(at, units.clone()), new);
            if let Some(mask) = call.inputs.mask {
                let n = self.group.rows.start + row;
                let mask = load::<E, S>(simd, &mask[n * call.dims.h..][units.clone()]);
                let g = (s + 1) % 2 * self.group.rows.len() + row;
                store(
                    simd,
                    self.group.g.cells_mut(g, units.clone()),
                    E::vmul(simd, new, mask),
                );
            }
        }
    }
}
