//! A layer whose weights are prepared once for many calls.

use super::{
    chain::run_chains,
    forward::{Pass, Scratch, initial_zeros},
    weights::{ForwardWeights, Matrices},
};
use crate::{
    call::{self, Call, Gru, Inputs, LayerCall, Sequence},
    product::Rows,
    quantized::Energy,
    simd::{Gates, Machine},
    spec::{Direction, GruSpec, Lengths, Order, Precision, Sizes},
};
use alloc::vec::Vec;

/// What a forward pass needs of a layer, whose weights are prepared for the instruction set of this machine: in panels, or
/// rounded to 16 or 8 bits. A short call of [`Gru::forward`] adds in another order, so its last bits may differ.
pub(crate) struct PreparedLayer<'a> {
    spec: GruSpec,
    i: usize,
    h: usize,
    machine: Machine,
    weights: ForwardWeights<'a, f32>,
    gates: Gates<f32>,
}

impl PreparedLayer<'static> {
    /// For many calls. The weights have the right sizes, and `w_ih` is among them.
    pub(crate) fn new(
        precision: Precision,
        spec: &GruSpec,
        [i, h]: [usize; 2],
        weights: call::Weights<'_, f32>,
    ) -> Self {
        let machine = Machine::here::<f32>();
        let layer = LayerCall::new(Sizes { n: 0, t: 0, i, h }, spec, weights);
        let weights = match precision {
            Precision::Full => ForwardWeights::packed(&machine, &layer),
            _ => ForwardWeights::quantized(&machine, &layer, precision),
        };
        Self::with(machine, &layer, weights)
    }
}

impl<'a> PreparedLayer<'a> {
    /// For one call of these sizes, with the bits of [`Gru::forward`]: the weights are packed, or read in place.
    pub(crate) fn once(sizes: Sizes, spec: &GruSpec, weights: call::Weights<'a, f32>) -> Self {
        let machine = Machine::here::<f32>();
        let layer = LayerCall::new(sizes, spec, weights);
        Self::with(machine, &layer, ForwardWeights::for_call(&machine, &layer))
    }

    fn with(
        machine: Machine,
        layer: &LayerCall<'_, f32>,
        weights: ForwardWeights<'a, f32>,
    ) -> Self {
        Self {
            gates: Gates::new(&machine, &layer.spec),
            spec: layer.spec,
            i: layer.sizes.i,
            h: layer.sizes.h,
            weights,
            machine,
        }
    }

    /// I, features of the input.
    pub(crate) fn features(&self) -> usize {
        self.i
    }

    /// Bytes of the weights and biases.
    pub(crate) fn bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// The rounding of `w_ih` and of `w_hh`, if they are quantized.
    pub(crate) fn rounding(&self) -> Option<[Energy; 2]> {
        match &self.weights.matrices {
            Matrices::Packed(_) => None,
            Matrices::ByRows(matrices) => matrices.rounding(),
        }
    }

    /// Writes the state after every step. What is past the end of a row is neither read nor written. The call was
    /// checked.
    pub(crate) fn forward(
        &self,
        order: Order,
        [n, t]: [usize; 2],
        lengths: &Lengths,
        sequence: Sequence<'_, f32>,
        states: Rows<'_, f32>,
    ) {
        if n * t * self.h > 0 {
            let (gru, inputs) = (self.gru(order, [n, t]), inputs(sequence));
            let zeros = initial_zeros(&Call::new(&gru, &inputs));
            self.pass(&gru, &inputs, states, &zeros).run(lengths);
        }
    }

