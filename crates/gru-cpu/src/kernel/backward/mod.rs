//! The backward walk.

mod step;

use self::step::Step;
use super::{
    buffer::Buffer,
    gate::{Gate, gates},
    is_common,
    isa::arch,
    panels::{Panels, Shape},
    plan::{Plan, tiles},
    rows::Rows,
    team::{Member, Rounds, together},
    tile::tile_rows,
};
use crate::{
    dims::{Dims, Inputs, Place, Walk},
    product::Element,
    spec::{GruSpec, Reset},
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
