//! Weights that are packed once for many calls.

use super::{
    forward::{Pass, Scratch, initial_zeros},
    small::{self, Chain},
    weights::Weights,
};
use crate::{
    call::{self, Call, Gru, Inputs, Sequence},
    product::Rows,
    simd::{Gates, Machine},
    spec::{Direction, GruSpec, Lengths, Order, Sizes},
};

/// What a forward pass needs of a layer, whose weights are packed for the instruction set of this machine. A short call
/// of [`Gru::forward`] adds in another order, so its last bits may differ.
pub(crate) struct Packed {
    spec: GruSpec,
    i: usize,
    h: usize,
    machine: Machine,
    weights: Weights<'static, f32>,
    gates: Gates<f32>,
    /// See [`Weights::is_small`].
    is_small: bool,
}

impl Packed {
    /// The weights have the right sizes, and `w_ih` is among them.
    pub(crate) fn new(spec: &GruSpec, [i, h]: [usize; 2], weights: call::Weights<'_, f32>) -> Self {
        let machine = Machine::here::<f32>();
        let inputs = &Inputs {
            sequence: Sequence::new(&[]),
            weights,
        };
        let gru = Gru::new(Sizes { n: 0, t: 0, i, h }, *spec);
        let call = Call::new(&gru, inputs);
        let weights = Weights::packed(&machine, &call);
        let gates = Gates::new(&machine, &call.spec);
        Self {
            is_small: weights.is_small(&call.spec, &gates, h),
            spec: *spec,
            i,
            h,
            weights: weights.into_owned(),
            gates,
            machine,
        }
    }

    /// Bytes of the panels and biases.
    pub(crate) fn bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// Writes the state after every step of N rows and T steps. The lengths of the slices were checked.
    pub(crate) fn forward(
        &self,
        order: Order,
        [n, t]: [usize; 2],
        lengths: &Lengths,
        sequence: Sequence<'_, f32>,
        states: &mut [f32],
    ) {
        if states.is_empty() {
            return;
        }
        let (sizes, spec) = (self.sizes(n, t), self.spec);
        if lengths.of_rows().is_none()
            && let Some(chain) = self.chain(&sizes, order.direction, &sequence)
        {
            return self.run_chains(t, sequence.x, &[chain], states);
        }
        let (gru, inputs) = (Gru { sizes, order, spec }, inputs(sequence));
        let zeros = initial_zeros(&Call::new(&gru, &inputs));
        self.pass(&gru, &inputs, states, &zeros).run(lengths);
    }

    /// Writes the states of both directions of one row, `[T,2·H]`, if that is faster in one call. The sequences have
    /// the same x, and all lengths were checked.
    pub(crate) fn forward_both(
        layers: [&Self; 2],
        directions: [Direction; 2],
        [n, t]: [usize; 2],
        sequences: [Sequence<'_, f32>; 2],
        states: &mut [f32],
    ) -> bool {
        let sizes = layers[0].sizes(n, t);
        let chain = |at: usize| layers[at].chain(&sizes, directions[at], &sequences[at]);
        let (Some(first), Some(second)) = (chain(0), chain(1)) else {
            return false;
        };
        layers[0].run_chains(t, sequences[0].x, &[first, second], states);
        true
    }

    /// The memory of [`step`](Self::step) with N rows.
    pub(crate) fn step_scratch(&self, n: usize) -> StepScratch {
        let (gru, inputs) = (self.one_step(n), inputs(Sequence::new(&[])));
        StepScratch(Scratch::new(&self.pass(&gru, &inputs, &mut [], &[]), n))
    }

    /// One step of N rows on this thread, without any allocation: from `x` and the states `h` to the new states. The
    /// lengths were checked.
    pub(crate) fn step(
        &self,
        n: usize,
        [x, h]: [&[f32]; 2],
        zoneout: Option<&[f32]>,
        new: &mut [f32],
        scratch: &mut StepScratch,
    ) {
        let sequence = Sequence {
            h0: Some(h),
            zoneout,
            ..Sequence::new(x)
        };
        if let Some(chain) = self.chain(&self.sizes(n, 1), Direction::Forward, &sequence) {
            self.run_chains(1, x, &[chain], new);
        } else if !new.is_empty() {
            let (gru, inputs) = (self.one_step(n), inputs(sequence));
            self.pass(&gru, &inputs, new, &[]).step(&mut scratch.0);
        }
    }

    fn sizes(&self, n: usize, t: usize) -> Sizes {
        let (i, h) = (self.i, self.h);
        Sizes { n, t, i, h }
    }

    fn one_step(&self, n: usize) -> Gru {
        Gru::new(self.sizes(n, 1), self.spec)
    }

    /// See [`Weights::chain`].
    fn chain<'a>(
        &'a self,
        sizes: &Sizes,
        direction: Direction,
        sequence: &Sequence<'a, f32>,
    ) -> Option<Chain<'a, f32>> {
        let chain = || {
            let update = self.spec.update;
            self.weights.chain(sizes, update, direction, sequence)
        };
        self.is_small.then(chain).flatten()
    }

    /// Writes all states of a row, `[T,D·H]`, in D directions of equal sizes.
    fn run_chains(&self, t: usize, x: &[f32], chains: &[Chain<'_, f32>], states: &mut [f32]) {
        small::run_chains(&self.machine, &self.sizes(1, t), x, chains, states);
    }

    fn pass<'a>(
        &'a self,
        gru: &'a Gru,
        inputs: &'a Inputs<'a, f32>,
        states: &'a mut [f32],
        zeros: &'a [f32],
    ) -> Pass<'a, f32> {
        Pass {
            call: Call::new(gru, inputs),
            machine: self.machine,
            weights: &self.weights,
            gates: self.gates,
            states: Rows::new(states, self.h),
            saved: None,
            zeros,
        }
    }
}

/// The inputs of a call. Its weights only state that there is an input product: the packed weights are read.
fn inputs(sequence: Sequence<'_, f32>) -> Inputs<'_, f32> {
    Inputs {
        sequence,
        weights: call::Weights::new(Some(&[]), &[]),
    }
}

/// The memory of a step.
pub(crate) struct StepScratch(Scratch<f32>);
