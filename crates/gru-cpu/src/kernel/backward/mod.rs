//! The backward pass: a walk back through time in rounds of some steps, each followed by the
//! products over its rows while they are in the cache.

mod products;
mod replay;
mod step;

use self::{
    products::{Outer, Packed, Sides},
    replay::Replay,
    step::Step,
};
use super::{
    blocks::Blocks,
    buffer::Buffer,
    denormals::Flush,
    gate::{Gate, gates},
    is_common,
    isa::arch,
    panels::{MOST_VECTORS, Panels, Shape},
    plan::{MEET_BACK_FROM, Plan, split, tiles},
    rows::Rows,
    team::{Member, Rounds, together},
    tile::tile_rows,
};
use crate::{
    backward::{Gradients, write_bias},
    dims::{Dims, Inputs, Place, Walk},
    element::Element,
    spec::{GruSpec, Reset},
};
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;

/// Writes the gradients; without `saved`, the gates are made anew from the states.
pub(crate) fn back<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: Option<&[E]>,
    d_states: &[E],
    to: Gradients<'_, E>,
) {
    let h = dims.h;
    let width = spec.saved_per_unit() * h;
    let (mut bias, mut lost) = (vec![E::zero(); width], vec![E::zero(); width]);
    let mut own_dh = vec![E::zero(); if to.h0.is_some() { 0 } else { dims.n * h }];
    let dh = match to.h0 {
        Some(dh) => {
            dh.fill(E::zero());
            dh
        }
        None => &mut own_dh,
    };
    let arch = arch();
    let call = Call {
        dims,
        spec,
        inputs,
        states,
        saved,
        d_states,
        dh: Rows::new(dh, h),
        dx: to.x.map(|dx| Rows::new(dx, inputs.features(dims))),
        dw_ih: to.w_ih.map(|dw| Rows::new(dw, 3 * h)),
        dw_hh: to.w_hh.map(|dw| Rows::new(dw, 3 * h)),
        bias: (to.b_ih.is_some() || to.b_hh.is_some()).then(|| Bias {
            sums: Rows::new(&mut bias, h),
            lost: Rows::new(&mut lost, h),
        }),
        place: dims.place(spec.layout),
        time: Walk::new(dims, spec),
        arch,
    };
    arch.dispatch(call);
    // An infinite sum has lost nothing that counts.
    let lost = lost
        .into_iter()
        .map(|lost| if lost.is_finite() { lost } else { E::zero() });
    bias.iter_mut()
        .zip(lost)
        .for_each(|(sum, lost)| *sum = *sum + lost);
    write_bias(&bias, h, to.b_ih, to.b_hh);
}

struct Call<'a, E> {
    dims: &'a Dims,
    spec: &'a GruSpec,
    inputs: &'a Inputs<'a, E>,
    states: &'a [E],
    saved: Option<&'a [E]>,
    d_states: &'a [E],
    /// The gradient of the state, `[N,H]`: of the state before the step last walked.
    dh: Rows<'a, E>,
    dx: Option<Rows<'a, E>>,
    dw_ih: Option<Rows<'a, E>>,
    dw_hh: Option<Rows<'a, E>>,
    bias: Option<Bias<'a, E>>,
    place: Place,
    time: Walk,
    arch: Arch,
}

/// For each gate of `d` the sum over rows and steps, and what its roundings have lost.
#[derive(Clone, Copy)]
struct Bias<'a, E> {
    sums: Rows<'a, E>,
    lost: Rows<'a, E>,
}

/// Vectors of a panel, the last of which may have fewer: with the rows of a full tile they make as
/// many sums as there are registers for. With two, 16 sums, a step took 15 to 30% longer.
const VECTORS: usize = MOST_VECTORS;

/// The transposed weights.
struct Weights<'a, E> {
    /// Reset after the product: of all gates. Before it: of r and z.
    gates: Panels<'a, E>,
    /// Reset before the product: of n.
    candidate: Option<Panels<'a, E>>,
    /// Of the input product, if the gradient of the input is wanted.
    input: Option<Panels<'a, E>>,
}

/// The gates of `d`, the gradients of the pre-activations: `dr̄`, `dz̄`, `dn̄`, and, where the reset
/// gate acts after the product, `dn̄ ⊙ r`.
mod gate_of_d {
    use std::ops::Range;

