//! The forward walk.

use super::{
    PACK_FROM,
    buffer::Buffer,
    gate::{Apply, Gate, clip, gates},
    is_common,
    isa::arch,
    math::{sigmoid, sigmoid_and_tanh, tanh},
    panels::{Panels, Shape},
    plan::{Plan, tiles},
    rows::Rows,
    team::{Member, Rounds, together},
    tile::{Sums, accumulate, by_rows, load, store, tile_rows},
};
use crate::{
    dims::{Dims, Inputs, Place, Walk},
    product::Element,
    spec::{GruSpec, Reset, Update},
};
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;

/// Writes the states, and the gates to `saved` if that is there.
pub(crate) fn walk<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &mut [E],
    saved: Option<&mut [E]>,
) {
    let arch = arch();
    arch.dispatch(Call {
        dims,
        spec,
        inputs,
        states: Rows::new(states, dims.h),
        saved: saved.map(|saved| Rows::new(saved, spec.saved_per_unit() * dims.h)),
        place: dims.place(spec.layout),
        time: Walk::new(dims, spec),
        arch,
    });
}

struct Call<'a, E> {
    dims: &'a Dims,
    spec: &'a GruSpec,
    inputs: &'a Inputs<'a, E>,
    states: Rows<'a, E>,
    saved: Option<Rows<'a, E>>,
    place: Place,
    time: Walk,
    arch: Arch,
}

/// Panels of every weight.
struct Weights<'a, E> {
    /// Of the input product, all gates.
    input: Option<Panels<'a, E>>,
    /// Reset after the product: all gates. Before it: r and z.
    state: Panels<'a, E>,
    /// Reset before the product: n, of `r ⊙ g`.
    candidate: Option<Panels<'a, E>>,
}

/// Vectors of a panel of the candidate's own product.
const CANDIDATE_VECTORS: usize = 2;

impl<E: Element> WithSimd for Call<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Dims { n, t, i, h } = *self.dims;
        let (lanes, tile) = (E::lanes::<S>(), tile_rows::<S>());
        let in_place = t * n.div_ceil(tile) < PACK_FROM;
        let (after, w_hh) = (self.spec.reset == Reset::AfterMatmul, self.inputs.w_hh);
        let packed = if after { 0..3 } else { 0..2 };
        let weights = Weights {
            input: self
                .inputs
                .w_ih
                .map(|w_ih| Panels::new(w_ih, 3 * h, Shape::gates(i, h, lanes, 0..3), in_place)),
            state: Panels::new(w_hh, 3 * h, Shape::gates(h, h, lanes, packed), in_place),
            candidate: (!after).then(|| {
                let shape = Shape::units(h, h, lanes, CANDIDATE_VECTORS, 2 * h);
                Panels::new(w_hh, 3 * h, shape, in_place)
            }),
        };
        let bias = self.bias(lanes);
        let gates = gates::<E, S>(simd, self.spec);
        let slots = if is_common(self.spec) { 3 } else { 4 };
        let plan = Plan::new(self.dims, h.div_ceil(lanes), tile, size_of::<E>());
        let group = |rows: Range<usize>| {
            let steps = Plan::steps_per_round(rows.len()).min(t);
            let cells = |wanted: bool, copies| {
                Buffer::new(if wanted { copies * rows.len() * h } else { 0 })
            };
            let mut p = Buffer::new(weights.state.count() * steps * rows.len() * slots * lanes);
            let mut g = cells(self.inputs.mask.is_some(), 2);
            let mut rg = cells(!after, 1);
            let group = Group {
                call: &self,
                weights: &weights,
                bias: bias.as_ref(),
                tiles: tiles(rows.len(), tile),
                steps,
                p: Rows::new(p.as_mut(), slots * lanes),
                gates: &gates,
                g: Rows::new(g.as_mut(), h),
                rg: Rows::new(rg.as_mut(), h),
                rows,
            };
            together(plan.members, t.div_ceil(steps), &group);
        };
        let mut groups = plan.groups.iter().cloned();
        let first = groups.next();
        if groups.len() == 0 {
            first.into_iter().for_each(group);
            return;
        }
        rayon::in_place_scope(|scope| {
            let group = &group;
            groups.for_each(|rows| scope.spawn(move |_| group(rows)));
            first.into_iter().for_each(group);
        });
    }
}

