//! The forward pass: rounds of some steps, each begun by the input product of them all.

mod project;
mod step;

use self::{project::Project, step::Steps};
use super::{units, weights::Weights};
use crate::{
    call::{Call, Gru, Inputs},
    product::{Buffer, Rows},
    simd::{Gates, Lanes, Machine},
    spec::Reset,
    threads::{Member, Plan, Rounds, Tiles, alone, beside, tiles, together},
    tuning::MEET_FROM,
};
use std::ops::Range;

/// Writes the states, and the gates to `saved` if that is there.
pub(crate) fn forward<E: Lanes>(
    gru: &Gru,
    inputs: &Inputs<'_, E>,
    states: &mut [E],
    saved: Option<&mut [E]>,
) {
    let machine = Machine::here::<E>();
    let call = Call::new(gru, inputs);
    Pass {
        weights: &Weights::for_call(&machine, &call),
        gates: Gates::new(&machine, &call.spec),
        states: Rows::new(states, gru.sizes.h),
        saved: saved.map(|saved| Rows::new(saved, call.saved_width())),
        zeros: &vec![
            E::zero();
            if inputs.sequence.h0.is_none() {
                gru.sizes.h
            } else {
                0
            }
        ],
        machine,
        call,
    }
    .run();
}

/// What all threads of a call share.
pub(super) struct Pass<'a, E> {
    pub(super) call: Call<'a, E>,
    pub(super) machine: Machine,
    pub(super) weights: &'a Weights<'a, E>,
    pub(super) gates: Gates<E>,
    pub(super) states: Rows<'a, E>,
    pub(super) saved: Option<Rows<'a, E>>,
    /// H of them, where there is no initial state.
    pub(super) zeros: &'a [E],
}

impl<E: Lanes> Pass<'_, E> {
    /// Walks through time with all threads that the call may use.
    pub(super) fn run(&self) {
        let (panels, size) = (self.weights.state.count(), size_of::<E>());
        let sizes = self.call.sizes;
        let plan = Plan::new(sizes, panels, self.machine.tile_rows, size, MEET_FROM);
        let walk = |group: usize| {
            let rows = plan.rows(group);
            let mut scratch = Scratch::new(self, rows.len());
            let group = self.group(&mut scratch, rows);
            let rounds = sizes.t.div_ceil(group.steps);
            together(plan.members, rounds, Plan::patience(sizes), &group);
        };
        if plan.groups == 1 {
            return walk(0);
        }
        beside(1..plan.groups, walk, || walk(0));
    }

    /// Makes a single step on this thread, without a look at the memory's manager.
    pub(super) fn step(&self, scratch: &mut Scratch<E>) {
        alone(1, &self.group(scratch, 0..self.call.sizes.n));
    }

    /// Steps of a round of so many rows.
    fn steps(&self, rows: usize) -> usize {
        Plan::steps_per_round(self.call.sizes, rows, size_of::<E>())
    }

    fn group<'a>(&'a self, scratch: &'a mut Scratch<E>, rows: Range<usize>) -> Group<'a, E> {
        let h = self.call.sizes.h;
        Group {
            pass: self,
            after: self.call.spec.reset == Reset::AfterMatmul,
            is_plain: self.call.spec.clip_state.is_none()
                && self.call.inputs.sequence.zoneout.is_none()
                && self.call.inputs.sequence.step_mask.is_none(),
            tiles: tiles(0..rows.len(), self.machine.tile_rows),
            steps: self.steps(rows.len()),
            p: Rows::new(scratch.p.as_mut(), 3 * self.machine.lanes),
            g: Rows::new(scratch.g.as_mut(), h),
            rg: Rows::new(scratch.rg.as_mut(), h),
            rows,
        }
    }
}

/// The memory of a [`Group`].
pub(super) struct Scratch<E> {
    p: Buffer<E>,
    g: Buffer<E>,
    rg: Buffer<E>,
}

impl<E: Lanes> Scratch<E> {
    pub(super) fn new(pass: &Pass<'_, E>, rows: usize) -> Self {
        let (call, panels) = (&pass.call, pass.weights.state.count());
        let copies = |count: usize| Buffer::new(count * rows * call.sizes.h);
        Self {
            p: Buffer::new(panels * pass.steps(rows) * rows * 3 * pass.machine.lanes),
            g: copies(if call.inputs.sequence.recurrent_mask.is_some() {
                2
            } else {
                0
            }),
            rg: copies(if call.spec.reset == Reset::AfterMatmul {
                0
            } else {
                1
            }),
        }
    }
}

/// The rows that some threads walk together.
struct Group<'a, E> {
    pass: &'a Pass<'a, E>,
    /// Whether the reset gate acts after the product.
    after: bool,
    /// Whether a new state is z, h₋₁ and n blended, and nothing else.
    is_plain: bool,
    rows: Range<usize>,
    /// Its rows, counted from the first, in tiles.
    tiles: Tiles,
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
        let Pass { machine, call, .. } = self.pass;
        let first = round * self.steps;
        let steps = first..(first + self.steps).min(call.sizes.t);
        let panels = member.share(self.pass.weights.state.count());
        machine.arch.dispatch(Project {
            group: self,
            steps: steps.clone(),
            panels: panels.clone(),
        });
        if first == 0 && call.inputs.sequence.recurrent_mask.is_some() {
            self.mask_initial(units(panels.clone(), machine.lanes, call.sizes.h));
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
        let sequence = &self.pass.call.inputs.sequence;
        let (h0, mask) = (sequence.h0, sequence.recurrent_mask);
        let h = self.pass.call.sizes.h;
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