    pub(super) const R: usize = 0;
    pub(super) const Z: usize = 1;
    pub(super) const N: usize = 2;
    pub(super) const N_TIMES_R: usize = 3;

    /// Neighbours, as products read them one after the other.
    pub(super) const ALL: Range<usize> = R..N + 1;
    pub(super) const R_AND_Z: Range<usize> = R..Z + 1;
}

impl<E: Element> WithSimd for Call<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let gates = gates::<E, S>(simd, self.spec);
        let Dims { n, t, i, h } = *self.dims;
        let (lanes, tile) = (E::lanes::<S>(), tile_rows::<S>());
        let (after, w_hh) = (self.spec.reset == Reset::AfterMatmul, self.inputs.w_hh);
        let shape = |k: usize, columns: usize| Shape::units(k, columns, lanes, VECTORS, 0);
        let transposed = |w, first, shape| Panels::transposed(w, 3 * h, first, shape);
        let weights = Weights {
            gates: transposed(w_hh, 0, shape(if after { 3 } else { 2 } * h, h)),
            candidate: (!after).then(|| transposed(w_hh, 2 * h, shape(h, h))),
            input: match (&self.dx, self.inputs.w_ih) {
                (Some(_), Some(w_ih)) => Some(transposed(w_ih, 0, shape(3 * h, i))),
                _ => None,
            },
        };
        let (panels, size) = (weights.gates.count(), size_of::<E>());
        let plan = Plan::new(self.dims, panels, tile, size, MEET_BACK_FROM);
        let steps = Plan::steps_back(self.dims, size_of::<E>());
        let rows = steps * n;
        let width = self.spec.saved_per_unit() * h;
        // Sizes that are not wanted are empty.
        let buffer = |wanted: bool, size: usize| Buffer::new(if wanted { size } else { 0 });
        let left =
            |wanted: bool, columns: usize| buffer(wanted, columns.div_ceil(tile) * rows * tile);
        let mut d = Buffer::new(Blocks::<E>::size(self.spec.saved_per_unit(), h, rows));
        let mut ds = buffer(!after, n * h);
        let again = self.saved.is_none();
        let mut replayed = buffer(again, rows * width);
        let mut again_g = buffer(again && self.inputs.mask.is_some(), rows * h);
        let mut again_rg = buffer(again && !after, rows * h);
        let zeros = vec![E::zero(); if self.inputs.h0.is_none() { h } else { 0 }];
        let mut x = left(self.dw_ih.is_some(), i);
        let mut g = left(self.dw_hh.is_some(), h);
        let mut rg = left(self.dw_hh.is_some() && !after, h);
        let work = Work {
            call: &self,
            weights: &weights,
            gates: &gates,
            plan: &plan,
            steps,
            d: Blocks::new(d.as_mut(), h, rows),
            ds: Rows::new(ds.as_mut(), h),
            replay: again.then(|| Replay {
                weights: super::weights::Weights::new::<S>(self.dims, self.spec, self.inputs),
                made: Rows::new(replayed.as_mut(), width),
                g: Rows::new(again_g.as_mut(), h),
                rg: Rows::new(again_rg.as_mut(), h),
            }),
            zeros: &zeros,
            sides: Sides {
                x: Packed::new::<S>(x.as_mut(), rows),
                g: Packed::new::<S>(g.as_mut(), rows),
                rg: Packed::new::<S>(rg.as_mut(), rows),
            },
        };
        together(plan.threads(), t.div_ceil(steps), &work);
    }
}

/// What all threads of a call share.
struct Work<'a, E> {
    call: &'a Call<'a, E>,
    weights: &'a Weights<'a, E>,
    gates: &'a [Gate<E>; 3],
    plan: &'a Plan,
    /// Steps of a round.
    steps: usize,
    /// The gradients of the pre-activations of a round: for each step, every row of the batch.
    d: Blocks<'a, E>,
    /// Reset before the product: `ds ⊙ r`.
    ds: Rows<'a, E>,
    /// Where no gates were kept, those of a round.
    replay: Option<Replay<'a, E>>,
    /// Left sides of the products over rows.
    sides: Sides<'a, E>,
    /// H of them, where there is no initial state.
    zeros: &'a [E],
}

