//! The backward walk.

use super::{
    buffer::Buffer,
    gate::{Gate, gates},
    is_common,
    isa::arch,
    panels::{Panel, Panels, Shape},
    plan::{Plan, tiles},
    rows::Rows,
    team::{Member, Rounds, together},
    tile::{self, Ahead, ROWS, Sums as Tile, accumulate, load, store, tile_rows},
};
use crate::{
    dims::{Dims, Inputs, Place, Walk},
    product::Element,
    spec::{GruSpec, Reset, Update},
};
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;

/// What the walk leaves beside the gradients of the pre-activations.
pub struct Sums<E> {
    /// Gradient of the initial state `[N,H]`.
    pub(crate) dh: Vec<E>,
    /// Reset before the product, if asked for: `r ⊙ g` of every row, the left side of `dw_hn`.
    pub(crate) rg: Vec<E>,
    /// Sums over rows and steps of `dr̄ | dz̄ | dn̄ | dn̄ ⊙ r` (the last reset-after only).
    pub(crate) bias: Vec<E>,
}

/// Walks back through time: turns the gates in `saved` into the gradients of the pre-activations,
/// in place: `dr̄ | dz̄ | dn̄`, and `dn̄ ⊙ r` behind them where the reset gate acts after the product.
pub(crate) fn walk_back<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: &mut [E],
    d_states: &[E],
    wants_rg: bool,
) -> Sums<E> {
    let width = spec.saved_per_unit() * dims.h;
    let mut sums = Sums {
        dh: vec![E::zero(); dims.n * dims.h],
        rg: vec![E::zero(); if wants_rg { dims.rows() * dims.h } else { 0 }],
        bias: vec![E::zero(); width],
    };
    let arch = arch();
    let call = Call {
        dims,
        spec,
        inputs,
        states,
        saved: Rows::new(saved, width),
        d_states,
        dh: Rows::new(&mut sums.dh, dims.h),
        rg: wants_rg.then(|| Rows::new(&mut sums.rg, dims.h)),
        place: dims.place(spec.layout),
        time: Walk::new(dims, spec),
        arch,
    };
    let bias = &mut sums.bias;
    arch.dispatch(Split { call, bias });
    sums
}

struct Call<'a, E> {
    dims: &'a Dims,
    spec: &'a GruSpec,
    inputs: &'a Inputs<'a, E>,
    states: &'a [E],
    saved: Rows<'a, E>,
    d_states: &'a [E],
    dh: Rows<'a, E>,
    rg: Option<Rows<'a, E>>,
    place: Place,
    time: Walk,
    arch: Arch,
}

/// Vectors of a panel, the last of which may have fewer: with the rows of a full tile they make as
/// many sums as there are registers for. With two, 16 sums, a step took 15 to 30% longer.
const VECTORS: usize = 3;

/// Lines that a tile asks for: four gates, the upstream gradient and the state, of two vectors of
/// eight rows.
const MAX_LINES: usize = 6 * VECTORS * 8;

/// Steps of a round: so often a thread that came late can join.
const STEPS: usize = 16;

/// The transposed weights.
struct Weights<'a, E> {
    /// Reset after the product: of all gates. Before it: of r and z.
    gates: Panels<'a, E>,
    /// Reset before the product: of n.
    candidate: Option<Panels<'a, E>>,
}

struct Split<'a, 'b, E> {
    call: Call<'a, E>,
    bias: &'b mut [E],
}

impl<E: Element> WithSimd for Split<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { call, bias } = self;
        let gates = gates::<E, S>(simd, call.spec);
        let Dims { n, t, h, .. } = *call.dims;
        let (lanes, tile) = (E::lanes::<S>(), tile_rows::<S>());
        let (after, w_hh) = (call.spec.reset == Reset::AfterMatmul, call.inputs.w_hh);
        let shape = |gates: usize| Shape::units(gates * h, h, lanes, VECTORS, 0);
        let weights = Weights {
            gates: Panels::transposed(w_hh, 3 * h, 0, shape(if after { 3 } else { 2 })),
            candidate: (!after).then(|| Panels::transposed(w_hh, 3 * h, 2 * h, shape(1))),
        };
        let plan = Plan::new(call.dims, weights.gates.count(), tile, size_of::<E>());
        debug_assert_eq!(plan.groups.iter().map(Range::len).sum::<usize>(), n);
        // For each group the sums of a round, and of all.
        let mut sums = vec![E::zero(); plan.groups.len() * 2 * bias.len()];
        let group = |(rows, sums): (Range<usize>, &mut [E])| {
            let mut ds = Buffer::new(if after { 0 } else { rows.len() * h });
            let group = Group {
                call: &call,
                weights: &weights,
                gates: &gates,
                tiles: tiles(rows.len(), tile),
                rows,
                ds: Rows::new(ds.as_mut(), h),
                sums: Rows::new(sums, sums.len() / 2),
            };
            together(plan.members, t.div_ceil(STEPS), &group);
        };
        let mut groups = plan
            .groups
            .iter()
            .cloned()
            .zip(sums.chunks_exact_mut(2 * bias.len()));
        let first = groups.next();
        if plan.groups.len() <= 1 {
            first.into_iter().for_each(group);
        } else {
            rayon::in_place_scope(|scope| {
                let group = &group;
                groups.for_each(|rows| scope.spawn(move |_| group(rows)));
                first.into_iter().for_each(group);
            });
        }
        let width = bias.len();
        for sums in sums.chunks_exact(2 * width) {
            for (to, &sum) in bias.iter_mut().zip(&sums[width..]) {
                *to = *to + sum;
            }
        }
    }
}

