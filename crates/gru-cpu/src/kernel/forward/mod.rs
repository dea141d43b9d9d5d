//! The forward walk.

mod project;
mod step;

use self::{
    project::Project,
    step::{Step, units},
};
use super::{
    buffer::Buffer,
    denormals::Flush,
    gate::{Gate, gates},
    is_common,
    isa::arch,
    panels::Panels,
    plan::{MEET_FROM, Plan, tiles},
    rows::Rows,
    team::{Member, Rounds, together},
    tile::tile_rows,
    weights::Weights,
};
use crate::{
    dims::{Dims, Inputs, Place, Walk},
    element::Element,
    spec::{GruSpec, Reset},
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

impl<E: Element> WithSimd for Call<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Dims { t, h, .. } = *self.dims;
        let (lanes, tile) = (E::lanes::<S>(), tile_rows::<S>());
        let after = self.spec.reset == Reset::AfterMatmul;
        let weights = Weights::new::<S>(self.dims, self.spec, self.inputs);
        let gates = gates::<E, S>(simd, self.spec);
        let slots = if is_common(self.spec, self.inputs) {
            3
        } else {
            4
        };
        let (panels, size) = (h.div_ceil(lanes), size_of::<E>());
        let plan = Plan::new(self.dims, panels, tile, size, MEET_FROM);
        let zeros = vec![E::zero(); if self.inputs.h0.is_none() { h } else { 0 }];
        let group = |rows: Range<usize>| {
            let steps = Plan::steps_per_round(self.dims, rows.len(), size_of::<E>());
            let cells = |wanted: bool, copies| {
                Buffer::new(if wanted { copies * rows.len() * h } else { 0 })
            };
            let mut p = Buffer::new(weights.state.count() * steps * rows.len() * slots * lanes);
            let mut g = cells(self.inputs.mask.is_some(), 2);
            let mut rg = cells(!after, 1);
            let group = Group {
                call: &self,
                weights: &weights,
                tiles: tiles(0..rows.len(), tile).collect(),
                steps,
                p: Rows::new(p.as_mut(), slots * lanes),
                gates: &gates,
                g: Rows::new(g.as_mut(), h),
                rg: Rows::new(rg.as_mut(), h),
                zeros: &zeros,
                rows,
            };
            together(plan.members, t.div_ceil(steps), &group);
        };
        if plan.groups == 1 {
            return group(plan.rows(0));
        }
        rayon::in_place_scope(|scope| {
            let (group, plan) = (&group, &plan);
            (1..plan.groups).for_each(|k| scope.spawn(move |_| group(plan.rows(k))));
            group(plan.rows(0));
        });
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
    /// Steps of a round.
    steps: usize,
    /// The input product of a round: for each panel and each row of each step, a vector of r, z, n,
    /// and where the activations are uncommon one more for q_n.
    p: Rows<'a, E>,
    /// With a mask: `m ⊙ h₋₁`, of even steps and of odd ones.
    g: Rows<'a, E>,
    /// Reset before the product: `r ⊙ g`.
    rg: Rows<'a, E>,
    /// H of them, where there is no initial state.
    zeros: &'a [E],
}

impl<E: Element> Rounds for Group<'_, E> {
    // Out of line, or the code of every instruction set would hold that of all others.
    #[inline(never)]
    fn round(&self, round: usize, member: &mut Member<'_>) {
        let _flush = Flush::set();
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
            group,
            first,
            member,
        } = self;
        let steps = first..(first + group.steps).min(group.call.dims.t);
        let panels = member.share(group.weights.state.count());
        let step = Step::<E, COMMON, AFTER> { group, first };
        // One function for all variants of the step.
        simd.vectorize(Project {
            group,
            steps: steps.clone(),
            panels: panels.clone(),
        });
        if first == 0 && group.call.inputs.mask.is_some() {
            group.mask_initial(units(&panels, E::lanes::<S>(), group.call.dims.h));
            member.meet();
        }
        for s in steps.clone() {
            for panel in panels.clone() {
                let next = if panel + 1 < panels.end {
                    panel + 1
                } else {
                    panels.start
                };
                let next = group.weights.state.panel(next);
                for (tile, &(row, size)) in group.tiles.iter().enumerate() {
                    let part = (tile, group.tiles.len());
                    step.tile(simd, (row, size), s, panel, (next, part));
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
                        step.candidate(simd, (row, size), s, panel);
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