impl<E: Element> Call<'_, E> {
    /// For each panel four vectors: what is added to the input product of r, z and n, and to the
    /// candidate's recurrent product.
    fn bias(&self, lanes: usize) -> Buffer<E> {
        let h = self.dims.h;
        let Inputs { b_ih, b_hh, .. } = *self.inputs;
        let after = self.spec.reset == Reset::AfterMatmul;
        let mut bias = Buffer::new(h.div_ceil(lanes) * 4 * lanes);
        for (panel, bias) in bias.as_mut().chunks_exact_mut(4 * lanes).enumerate() {
            for at in 0..lanes.min(h - panel * lanes) {
                let unit = panel * lanes + at;
                let of = |b: Option<&[E]>, gate: usize| b.map_or(E::zero(), |b| b[gate * h + unit]);
                for gate in 0..3 {
                    bias[gate * lanes + at] = of(b_ih, gate) + of(b_hh, gate);
                }
                // After the product, r multiplies b_hn too; then it cannot join p.
                if after {
                    bias[2 * lanes + at] = of(b_ih, 2);
                    bias[3 * lanes + at] = of(b_hh, 2);
                }
            }
        }
        bias
    }
}

/// The rows that some threads walk together.
struct Group<'a, E> {
    call: &'a Call<'a, E>,
    weights: &'a Weights<'a, E>,
    bias: &'a [E],
    gates: &'a [Gate<E>; 3],
    rows: Range<usize>,
    /// First row, counted from the group's, and number of rows.
    tiles: Vec<(usize, usize)>,
    /// Steps of a round.
    steps: usize,
    /// The input product of a round: for each panel and each row of each step, a vector of r, z, n,
    /// and where the activations are uncommon one more for q_n.
    p: Rows<'a, E>,
    /// With a mask: `m ⊙ h₋₁`, of even steps and of odd ones.
    g: Rows<'a, E>,
    /// Reset before the product: `r ⊙ g`.
    rg: Rows<'a, E>,
}

impl<E: Element> Rounds for Group<'_, E> {
    fn round(&self, round: usize, member: &mut Member<'_>) {
        self.call.arch.dispatch(Round {
            group: self,
            first: round * self.steps,
            member,
        });
    }
}

/// One thread's share of a round.
struct Round<'a, 'b, 'c, E> {
    group: &'a Group<'b, E>,
    first: usize,
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
            first,
            member,
        } = self;
        let steps = first..(first + group.steps).min(group.call.dims.t);
        let panels = member.share(group.weights.state.count());
        let step = Step::<E, COMMON, AFTER> { group, first };
        group.project::<S>(simd, steps.clone(), panels.clone());
        if first == 0 && group.call.inputs.mask.is_some() {
            group.mask_initial(units(&panels, E::lanes::<S>(), group.call.dims.h));
            member.meet();
        }
        for s in steps.clone() {
            for panel in panels.clone() {
                for &(row, size) in &group.tiles {
                    by_rows!(size, S, step.tile[1, 2, 4](simd, row, s, panel));
                }
                if !COMMON {
                    step.finish_panel(simd, s, panel);
                }
            }
            if !AFTER {
                member.meet();
                let candidate = group.weights.candidate.as_ref();
                for panel in member.share(candidate.map_or(0, Panels::count)) {
                    for &(row, size) in &group.tiles {
                        by_rows!(size, S, step.candidate[2, 4, 4](simd, row, s, panel));
                    }
                    if !COMMON {
                        step.finish_candidate(simd, s, panel);
                    }
                }
            }
            if s + 1 < steps.end {
                member.meet();
            }
        }
    }
}

