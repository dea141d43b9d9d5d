//! A call with operators: its sizes, and views of its tensors.

use crate::backend::{
    call::GruCall,
    composed::gate::largest,
    composed::prim::{Mask, Prim},
};
use burn::backend::Backend;
use gru_spec::{GruSpec, Inputs, Order, Sizes};

/// A call whose tensors have operators.
pub(crate) struct ComposedCall<B: Backend> {
    pub(crate) sizes: Sizes,
    pub(crate) order: Order,
    /// Its clips fit the element type of the weights.
    pub(super) spec: GruSpec,
    pub(crate) inputs: Inputs<Prim<B>>,
    /// Time indices in the order in which they are computed. None if the batch or the state is empty.
    pub(super) times: Vec<usize>,
}

impl<B: Backend> ComposedCall<B> {
    pub(crate) fn new(call: GruCall<B>) -> Self {
        let (sizes, order) = (call.sizes(), call.order);
        let steps = if sizes.n * sizes.h == 0 { 0 } else { sizes.t };
        let inputs = call.inputs.map(Prim::<B>);
        Self {
            sizes,
            order,
            spec: call
                .spec
                .for_numbers_up_to(largest(inputs.weights.w_hh.dtype())),
            inputs,
            times: (0..steps)
                .map(|s| order.direction.time(s, sizes.t))
                .collect(),
        }
    }

    /// The initial state `[N,H]`.
    pub(super) fn initial(&self) -> Prim<B> {
        let Sizes { n, h, .. } = self.sizes;
        let zeros = || Prim::zeros([n, h], &self.inputs.weights.w_hh);
        self.inputs.sequence.h0.clone().unwrap_or_else(zeros)
    }

    /// Which dimension of a sequence is time.
    pub(crate) fn time_dim(&self) -> usize {
        self.order.layout.time_dim()
    }

    /// `[N,T,features]` or `[T,N,features]`.
    pub(crate) fn sequence_shape(&self, features: usize) -> [usize; 3] {
        let [first, second] = self.order.layout.split([self.sizes.n, self.sizes.t]);
        [first, second, features]
    }

    /// `[N,1,features]` or `[1,N,features]`.
    pub(super) fn step_shape(&self, features: usize) -> [usize; 3] {
        let [first, second] = self.order.layout.split([self.sizes.n, 1]);
        [first, second, features]
    }

    /// One step of a sequence, `[N,features]`.
    pub(super) fn at(&self, sequence: &Prim<B>, t: usize) -> Prim<B> {
        let [_, _, features] = sequence.dims();
        let step = sequence.narrow(self.time_dim(), t..t + 1);
        step.reshape([self.sizes.n, features])
    }

    /// A sequence from steps in the order of computation, each `[N,features]`.
    pub(super) fn sequence(&self, steps: Vec<Prim<B>>) -> Prim<B> {
        let [_, features] = steps[0].dims();
        let mut in_time: Vec<Prim<B>> = vec![steps[0].clone(); self.sizes.t];
        for (step, &t) in steps.into_iter().zip(&self.times) {
            in_time[t] = step.reshape(self.step_shape(features));
        }
        Prim::cat(in_time, self.time_dim())
    }

    /// The rows that skip a step, `[N,H]`. Their values may be NaN, so a product with 0 does not mask them.
    pub(super) fn skipped_at(&self, t: usize) -> Option<Mask<B>> {
        let Sizes { n, h, .. } = self.sizes;
        let step_mask = self.inputs.sequence.step_mask.as_ref()?;
        let step = step_mask.narrow(self.time_dim(), t..t + 1);
        Some(step.reshape([n, 1]).equals(0.0).expand([n, h]))
    }

    /// The rows that start a new sequence before the step at time `t`, `[N,H]`.
    pub(super) fn starts_at(&self, t: usize) -> Option<Mask<B>> {
        let Sizes { n, h, t: steps, .. } = self.sizes;
        let starts = self.inputs.sequence.starts.as_ref()?;
        let direction = self.order.direction;
        let boundary = direction.boundary(direction.time(t, steps), steps)?;
        let starts = starts.narrow(self.time_dim(), boundary..boundary + 1);
        Some(starts.reshape([n, 1]).differs(0.0).expand([n, h]))
    }

    /// The state `[N,H]` before the step at time `t`: the start state of the rows that start there.
    pub(super) fn started(&self, h: Prim<B>, t: usize) -> Prim<B> {
        let Some(starts) = self.starts_at(t) else {
            return h;
        };
        match &self.inputs.sequence.start_state {
            Some(start_state) => h.replaced(starts, start_state.clone()),
            None => h.zeroed(starts),
        }
    }

    /// The share of the previous state that is kept, `[N,H]` or `[N,1]`.
    pub(super) fn zoneout_at(&self, t: usize) -> Option<Prim<B>> {
        Some(self.at(self.inputs.sequence.zoneout.as_ref()?, t))
    }

    /// `g`: the state that the gates read.
    pub(super) fn masked(&self, h: Prim<B>) -> Prim<B> {
        match &self.inputs.sequence.recurrent_mask {
            Some(mask) => h * mask.clone(),
            None => h,
        }
    }

    /// The gate columns `from..to` of a matrix, counted in gates.
    pub(super) fn columns(&self, matrix: &Prim<B>, from: usize, to: usize) -> Prim<B> {
        matrix.narrow(1, from * self.sizes.h..to * self.sizes.h)
    }

    /// A sequence as a matrix, `[T·N,features]`.
    pub(crate) fn rows(&self, sequence: Prim<B>) -> Prim<B> {
        let [_, _, features] = sequence.dims();
        sequence.reshape([self.sizes.places(), features])
    }
}
