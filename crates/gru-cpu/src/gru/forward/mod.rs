//! The forward pass: rounds of some steps, each begun by the input product of them all.

mod project;
mod step;

use self::{project::Project, step::Steps};
use super::{units, weights::Weights};
use crate::{
    call::{Call, Dims, Inputs},
    product::{Buffer, Rows},
    simd::{Flush, Gates, Lanes, Machine},
    spec::{GruSpec, Reset},
    threads::{Member, Plan, Rounds, tiles, together},
    tuning::MEET_FROM,
};
use std::ops::Range;

/// Writes the states, and the gates to `saved` if that is there.
pub(crate) fn forward<E: Lanes>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &mut [E],
    saved: Option<&mut [E]>,
) {
    let machine = Machine::here::<E>();
    let call = Call::new(dims, spec, inputs);
    let pass = Pass {
        machine,
        weights: &Weights::new(&machine, &call),
        gates: Gates::new(&machine, spec),
        states: Rows::new(states, dims.h),
        saved: saved.map(|saved| Rows::new(saved, call.saved_width())),
        zeros: &vec![E::zero(); if inputs.h0.is_none() { dims.h } else { 0 }],
        call,
    };
    let (panels, size) = (pass.weights.state.count(), size_of::<E>());
    let plan = Plan::new(dims, panels, machine.tile_rows, size, MEET_FROM);
    let walk = |group: usize| pass.walk(plan.rows(group), plan.members);
    if plan.groups == 1 {
        return walk(0);
    }
    rayon::in_place_scope(|scope| {
        let walk = &walk;
        (1..plan.groups).for_each(|group| scope.spawn(move |_| walk(group)));
        walk(0);
    });
}

/// What all threads of a call share.
struct Pass<'a, E> {
    call: Call<'a, E>,
    machine: Machine,
    weights: &'a Weights<'a, E>,
    gates: Gates<E>,
    states: Rows<'a, E>,
    saved: Option<Rows<'a, E>>,
    /// H of them, where there is no initial state.
    zeros: &'a [E],
}

impl<E: Lanes> Pass<'_, E> {
    /// Walks through time with some rows of the batch, and so many threads.
    fn walk(&self, rows: Range<usize>, members: usize) {
        let Dims { t, h, .. } = *self.call.dims;
        let after = self.call.spec.reset == Reset::AfterMatmul;
        let steps = Plan::steps_per_round(self.call.dims, rows.len(), size_of::<E>());
        let wanted = |wanted: bool, copies: usize| match wanted {
            true => Buffer::new(copies * rows.len() * h),
            false => Buffer::new(0),
        };
        let width = 3 * self.machine.lanes;
        let mut p = Buffer::new(self.weights.state.count() * steps * rows.len() * width);
        let mut g = wanted(self.call.inputs.mask.is_some(), 2);
        let mut rg = wanted(!after, 1);
        let group = Group {
            pass: self,
            after,
            tiles: tiles(0..rows.len(), self.machine.tile_rows).collect(),
            steps,
            p: Rows::new(p.as_mut(), width),
            g: Rows::new(g.as_mut(), h),
            rg: Rows::new(rg.as_mut(), h),
            rows,
        };
        let patience = Plan::patience(self.call.dims);
        together(members, t.div_ceil(steps), patience, &group);
    }
}

/// The rows that some threads walk together.
struct Group<'a, E> {
    pass: &'a Pass<'a, E>,
    /// Whether the reset gate acts after the product.
    after: bool,
    rows: Range<usize>,
    /// First row, counted from the group's, and number of rows.
    tiles: Vec<(usize, usize)>,
    /// Steps of a round.
    steps: usize,
    /// The input product of a round: for each panel and each row of each step, a vector of r, z, n.
    p: Rows<'a, E>,
    /// With a mask: `m ⊙ h₋₁`, of even steps and of odd ones.
    g: Rows<'a, E>,
    /// Reset before the product: `r ⊙ g`.
    rg: Rows<'a, E>,
}

impl<E: Lanes> Rounds for Group<'_, E> {
    fn round(&self, round: usize, member: &mut Member<'_>) {
        let _flush = Flush::set();
        let Pass { machine, call, .. } = self.pass;
        let first = round * self.steps;
        let steps = first..(first + self.steps).min(call.dims.t);
        let panels = member.share(self.pass.weights.state.count());
        machine.arch.dispatch(Project {
            group: self,
            steps: steps.clone(),
            panels: panels.clone(),
        });
        if first == 0 && call.inputs.mask.is_some() {
            self.mask_initial(units(panels.clone(), machine.lanes, call.dims.h));
            member.meet();
        }
        machine.arch.dispatch(Steps {
            group: self,
            steps,
            panels,
            member,
        });
    }
}

impl<E: Lanes> Group<'_, E> {
    /// The row of `p` for the group's row `row` at the `s`-th step of a round.
    #[inline(always)]
    fn place_in_p(&self, panel: usize, s: usize, row: usize) -> usize {
        (panel * self.steps + s) * self.rows.len() + row
    }

    /// `m ⊙ h₀` of some units, which are this thread's own until the threads meet.
    fn mask_initial(&self, units: Range<usize>) {
        let Inputs { h0, mask, .. } = *self.pass.call.inputs;
        let h = self.pass.call.dims.h;
        let Some(mask) = mask else { return };
        for (at, n) in self.rows.clone().enumerate() {
            // SAFETY: nobody else reads or writes these units before the threads meet.
            let g = unsafe { self.g.cells_mut(at, units.clone()) };
            for (g, unit) in g.iter_mut().zip(units.clone()) {
                *g = h0.map_or(E::zero(), |h0| h0[n * h + unit]) * mask[n * h + unit];
            }
        }
    }
}