impl<E: Element> Group<'_, E> {
    /// The row of `p` for the group's row `row` at the `s`-th step of a round.
    #[inline(always)]
    fn place_in_p(&self, panel: usize, s: usize, row: usize) -> usize {
        (panel * self.steps + s) * self.rows.len() + row
    }

    /// The input product and the biases of all steps of a round, for some panels.
    #[inline(always)]
    fn project<S: Simd>(&self, simd: S, steps: Range<usize>, panels: Range<usize>) {
        let count = self.rows.len() * steps.len();
        for panel in panels {
            let mut row = 0;
            while row < count {
                let size = match count - row {
                    8.. if tile_rows::<S>() == 8 => 8,
                    4.. => 4,
                    2.. => 2,
                    _ => 1,
                };
                by_rows!(size, S, self.project_tile[1, 2, 4](simd, steps.start, row, panel));
                row += size;
            }
        }
    }

    #[inline(always)]
    fn project_tile<S: Simd, const MR: usize, const KU: usize>(
        &self,
        simd: S,
        first: usize,
        row: usize,
        panel: usize,
    ) {
        let Call { inputs, dims, .. } = *self.call;
        let (i, h, lanes) = (dims.i, dims.h, E::lanes::<S>());
        let features = if self.weights.input.is_some() {
            i
        } else {
            3 * h
        };
        let x: [&[E]; MR] = std::array::from_fn(|m| {
            let (s, n) = ((row + m) / self.rows.len(), (row + m) % self.rows.len());
            let at = self
                .call
                .place
                .row(self.rows.start + n, self.call.time.time(first + s));
            &inputs.x[at * features..][..features]
        });
        let bias = self.bias(simd, panel);
        let mut sums: Sums<E, S, MR, 3> = [[bias[0], bias[1], bias[2]]; MR];
        match &self.weights.input {
            // SAFETY: each row has I elements, and so many rows has the panel.
            Some(w_ih) => unsafe {
                accumulate::<E, S, MR, 3, KU>(
                    simd,
                    &mut sums,
                    x.map(<[E]>::as_ptr),
                    i,
                    w_ih.panel(panel),
                );
            },
            None => {
                let units = panel * lanes..((panel + 1) * lanes).min(h);
                for (sums, x) in sums.iter_mut().zip(x) {
                    for (gate, sum) in sums.iter_mut().enumerate() {
                        let x = load::<E, S>(simd, &x[gate * h..][units.clone()]);
                        *sum = E::vadd(simd, *sum, x);
                    }
                }
            }
        }
        for (m, sums) in sums.into_iter().enumerate() {
            let p = self.p.at(panel * self.steps * self.rows.len() + row + m);
            for (gate, sum) in sums.into_iter().enumerate() {
                // SAFETY: a row of `p` is three vectors, and this panel is this thread's own.
                unsafe { E::store(simd, p.add(gate * lanes), sum) };
            }
        }
    }

    /// The four bias vectors of a panel.
    #[inline(always)]
    fn bias<S: Simd>(&self, simd: S, panel: usize) -> [E::V<S>; 4] {
        let lanes = E::lanes::<S>();
        let bias = &self.bias[panel * 4 * lanes..][..4 * lanes];
        let mut vectors = [E::real(simd, 0.0); 4];
        for (vector, from) in vectors.iter_mut().zip(bias.chunks_exact(lanes)) {
            // SAFETY: the slice is a vector long.
            *vector = unsafe { E::load(simd, from.as_ptr()) };
        }
        vectors
    }

    /// `m ⊙ h₀` of some units, for the first step.
    fn mask_initial(&self, units: Range<usize>) {
        let Inputs { h0, mask, .. } = *self.call.inputs;
        let h = self.call.dims.h;
        let Some(mask) = mask else { return };
        for (at, n) in self.rows.clone().enumerate() {
            // SAFETY: until the threads meet, these units are this thread's own.
            let g = unsafe { self.g.cells_mut(at, units.clone()) };
            for (g, unit) in g.iter_mut().zip(units.clone()) {
                *g = h0.map_or(E::zero(), |h0| h0[n * h + unit] * mask[n * h + unit]);
            }
        }
    }
}

/// The units of some panels of a vector each.
#[inline(always)]
fn units(panels: &Range<usize>, lanes: usize, h: usize) -> Range<usize> {
    (panels.start * lanes).min(h)..(panels.end * lanes).min(h)
}

