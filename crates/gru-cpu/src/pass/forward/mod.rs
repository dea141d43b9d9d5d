//! The forward pass: rounds of some steps. Each round begins with the input product of all its steps.

mod round;
mod step;

use super::{
    by_rows::RowMemory,
    chain::run_chains,
    gate_rows::GateCells,
    project::InputProduct,
    weights::{ForwardWeights, Matrices},
};
use crate::{
    call::{Call, Gru, Inputs, LiveRows, Ragged, Sequence, Sorted},
    product::{Buffer, Rows},
    simd::{Gates, Lanes, Machine},
    spec::{Lengths, Reset},
    threads::{Plan, for_each, run_solo, run_team},
    tuning::BARRIER_FROM,
};
use alloc::vec::Vec;
use core::ops::Range;

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
    let weights = &ForwardWeights::for_call(&machine, &call.layer());
    let gates = &Gates::new(&machine, &call.spec);
    let (update, direction) = (call.spec.update, gru.order.direction);
    if saved.is_none()
        && lengths.of_rows().is_none()
        && let Some(chain) = weights.chain(&gru.sizes, update, direction, &inputs.sequence)
    {
        return run_chains(&machine, &gru.sizes, inputs.sequence.x, &[chain], states);
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

/// The initial state of every row and the state of a start, if the call needs and does not have them.
pub(super) fn initial_zeros<E: Lanes>(call: &Call<'_, E>) -> Vec<E> {
    let sequence = &call.inputs.sequence;
    let needs_start = sequence.starts.is_some() && sequence.start_state.is_none();
    if sequence.h0.is_none() || needs_start {
        vec![E::zero(); call.sizes.h]
    } else {
        Vec::new()
    }
}

/// A call, as all its groups share it.
pub(super) struct Pass<'a, E> {
    pub(super) call: Call<'a, E>,
    pub(super) machine: Machine,
    pub(super) weights: &'a ForwardWeights<'a, E>,
    pub(super) gates: &'a Gates<E>,
    pub(super) states: Rows<'a, E>,
    pub(super) saved: Option<Rows<'a, E>>,
    /// See [`initial_zeros`].
    pub(super) zeros: &'a [E],
}

impl<E: Lanes> Pass<'_, E> {
    /// Runs all steps of rows of these lengths with all threads that the call may use.
    pub(super) fn run(&self, lengths: &Lengths) {
        let (parts, sizes) = (self.weights.parts(), self.call.sizes);
        let plan = Plan::new(sizes, parts, size_of::<E>(), BARRIER_FROM);
        if lengths.of_rows().is_none() {
            return self.run_groups(&plan, None);
        }
        let ragged = Ragged::new(sizes, self.call.order(), lengths, plan.groups);
        let plan = plan.with_groups(ragged.groups().len(), parts);
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
        let encoded = scratch.encoded.words_mut();
        let words = encoded.len();
        Group {
            pass: self,
            is_plain: self.call.spec.clip_state.is_none()
                && self.call.inputs.sequence.zoneout.is_none()
                && self.call.inputs.sequence.step_mask.is_none(),
            cells: GateCells {
                weights: self.weights,
                gates: self.gates,
                h,
                after: self.call.spec.reset == Reset::AfterMatmul,
                p: InputProduct {
                    cells: Rows::new(scratch.p.as_mut(), scratch.p_width),
                    per_panel: steps * rows.len(),
                },
                rg: Rows::new(scratch.rg.as_mut(), h),
                memory: RowMemory {
                    products: Rows::new(scratch.products.as_mut(), scratch.product_width),
                    encoded: Rows::new(encoded, words),
                },
            },
            steps,
            g: Rows::new(scratch.g.as_mut(), h),
            rows,
            live: None,
        }
    }
}

/// The memory of a [`Group`].
pub(super) struct Scratch<E> {
    p: Buffer<E>,
    p_width: usize,
    g: Buffer<E>,
    rg: Buffer<E>,
    products: Buffer<E>,
    product_width: usize,
    encoded: Buffer<f32>,
}

impl<E: Lanes> Scratch<E> {
    /// The memory of one row: its products of the input and of the state, and an encoded row.
    pub(super) fn of_row(&mut self) -> ([&mut [E]; 2], &mut [u32]) {
        let products = [self.p.as_mut(), self.products.as_mut()];
        (products, self.encoded.words_mut())
    }

    pub(super) fn new(pass: &Pass<'_, E>, rows: usize) -> Self {
        let (call, panels) = (&pass.call, pass.weights.panels());
        let of_round = pass.steps(rows) * rows;
        let copies = |count: usize| Buffer::new(count * rows * call.sizes.h);
        let [product_width, words, at_once] = match &pass.weights.matrices {
            Matrices::Packed(_) => [0; 3],
            Matrices::ByRows(matrices) => matrices.memory(call.sizes.h),
        };
        // One vector of each gate, or all products.
        let (p_width, p_rows) = match product_width {
            0 => (3 * pass.machine.lanes, panels * of_round),
            width => (width, of_round),
        };
        Self {
            p: Buffer::new(p_rows * p_width),
            p_width,
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
            products: Buffer::new(rows * product_width),
            product_width,
            encoded: Buffer::new(at_once.min(of_round) * words),
        }
    }
}

/// Rows of the batch that a team of threads computes together.
struct Group<'a, E> {
    pass: &'a Pass<'a, E>,
    /// Whether a new state is only the blend of z, h₋₁ and n.
    is_plain: bool,
    rows: Range<usize>,
    /// If rows have different lengths: the live rows of each step, and the steps of each round.
    live: Option<(&'a LiveRows, &'a [Range<usize>])>,
    /// Steps of a round.
    steps: usize,
    cells: GateCells<'a, E>,
    /// With a mask: `m ⊙ h₋₁` of even steps and of odd steps, and with starts `m ⊙` the start state.
    g: Rows<'a, E>,
}
