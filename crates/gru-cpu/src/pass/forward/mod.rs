//! The forward pass: rounds of some steps. Each round begins with the input product of all its steps.

mod step;
mod steps;

use self::steps::Steps;
use super::{
    project::{InputProduct, Project, RoundRows},
    small::run_chains,
    units,
    weights::{Matrices, Weights},
};
use crate::{
    call::{Call, Gru, Inputs, LiveRows, Ragged, Sequence, Sorted},
    product::{Buffer, ROWS, Rows},
    simd::{Gates, Lanes, Machine},
    spec::{Lengths, Reset},
    threads::{Member, Plan, Rounds, Tiles, acting, for_each, run_solo, run_team, tiles},
    tuning::BARRIER_FROM,
};
use std::ops::Range;

/// Writes the states, and the gates to `saved` if it is there.
pub(crate) fn forward<E: Lanes>(
    gru: &Gru,
    lengths: &Lengths,
    inputs: &Inputs<'_, E>,
    states: &mut [E],
    saved: Option<&mut [E]>,
) {
    let machine = Machine::here::<E>();
    let call = Call::new(gru, inputs);
    let weights = &Weights::for_call(&machine, &call);
    let gates = Gates::new(&machine, &call.spec);
    if saved.is_none()
        && lengths.of_rows().is_none()
        && weights.is_small(&call.spec, &gates, gru.sizes.h)
    {
        let (update, direction) = (call.spec.update, gru.order.direction);
        if let Some(chain) = weights.chain(&gru.sizes, update, direction, &inputs.sequence) {
            return run_chains(&machine, &gru.sizes, inputs.sequence.x, &[chain], states);
        }
    }
    Pass {
        weights,
        gates,
        states: Rows::new(states, gru.sizes.h),
        saved: saved.map(|saved| Rows::new(saved, call.saved_width())),
        zeros: &initial_zeros(&call),
        machine,
        call,
    }
    .run(lengths);
}

/// The initial state of every row and the state of a start, if the call does not have them.
pub(super) fn initial_zeros<E: Lanes>(call: &Call<'_, E>) -> Vec<E> {
    let sequence = &call.inputs.sequence;
    let len = if sequence.h0.is_none() || sequence.start_state.is_none() {
        call.sizes.h
    } else {
        0
    };
    vec![E::zero(); len]
}

/// What all threads of a call share.
pub(super) struct Pass<'a, E> {
    pub(super) call: Call<'a, E>,
    pub(super) machine: Machine,
    pub(super) weights: &'a Weights<'a, E>,
    pub(super) gates: Gates<E>,
    pub(super) states: Rows<'a, E>,
    pub(super) saved: Option<Rows<'a, E>>,
    /// H zeros, if there is no initial state or no start state.
    pub(super) zeros: &'a [E],
}

impl<E: Lanes> Pass<'_, E> {
    /// Runs all steps of rows of these lengths with all threads that the call may use.
    pub(super) fn run(&self, lengths: &Lengths) {
        let (panels, size) = (self.weights.panels(), size_of::<E>());
        let sizes = self.call.sizes;
        let plan = Plan::new(sizes, panels, size, BARRIER_FROM);
        if lengths.of_rows().is_none() {
            return self.run_groups(&plan, None);
        }
        let ragged = Ragged::new(sizes, self.call.order(), lengths, plan.groups);
        let plan = plan.with_groups(ragged.groups().len(), panels);
        let sorted = Sorted::new(&ragged, self.call.inputs, sizes.h);
        let inputs = &sorted.inputs(self.call.inputs);
        let call = self.call.with_rows(&ragged, inputs);
        Pass { call, ..*self }.run_groups(&plan, Some(&ragged));
    }

    fn run_groups(&self, plan: &Plan, ragged: Option<&Ragged>) {
        let sizes = self.call.sizes;
        let run_group = |group: usize| {
            let live = ragged.map(|ragged| &ragged.groups()[group]);
            let rows = live.map_or_else(|| plan.rows(group), |live| live.slots.clone());
            let mut scratch = Scratch::new(self, rows.len());
            let steps = self.steps(rows.len());
            let all = live.map(|live| live.rounds(steps * rows.len()));
            let count = all.as_ref().map_or(sizes.t.div_ceil(steps), Vec::len);
            let group = Group {
                live: live.zip(all.as_deref()),
                ..self.group(&mut scratch, rows)
            };
            let wait = Plan::helper_wait(sizes, steps * group.rows.len());
            run_team(plan.members, count, wait, &group);
        };
        for_each(plan.groups, 0..plan.groups, run_group);
    }

    /// Runs a single step on this thread, without any allocation.
    pub(super) fn step(&self, scratch: &mut Scratch<E>) {
        run_solo(1, &self.group(scratch, 0..self.call.sizes.n));
    }

    /// Steps of a round of so many rows.
    fn steps(&self, rows: usize) -> usize {
        Plan::steps_per_round(self.call.sizes, rows, size_of::<E>())
    }

    fn group<'a>(&'a self, scratch: &'a mut Scratch<E>, rows: Range<usize>) -> Group<'a, E> {
        let h = self.call.sizes.h;
        let steps = self.steps(rows.len());
        Group {
            pass: self,
            after: self.call.spec.reset == Reset::AfterMatmul,
            is_plain: self.call.spec.clip_state.is_none()
                && self.call.inputs.sequence.zoneout.is_none()
                && self.call.inputs.sequence.step_mask.is_none(),
            tiles: tiles(0..rows.len(), self.machine.tile_rows),
            p: InputProduct {
                cells: Rows::new(scratch.p.as_mut(), 3 * self.machine.lanes),
                per_panel: steps * rows.len(),
            },
            steps,
            g: Rows::new(scratch.g.as_mut(), h),
            rg: Rows::new(scratch.rg.as_mut(), h),
            products: Rows::new(scratch.products.as_mut(), 3 * h),
            rows,
            live: None,
        }
    }
}