impl<E: Element> Rounds for Work<'_, E> {
    // Out of line, or the code of every instruction set would hold that of all others.
    #[inline(never)]
    fn round(&self, round: usize, member: &mut Member<'_>) {
        let _flush = Flush::set();
        self.call.arch.dispatch(Round {
            work: self,
            round,
            member,
        });
    }
}

/// One thread's share of a round.
struct Round<'a, 'b, 'c, E> {
    work: &'a Work<'b, E>,
    round: usize,
    member: &'a mut Member<'c>,
}

impl<E: Element> WithSimd for Round<'_, '_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let call = self.work.call;
        match (is_common(call.spec, call.inputs), call.spec.reset) {
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
            work,
            round,
            member,
        } = self;
        let Dims { n, t, .. } = *work.call.dims;
        let steps = t.saturating_sub((round + 1) * work.steps)..t - round * work.steps;
        let rows = steps.len() * n;
        let own = split(rows, member.team, tile_rows::<S>(), member.index);
        if work.replay.is_some() {
            work.replay::<S, COMMON, AFTER>(simd, steps.start, own.clone());
            member.meet();
        }
        work.walk::<S, COMMON, AFTER>(simd, steps.clone(), member);
        work.pack(simd, steps.clone(), own.clone());
        member.meet();
        for product in work.outer::<AFTER>().into_iter().flatten() {
            work.add_product(simd, &product, rows, round == 0, member);
        }
        work.input_gradients(simd, steps.start, own);
        work.add_bias(simd, rows, member);
    }
}

impl<E: Element> Work<'_, E> {
    /// From the upstream gradients of some steps to those of their pre-activations.
    #[inline(always)]
    fn walk<S: Simd, const COMMON: bool, const AFTER: bool>(
        &self,
        simd: S,
        steps: Range<usize>,
        member: &mut Member<'_>,
    ) {
        let (h, full) = (self.call.dims.h, tile_rows::<S>());
        let seat = self.plan.seat(member.index, member.team);
        let panels = seat.share(self.weights.gates.count());
        let width = VECTORS * E::lanes::<S>();
        let units = (panels.start * width).min(h)..(panels.end * width).min(h);
        let step = Step::<E, COMMON, AFTER> {
            work: self,
            first: steps.start,
        };
        for s in steps.rev() {
            for n in seat.rows.clone() {
                step.through_gates(simd, n, s, &units);
            }
            member.meet_some(&seat.peers);
            if !AFTER {
                for panel in panels.clone() {
                    for (row, size) in tiles(seat.rows.clone(), full) {
                        step.through_candidate(simd, (row, size), panel, s);
                    }
                }
                for n in seat.rows.clone() {
                    step.through_reset(simd, n, s, &units);
                }
                member.meet_some(&seat.peers);
            }
            for panel in panels.clone() {
                let next = if panel + 1 < panels.end {
                    panel + 1
                } else {
                    panels.start
                };
                let next = self.weights.gates.panel(next);
                let tiles = tiles(seat.rows.clone(), full);
                let count = tiles.len();
                for (tile, (row, size)) in tiles.enumerate() {
                    step.through_product(simd, (row, size), panel, s, (next, (tile, count)));
                }
            }
        }
    }

    /// The products over rows: `dw_ih = xᵀ·dp`, `dw_hh = gᵀ·dq`.
    #[inline(always)]
    fn outer<const AFTER: bool>(&self) -> [Option<Outer<'_, E>>; 3] {
        use gate_of_d::{N, N_TIMES_R, R, Z};
        let Dims { i, h, .. } = *self.call.dims;
        let Sides { x, g, rg } = self.sides;
        let input = self.call.dw_ih.map(|to| Outer {
            left: x,
            columns: i,
            gates: &[R, Z, N],
            first: 0,
            to,
        });
        let state = |left, gates, first| {
            self.call.dw_hh.map(|to| Outer {
                left,
                columns: h,
                gates,
                first,
                to,
            })
        };
        match AFTER {
            true => [input, state(g, &[R, Z, N_TIMES_R], 0), None],
            false => [input, state(g, &[R, Z], 0), state(rg, &[N], 2)],
        }
    }
}