    /// Writes the states of one row in all D directions, `[T,D·H]`, if the layer is small enough for the kernel of a
    /// chain. The sequences have the same x, and the call was checked.
    pub(crate) fn forward_chains<'b>(
        directions: impl Iterator<Item = (&'b Self, Direction, Sequence<'b, f32>)>,
        batch: [usize; 2],
        states: &mut [f32],
    ) -> bool
    where
        'a: 'b,
    {
        let (mut chains, mut first) = ([None; 2], None);
        for (chain, (layer, direction, sequence)) in chains.iter_mut().zip(directions) {
            let sizes = layer.sizes(batch);
            *chain = layer
                .weights
                .chain(&sizes, layer.spec.update, direction, &sequence);
            if chain.is_none() {
                return false;
            }
            first.get_or_insert((layer.machine, sizes, sequence.x));
        }
        let ([Some(chain), other], Some((machine, sizes, x))) = (chains, first) else {
            return false;
        };
        let chains = [chain, other.unwrap_or(chain)];
        let count = if other.is_some() { 2 } else { 1 };
        run_chains(&machine, &sizes, x, &chains[..count], states);
        true
    }

    /// The memory of [`step`](Self::step) with N rows, which keep this share of their states.
    pub(crate) fn step_memory(&self, n: usize, zoneout: f32) -> StepMemory {
        let (gru, inputs) = (
            self.gru(Order::default(), [n, 1]),
            inputs(Sequence::new(&[])),
        );
        let no_states = Rows::new(&mut [], self.h);
        StepMemory {
            scratch: Scratch::new(&self.pass(&gru, &inputs, no_states, &[]), n),
            zoneout: (zoneout > 0.0).then(|| vec![zoneout; n * self.h]),
        }
    }

    /// One step of N rows on this thread, without any allocation: from `x` and the states `h` to the new states. The
    /// lengths were checked.
    pub(crate) fn step(
        &self,
        n: usize,
        [x, h]: [&[f32]; 2],
        new: &mut [f32],
        memory: &mut StepMemory,
    ) {
        let sequence = Sequence {
            h0: Some(h),
            zoneout: memory.zoneout.as_deref(),
            ..Sequence::new(x)
        };
        let (sizes, update) = (self.sizes([n, 1]), self.spec.update);
        let chain = self
            .weights
            .chain(&sizes, update, Direction::Forward, &sequence);
        if let Some(chain) = chain {
            return run_chains(&self.machine, &sizes, x, &[chain], new);
        }
        let is_plain = n == 1 && memory.zoneout.is_none() && self.spec.clip_state.is_none();
        let how = (&self.machine, &self.gates, update);
        let scratch = &mut memory.scratch;
        if new.is_empty() || is_plain && self.weights.quantized_step(how, [x, h], new, scratch) {
            return;
        }
        let (gru, inputs) = (self.gru(Order::default(), [n, 1]), inputs(sequence));
        let new = Rows::new(new, self.h);
        self.pass(&gru, &inputs, new, &[]).step(scratch);
    }

    fn sizes(&self, [n, t]: [usize; 2]) -> Sizes {
        let (i, h) = (self.i, self.h);
        Sizes { n, t, i, h }
    }

    fn gru(&self, order: Order, batch: [usize; 2]) -> Gru {
        Gru {
            sizes: self.sizes(batch),
            order,
            spec: self.spec,
        }
    }

    fn pass<'b>(
        &'b self,
        gru: &'b Gru,
        inputs: &'b Inputs<'b, f32>,
        states: Rows<'b, f32>,
        zeros: &'b [f32],
    ) -> Pass<'b, f32> {
        Pass {
            call: Call::new(gru, inputs),
            machine: self.machine,
            weights: &self.weights,
            gates: &self.gates,
            states,
            saved: None,
            zeros,
        }
    }
}

/// The inputs of a call. Its weights only state that there is an input product: the prepared weights are read.
fn inputs(sequence: Sequence<'_, f32>) -> Inputs<'_, f32> {
    Inputs {
        sequence,
        weights: call::Weights::new(Some(&[]), &[]),
    }
}

/// The memory of a step.
pub(crate) struct StepMemory {
    scratch: Scratch<f32>,
    /// The share of the previous state that is kept, for all rows and units, if it is not zero.
    zoneout: Option<Vec<f32>>,
}