/// The memory of a [`Group`].
pub(super) struct Scratch<E> {
    p: Buffer<E>,
    g: Buffer<E>,
    rg: Buffer<E>,
    products: Buffer<E>,
}

impl<E: Lanes> Scratch<E> {
    pub(super) fn new(pass: &Pass<'_, E>, rows: usize) -> Self {
        let (call, panels) = (&pass.call, pass.weights.panels());
        let copies = |count: usize| Buffer::new(count * rows * call.sizes.h);
        Self {
            p: Buffer::new(panels * pass.steps(rows) * rows * 3 * pass.machine.lanes),
            g: copies(match call.inputs.sequence {
                Sequence {
                    recurrent_mask: None,
                    ..
                } => 0,
                Sequence { starts: None, .. } => 2,
                _ => 3,
            }),
            rg: copies(if call.spec.reset == Reset::AfterMatmul {
                0
            } else {
                1
            }),
            products: Buffer::new(match pass.weights.matrices {
                Matrices::Packed(_) => 0,
                Matrices::InPlace { .. } => rows.max(ROWS) * 3 * call.sizes.h,
            }),
        }
    }
}

/// Rows of the batch that a team of threads computes together.
struct Group<'a, E> {
    pass: &'a Pass<'a, E>,
    /// Whether the reset gate acts after the product.
    after: bool,
    /// Whether a new state is only the blend of z, h₋₁ and n.
    is_plain: bool,
    rows: Range<usize>,
    /// If rows have different lengths: the live rows of each step, and the steps of each round.
    live: Option<(&'a LiveRows, &'a [Range<usize>])>,
    /// Its rows, counted from the first, in tiles.
    tiles: Tiles,
    /// Steps of a round.
    steps: usize,
    p: InputProduct<'a, E>,
    /// With a mask: `m ⊙ h₋₁` of even steps and of odd steps, and with starts `m ⊙` the start state.
    g: Rows<'a, E>,
    /// Reset before the product: `r ⊙ g`.
    rg: Rows<'a, E>,
    /// If the weights are read in place: the recurrent products `[3H]`, and before a round some input products.
    products: Rows<'a, E>,
}

impl<E: Lanes> Rounds for Group<'_, E> {
    fn round(&self, round: usize, member: &mut Member<'_>) {
        let Pass { machine, call, .. } = self.pass;
        let steps = match self.live {
            None => {
                let first = round * self.steps;
                first..(first + self.steps).min(call.sizes.t)
            }
            Some((_, rounds)) => rounds[round].clone(),
        };
        let round = RoundRows {
            batch: self.rows.clone(),
            first_step: steps.start,
            live: self.live.map(|(live, _)| live),
        };
        let h = call.sizes.h;
        let panels = member.share(self.pass.weights.panels());
        machine.arch.dispatch(Project {
            call,
            weights: self.pass.weights,
            round: round.clone(),
            rows: 0..round.before(steps.end),
            panels: panels.clone(),
            p: self.p,
            products: self.products,
        });
        let acting = acting(round.at(steps.start), h, BARRIER_FROM).min(member.team);
        let has_mask = steps.start == 0 && call.inputs.sequence.recurrent_mask.is_some();
        if has_mask {
            self.mask_initial(units(panels, machine.lanes, h));
        }
        if has_mask || acting < member.team {
            member.wait();
        }
        machine.arch.dispatch(Steps {
            group: self,
            round: &round,
            steps,
            acting,
            member,
        });
    }
}

impl<E: Lanes> Group<'_, E> {
    /// `m ⊙ h₀` of some units, and with starts `m ⊙` the start state. No other thread reads or writes them
    /// before the next barrier.
    fn mask_initial(&self, units: Range<usize>) {
        let sequence = &self.pass.call.inputs.sequence;
        let h = self.pass.call.sizes.h;
        let Some(mask) = sequence.recurrent_mask else {
            return;
        };
        let start_state = sequence.starts.map(|_| (2, sequence.start_state));
        for (slot, state) in [Some((0, sequence.h0)), start_state].into_iter().flatten() {
            for (at, n) in self.rows.clone().enumerate() {
                let row = slot * self.rows.len() + at;
                // SAFETY: no other thread reads or writes these units before the next barrier.
                let g = unsafe { self.g.cells_mut(row, units.clone()) };
                for (g, unit) in g.iter_mut().zip(units.clone()) {
                    let state = state.map_or(E::zero(), |state| state[n * h + unit]);
                    *g = state * mask[n * h + unit];
                }
            }
        }
    }
}
