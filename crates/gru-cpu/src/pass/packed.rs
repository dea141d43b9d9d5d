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
    spec::{Direction, GruSpec, Lengths, Sizes},
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
            weights,
            gates,
            machine,
        }
    }

    /// Bytes of the panels and biases.
    pub(crate) fn bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// Writes the state after every step. What is past the end of a row is neither read nor written. The call was
    /// checked.
    pub(crate) fn forward(
        &self,
        gru: &Gru,
        lengths: &Lengths,
        inputs: &Inputs<'_, f32>,
        states: Rows<'_, f32>,
    ) {
        let Sizes { n, t, h, .. } = gru.sizes;
        if n * t * h > 0 {
            let zeros = initial_zeros(&Call::new(gru, inputs));
            self.pass(gru, inputs, states, &zeros).run(lengths);
        }
    }

    /// Writes the states of one row in all D directions, `[T,D·H]`, if the layer is small enough for the kernel of a
    /// chain. The sequences have the same x, and the call was checked.
    pub(crate) fn forward_chains(
        directions: &[(&Self, Direction, Sequence<'_, f32>)],
        [n, t]: [usize; 2],
        states: &mut [f32],
    ) -> bool {
        let (first, _, sequence) = &directions[0];
        let sizes = first.sizes(n, t);
        let chains: Option<Vec<_>> = directions
            .iter()
            .map(|(layer, direction, sequence)| layer.chain(&sizes, *direction, sequence))
            .collect();
        let Some(chains) = chains else {
            return false;
        };
        first.run_chains(t, sequence.x, &chains, states);
        true
    }

    /// The memory of [`step`](Self::step) with N rows.
    pub(crate) fn step_scratch(&self, n: usize) -> StepScratch {
        let (gru, inputs) = (self.one_step(n), prepared_inputs(Sequence::new(&[])));
        let no_states = Rows::new(&mut [], self.h);
        StepScratch(Scratch::new(&self.pass(&gru, &inputs, no_states, &[]), n))
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
            let (gru, inputs) = (self.one_step(n), prepared_inputs(sequence));
            let new = Rows::new(new, self.h);
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
        states: Rows<'a, f32>,
        zeros: &'a [f32],
    ) -> Pass<'a, f32> {
        Pass {
            call: Call::new(gru, inputs),
            machine: self.machine,
            weights: &self.weights,
            gates: self.gates,
            states,
            saved: None,
            zeros,
        }
    }
}

/// The inputs of a call. Its weights only state that there is an input product: the prepared weights are read.
pub(crate) fn prepared_inputs(sequence: Sequence<'_, f32>) -> Inputs<'_, f32> {
    Inputs {
        sequence,
        weights: call::Weights::new(Some(&[]), &[]),
    }
}

/// The memory of a step.
pub(crate) struct StepScratch(Scratch<f32>);