/// One step of a round.
struct Step<'a, 'b, E, const COMMON: bool, const AFTER: bool> {
    group: &'a Group<'b, E>,
    /// First step of the round.
    first: usize,
}

impl<E: Element, const COMMON: bool, const AFTER: bool> Step<'_, '_, E, COMMON, AFTER> {
    /// The state before step `s`, masked, of one of the group's rows; none stands for zeros.
    #[inline(always)]
    fn source(&self, row: usize, s: usize) -> Option<*const E> {
        let call = self.group.call;
        match (s, call.inputs.mask) {
            (0, _) if call.inputs.h0.is_none() => None,
            (_, Some(_)) => Some(self.group.g.at(s % 2 * self.group.rows.len() + row)),
            _ => self.previous(row, s),
        }
    }

    /// The state before step `s` of one of the group's rows; none stands for zeros.
    #[inline(always)]
    fn previous(&self, row: usize, s: usize) -> Option<*const E> {
        let call = self.group.call;
        let n = self.group.rows.start + row;
        match s {
            0 => call
                .inputs
                .h0
                .map(|h0| h0[n * call.dims.h..][..call.dims.h].as_ptr()),
            _ => Some(call.states.at(call.place.row(n, call.time.time(s - 1)))),
        }
    }

    /// Some units of the row at `from`; zeros if there is none.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    unsafe fn some<S: Simd>(
        &self,
        simd: S,
        from: Option<*const E>,
        units: &Range<usize>,
    ) -> E::V<S> {
        match from {
            // SAFETY: a row has H units; the rest is the caller's word.
            Some(from) => load::<E, S>(simd, unsafe {
                std::slice::from_raw_parts(from.add(units.start), units.len())
            }),
            None => E::real(simd, 0.0),
        }
    }

    /// Adds the product of the rows before step `s` to the sums, if there are any.
    #[inline(always)]
    fn product<S: Simd, const MR: usize, const NV: usize, const KU: usize>(
        &self,
        simd: S,
        sums: &mut Sums<E, S, MR, NV>,
        row: usize,
        s: usize,
        panel: usize,
    ) {
        if self.source(row, s).is_none() {
            return;
        }
        let null = std::ptr::null();
        let rows = std::array::from_fn(|m| self.source(row + m, s).unwrap_or(null));
        let panel = self.group.weights.state.panel(panel);
        // SAFETY: the rows have H units each, written before the threads last met and not to be
        // written before they meet again; the panel has H rows.
        unsafe { accumulate::<E, S, MR, NV, KU>(simd, sums, rows, self.group.call.dims.h, panel) };
    }

    /// One tile of a step. Reset after the product: from the products to the new states. Before
    /// it: r, z and `r ⊙ g`. Where the activations are uncommon only the products, left in `p`.
    #[inline(always)]
    fn tile<S: Simd, const MR: usize, const KU: usize>(
        &self,
        simd: S,
        row: usize,
        s: usize,
        panel: usize,
    ) {
        let lanes = E::lanes::<S>();
        if AFTER {
            let [.., b_hn] = self.group.bias(simd, panel);
            let mut sums: Sums<E, S, MR, 3> = [[b_hn; 3]; MR];
            for (m, sums) in sums.iter_mut().enumerate() {
                sums[0] = self.p(simd, panel, s, row + m, 0);
                sums[1] = self.p(simd, panel, s, row + m, 1);
            }
            self.product::<S, MR, 3, KU>(simd, &mut sums, row, s, panel);
            for (m, [r, z, q]) in sums.into_iter().enumerate() {
                let row = row + m;
                if !COMMON {
                    self.set_p(simd, panel, s, row, 0, r);
                    self.set_p(simd, panel, s, row, 1, z);
                    self.set_p(simd, panel, s, row, 3, q);
                    continue;
                }
                let p_n = self.p(simd, panel, s, row, 2);
                let r = sigmoid::<E, S>(simd, r);
                let (z, n) = sigmoid_and_tanh::<E, S>(simd, z, E::vfma(simd, r, q, p_n));
                let units = units(&(panel..panel + 1), lanes, self.group.call.dims.h);
                self.new_state(simd, z, n, row, s, &units);
                self.save(simd, row, s, &units, [r, z, n, q]);
            }
        } else {
            let mut sums: Sums<E, S, MR, 2> = [[E::real(simd, 0.0); 2]; MR];
            for (m, sums) in sums.iter_mut().enumerate() {
                *sums = [0, 1].map(|gate| self.p(simd, panel, s, row + m, gate));
            }
            self.product::<S, MR, 2, KU>(simd, &mut sums, row, s, panel);
            for (m, [r, z]) in sums.into_iter().enumerate() {
                let row = row + m;
                if COMMON {
                    let [r, z] = [sigmoid::<E, S>(simd, r), sigmoid::<E, S>(simd, z)];
                    self.set_p(simd, panel, s, row, 1, z);
                    self.finish_gates(simd, r, z, row, s, panel);
                } else {
                    self.set_p(simd, panel, s, row, 0, r);
                    self.set_p(simd, panel, s, row, 1, z);
                }
            }
        }
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
            from: gate * lanes,
        });
    }

    /// From the products of a panel, in `p`, to the new states, or to r, z and `r ⊙ g`.
    #[inline(always)]
    fn finish_panel<S: Simd>(&self, simd: S, s: usize, panel: usize) {
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
            self.new_state(simd, gates[1], gates[2], row, s, &units);
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
    fn candidate<S: Simd, const MR: usize, const KU: usize>(
        &self,
        simd: S,
        row: usize,
        s: usize,
        panel: usize,
    ) {
        let Some(weights) = &self.group.weights.candidate else {
            return;
        };
        let vectors = self.vectors(panel);
        let mut sums: Sums<E, S, MR, CANDIDATE_VECTORS> =
            [[E::real(simd, 0.0); CANDIDATE_VECTORS]; MR];
        for (m, sums) in sums.iter_mut().enumerate() {
            for (vector, sum) in vectors.clone().zip(sums) {
                *sum = self.p(simd, vector, s, row + m, 2);
            }
        }
        if self.source(row, s).is_some() {
            let rows = std::array::from_fn(|m| self.group.rg.at(row + m).cast_const());
            // SAFETY: the rows have H units each, written before the threads last met and not to
            // be written before they meet again; the panel has H rows.
            unsafe {
                accumulate::<E, S, MR, CANDIDATE_VECTORS, KU>(
                    simd,
                    &mut sums,
                    rows,
                    self.group.call.dims.h,
                    weights.panel(panel),
                );
            }
        }
        for (m, sums) in sums.into_iter().enumerate() {
            for (vector, n) in vectors.clone().zip(sums) {
                if COMMON {
                    self.finish_candidate_row(simd, tanh::<E, S>(simd, n), row + m, s, vector);
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
    fn finish_candidate<S: Simd>(&self, simd: S, s: usize, panel: usize) {
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
        let units = units(
            &(vector..vector + 1),
            E::lanes::<S>(),
            self.group.call.dims.h,
        );
        self.new_state(simd, z, n, row, s, &units);
        self.save_one(simd, row, s, &units, 2, n);
    }

    /// Where a row stands in memory at step `s`.
    #[inline(always)]
    fn saved_row(&self, row: usize, s: usize) -> usize {
        let call = self.group.call;
        call.place
            .row(self.group.rows.start + row, call.time.time(s))
    }

    /// Blends and stores some units of one row's new state.
    #[inline(always)]
    fn new_state<S: Simd>(
        &self,
        simd: S,
        z: E::V<S>,
        n: E::V<S>,
        row: usize,
        s: usize,
        units: &Range<usize>,
    ) {
        let call = self.group.call;
        // SAFETY: the state before this step is complete, and nobody writes it any more.
        let old = unsafe { self.some::<S>(simd, self.previous(row, s), units) };
        let mut new = match call.spec.update {
            Update::Keeps => E::vfma(simd, z, E::vsub(simd, old, n), n),
            Update::Takes => E::vfma(simd, z, E::vsub(simd, n, old), old),
        };
        if let (false, Some(c)) = (COMMON, call.spec.clip_state) {
            new = clip::<E, S>(simd, new, c);
        }
        let at = self.saved_row(row, s);
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
