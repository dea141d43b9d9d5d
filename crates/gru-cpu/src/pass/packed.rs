//! Weights that are packed once for many calls.

use super::{
    forward::{Pass, Scratch, initial_zeros},
    small::{self, Chain},
    weights::Weights,
};
use crate::{
    call::{self, Call, Gru, Inputs, Sequence, features},
    product::{Buffer, Rows},
    simd::{Gates, Lanes, Machine},
    spec::{Direction, GruSpec, Lengths, Sizes},
};

/// What a forward pass needs of a layer.
pub struct Packed<E: Lanes> {
    pub(crate) spec: GruSpec,
    /// I; without an input weight 3H.
    pub(crate) features: usize,
    pub(crate) h: usize,
    /// Whether there is an input weight.
    projects: bool,
    machine: Machine,
    weights: Weights<'static, E>,
    gates: Gates<E>,
    /// See [`Weights::is_small`].
    is_small: bool,
}

impl<E: Lanes> Packed<E> {
    /// The weights have the right sizes.
    pub(crate) fn new(spec: &GruSpec, i: usize, h: usize, weights: call::Weights<'_, E>) -> Self {
        let machine = Machine::here::<E>();
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
            features: features(&inputs.weights, &gru.sizes),
            h,
            projects: inputs.weights.w_ih.is_some(),
            weights: weights.into_owned(),
            gates,
            machine,
        }
    }

    /// Bytes of the panels and biases.
    pub(crate) fn bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// The sizes of a call.
    pub(crate) fn sizes(&self, n: usize, t: usize) -> Sizes {
        let i = if self.projects { self.features } else { 0 };
        Sizes { n, t, i, h: self.h }
    }

    /// One step of `n` rows.
    fn step(&self, n: usize) -> Gru {
        Gru::new(self.sizes(n, 1), self.spec)
    }

    /// The inputs of a call. Its weights only state whether there is an input product: the packed weights are
    /// read.
    pub(crate) fn inputs<'a>(&self, sequence: Sequence<'a, E>) -> Inputs<'a, E> {
        Inputs {
            sequence,
            weights: call::Weights::new(self.projects.then_some(&[]), &[]),
        }
    }

    /// `gru` has the spec and the sizes of the weights.
    pub(crate) fn forward(
        &self,
        gru: &Gru,
        lengths: &Lengths,
        inputs: &Inputs<'_, E>,
        states: &mut [E],
    ) {
        if lengths.of_rows().is_none()
            && let Some(chain) = self.chain(&gru.sizes, gru.order.direction, &inputs.sequence)
        {
            return self.run_chains(gru.sizes.t, inputs.sequence.x, &[chain], states);
        }
        let zeros = initial_zeros(&Call::new(gru, inputs));
        self.pass(gru, inputs, states, &zeros).run(lengths);
    }

    /// See [`Weights::chain`].
    pub(crate) fn chain<'a>(
        &'a self,
        sizes: &Sizes,
        direction: Direction,
        sequence: &Sequence<'a, E>,
    ) -> Option<Chain<'a, E>> {
        let chain = || {
            let update = self.spec.update;
            self.weights.chain(sizes, update, direction, sequence)
        };
        self.is_small.then(chain).flatten()
    }

    /// Writes all states of a row, `[T,D·H]`, in D directions of equal sizes.
    pub(crate) fn run_chains(&self, t: usize, x: &[E], chains: &[Chain<'_, E>], states: &mut [E]) {
        small::run_chains(&self.machine, &self.sizes(1, t), x, chains, states);
    }

    fn pass<'a>(
        &'a self,
        gru: &'a Gru,
        inputs: &'a Inputs<'a, E>,
        states: &'a mut [E],
        zeros: &'a [E],
    ) -> Pass<'a, E> {
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

/// The memory of a step.
pub(crate) struct StepScratch<E>(Scratch<E>);

impl<E: Lanes> StepScratch<E> {
    /// For steps of `n` rows.
    pub(crate) fn new(packed: &Packed<E>, n: usize) -> Self {
        let (gru, inputs) = (packed.step(n), packed.inputs(Sequence::new(&[])));
        let pass = packed.pass(&gru, &inputs, &mut [], &[]);
        Self(Scratch::new(&pass, n))
    }
}

impl<E: Lanes> Packed<E> {
    /// One step of `n` rows on this thread, without any allocation. The sequence has an initial state, and no
    /// mask and no starts.
    pub(crate) fn advance(
        &self,
        n: usize,
        sequence: Sequence<'_, E>,
        new: &mut [E],
        scratch: &mut StepScratch<E>,
    ) {
        if let Some(chain) = self.chain(&self.sizes(n, 1), Direction::Forward, &sequence) {
            self.run_chains(1, sequence.x, &[chain], new);
        } else if !new.is_empty() {
            let (gru, inputs) = (self.step(n), self.inputs(sequence));
            self.pass(&gru, &inputs, new, &[]).step(&mut scratch.0);
        }
    }
}

/// The states of some rows, and the memory of a step.
pub struct Streams<E> {
    n: usize,
    /// Each step computes one of them from the other.
    states: [Buffer<E>; 2],
    /// The index of the current state.
    now: usize,
    scratch: StepScratch<E>,
}

impl<E: Lanes> Streams<E> {
    /// `n` rows, all states zero.
    pub(crate) fn new(packed: &Packed<E>, n: usize) -> Self {
        Self {
            scratch: StepScratch::new(packed, n),
            n,
            states: [(); 2].map(|()| Buffer::new(n * packed.h)),
            now: 0,
        }
    }

    pub(crate) fn state(&self) -> &[E] {
        self.states[self.now].as_ref()
    }

    pub(crate) fn state_mut(&mut self) -> &mut [E] {
        self.states[self.now].as_mut()
    }

    /// `x` has a row of features for each row.
    pub(crate) fn step(&mut self, packed: &Packed<E>, x: &[E]) {
        let [first, second] = &mut self.states;
        let (old, new) = match self.now {
            0 => (first.as_ref(), second.as_mut()),
            _ => (second.as_ref(), first.as_mut()),
        };
        let sequence = Sequence {
            h0: Some(old),
            ..Sequence::new(x)
        };
        packed.advance(self.n, sequence, new, &mut self.scratch);
        self.now = 1 - self.now;
    }
}