/// The rows that some threads walk together.
struct Group<'a, E> {
    call: &'a Call<'a, E>,
    weights: &'a Weights<'a, E>,
    gates: &'a [Gate<E>; 3],
    rows: Range<usize>,
    /// First row, counted from the group's, and number of rows.
    tiles: Vec<(usize, usize)>,
    /// Reset before the product: `ds ⊙ r`.
    ds: Rows<'a, E>,
    /// Bias sums: of the steps since they were last added up, and of all before. Two levels, so
    /// that the rounding error does not grow with every row.
    sums: Rows<'a, E>,
}

impl<E: Element> Rounds for Group<'_, E> {
    // Out of line, or the code of every instruction set would hold that of all others.
    #[inline(never)]
    fn round(&self, round: usize, member: &mut Member<'_>) {
        self.call.arch.dispatch(Round {
            group: self,
            round,
            member,
        });
    }
}

/// One thread's share of a round.
struct Round<'a, 'b, 'c, E> {
    group: &'a Group<'b, E>,
    round: usize,
    member: &'a mut Member<'c>,
}

impl<E: Element> WithSimd for Round<'_, '_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let call = self.group.call;
        match (is_common(call.spec), call.spec.reset) {
            (true, Reset::AfterMatmul) => self.run::<S, true, true>(simd),
            (false, Reset::AfterMatmul) => self.run::<S, false, true>(simd),
            (true, Reset::BeforeMatmul) => self.run::<S, true, false>(simd),
            (false, Reset::BeforeMatmul) => self.run::<S, false, false>(simd),
        }
    }
}

impl<E: Element> Round<'_, '_, '_, E> {
    #[inline(always)]
    fn run<S: Simd, const COMMON: bool, const AFTER: bool>(self, simd: S) {
        let Self {
            group,
            round,
            member,
        } = self;
        let (t, h) = (group.call.dims.t, group.call.dims.h);
        let width = VECTORS * E::lanes::<S>();
        let panels = member.share(group.weights.gates.count());
        let units = (panels.start * width).min(h)..(panels.end * width).min(h);
        let step = Step::<E, COMMON, AFTER> { group };
        for s in (t.saturating_sub((round + 1) * STEPS)..t - round * STEPS).rev() {
            for row in 0..group.rows.len() {
                step.through_gates(simd, row, s, &units);
            }
            member.meet();
            if !AFTER {
                for panel in panels.clone() {
                    for &(row, size) in &group.tiles {
                        step.through_candidate(simd, (row, size), panel, s);
                    }
                }
                for row in 0..group.rows.len() {
                    step.through_reset(simd, row, s, &units);
                }
                member.meet();
            }
            for panel in panels.clone() {
                let next = if panel + 1 < panels.end {
                    panel + 1
                } else {
                    panels.start
                };
                let next = group.weights.gates.panel(next);
                for (tile, &(row, size)) in group.tiles.iter().enumerate() {
                    let part = (tile, group.tiles.len());
                    step.through_product(simd, (row, size), panel, s, (next, part));
                }
            }
        }
        group.add_up(units);
    }
}

impl<E: Element> Group<'_, E> {
    /// Adds the bias sums of a round, of some units, to those of all rounds.
    fn add_up(&self, units: Range<usize>) {
        let h = self.call.dims.h;
        for gate in 0..self.sums.width() / h {
            let units = gate * h + units.start..gate * h + units.end;
            // SAFETY: these units are this thread's own until the threads meet.
            let (new, all) = unsafe {
                (
                    self.sums.cells_mut(0, units.clone()),
                    self.sums.cells_mut(1, units),
                )
            };
            for (new, all) in new.iter_mut().zip(all) {
                *all = *all + *new;
                *new = E::zero();
            }
        }
    }
}

/// One step back.
struct Step<'a, 'b, E, const COMMON: bool, const AFTER: bool> {
    group: &'a Group<'b, E>,
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
    fn through_gates<S: Simd>(&self, simd: S, row: usize, s: usize, units: &Range<usize>) {
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
    fn through_product<S: Simd>(
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
    fn through_candidate<S: Simd>(
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
    fn through_reset<S: Simd>(&self, simd: S, row: usize, s: usize, units: &Range<usize>) {
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
