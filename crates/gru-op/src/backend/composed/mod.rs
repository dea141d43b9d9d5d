//! Both passes built from Burn's operations. They run on every backend, and replace kernels where none fits.

mod backward;
pub(crate) mod gate;
pub(crate) mod prim;

pub(crate) use self::backward::{gradients, q_n};

use crate::{
    backend::call::{GruCall, GruSaved},
    backend::composed::gate::{gates, largest},
    backend::composed::prim::{Mask, Prim},
};
use burn::backend::Backend;
use gru_spec::{GruSpec, Inputs, Order, Reset, Sizes, Update};

/// A call whose tensors have operators.
pub(crate) struct Call<B: Backend> {
    pub(crate) sizes: Sizes,
    pub(crate) order: Order,
    /// Its clips fit the element type of the weights.
    spec: GruSpec,
    pub(crate) inputs: Inputs<Prim<B>>,
    /// Time indices in the order in which they are computed. None if the batch or the state is empty.
    times: Vec<usize>,
}

impl<B: Backend> Call<B> {
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
    fn initial(&self) -> Prim<B> {
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
    fn step_shape(&self, features: usize) -> [usize; 3] {
        let [first, second] = self.order.layout.split([self.sizes.n, 1]);
        [first, second, features]
    }

    /// One step of a sequence, `[N,features]`.
    fn at(&self, sequence: &Prim<B>, t: usize) -> Prim<B> {
        let [_, _, features] = sequence.dims();
        let step = sequence.narrow(self.time_dim(), t..t + 1);
        step.reshape([self.sizes.n, features])
    }

    /// A sequence from steps in the order of computation, each `[N,features]`.
    fn sequence(&self, steps: Vec<Prim<B>>) -> Prim<B> {
        let [_, features] = steps[0].dims();
        let mut in_time: Vec<Prim<B>> = vec![steps[0].clone(); self.sizes.t];
        for (step, &t) in steps.into_iter().zip(&self.times) {
            in_time[t] = step.reshape(self.step_shape(features));
        }
        Prim::cat(in_time, self.time_dim())
    }

    /// The rows that skip a step, `[N,H]`. Their values may be NaN, so a product with 0 does not mask them.
    fn skipped_at(&self, t: usize) -> Option<Mask<B>> {
        let Sizes { n, h, .. } = self.sizes;
        let step_mask = self.inputs.sequence.step_mask.as_ref()?;
        let step = step_mask.narrow(self.time_dim(), t..t + 1);
        Some(step.reshape([n, 1]).is_zero().expand([n, h]))
    }

    /// The rows that start a new sequence before the step at time `t`, `[N,H]`.
    fn starts_at(&self, t: usize) -> Option<Mask<B>> {
        let Sizes { n, h, t: steps, .. } = self.sizes;
        let starts = self.inputs.sequence.starts.as_ref()?;
        let direction = self.order.direction;
        let boundary = direction.boundary(direction.time(t, steps), steps)?;
        let starts = starts.narrow(self.time_dim(), boundary..boundary + 1);
        Some(starts.reshape([n, 1]).is_not_zero().expand([n, h]))
    }

    /// The state `[N,H]` before the step at time `t`: the start state of the rows that start there.
    fn started(&self, h: Prim<B>, t: usize) -> Prim<B> {
        let Some(starts) = self.starts_at(t) else {
            return h;
        };
        match &self.inputs.sequence.start_state {
            Some(start_state) => h.replaced(starts, start_state.clone()),
            None => h.zeroed(starts),
        }
    }

    /// The share of the previous state that is kept, `[N,H]` or `[N,1]`.
    fn zoneout_at(&self, t: usize) -> Option<Prim<B>> {
        Some(self.at(self.inputs.sequence.zoneout.as_ref()?, t))
    }

    fn masked(&self, h: Prim<B>) -> Prim<B> {
        match &self.inputs.sequence.recurrent_mask {
            Some(mask) => h * mask.clone(),
            None => h,
        }
    }

    /// The gate columns `from..to` of a matrix, counted in gates.
    fn columns(&self, matrix: &Prim<B>, from: usize, to: usize) -> Prim<B> {
        matrix.narrow(1, from * self.sizes.h..to * self.sizes.h)
    }

    /// `p`: the input product of all steps at once, with `b_ih`. A sequence of `3H` features.
    pub(crate) fn project(&self) -> Prim<B> {
        let width = 3 * self.sizes.h;
        let (x, weights) = (&self.inputs.sequence.x, &self.inputs.weights);
        let p = match &weights.w_ih {
            Some(w_ih) => {
                let p = self.rows(x.clone()).matmul(w_ih.clone());
                p.reshape(self.sequence_shape(width))
            }
            None => x.clone(),
        };
        match &weights.b_ih {
            Some(b) => p + b.clone().reshape([1, 1, width]),
            None => p,
        }
    }

    /// `q`, or its gates `from..to`, of any number of rows.
    fn recurrent(&self, g: Prim<B>, from: usize, to: usize) -> Prim<B> {
        let weights = &self.inputs.weights;
        let q = g.matmul(self.columns(&weights.w_hh, from, to));
        match &weights.b_hh {
            Some(b) => q + self.columns(&b.clone().reshape([1, 3 * self.sizes.h]), from, to),
            None => q,
        }
    }

    /// The gates `[r, z, n, q_n]` (no q_n for reset-before) of any number of rows, from their `p` and `g`.
    fn gates(&self, p: &Prim<B>, g: Prim<B>) -> Vec<Prim<B>> {
        let gate = gates(&self.spec);
        let r_and_z = |q: &Prim<B>| {
            let a = self.columns(p, 0, 2) + self.columns(q, 0, 2);
            let r = gate[0].apply(self.columns(&a, 0, 1));
            let z = gate[1].apply(self.columns(&a, 1, 2));
            (r, z)
        };
        let p_n = self.columns(p, 2, 3);
        match self.spec.reset {
            Reset::AfterMatmul => {
                let q = self.recurrent(g, 0, 3);
                let (r, z) = r_and_z(&q);
                let q_n = self.columns(&q, 2, 3);
                let n = gate[2].apply(p_n + r.clone() * q_n.clone());
                vec![r, z, n, q_n]
            }
            Reset::BeforeMatmul => {
                let (r, z) = r_and_z(&self.recurrent(g.clone(), 0, 2));
                let n = gate[2].apply(p_n + self.recurrent(r.clone() * g, 2, 3));
                vec![r, z, n]
            }
        }
    }

    /// A sequence as a matrix, `[T·N,features]`.
    pub(crate) fn rows(&self, sequence: Prim<B>) -> Prim<B> {
        let [_, _, features] = sequence.dims();
        sequence.reshape([self.sizes.rows(), features])
    }

    fn blend(&self, h: &Prim<B>, z: &Prim<B>, n: &Prim<B>) -> Prim<B> {
        let (kept, taken) = match self.spec.update {
            Update::Keeps => (z.clone(), z.clone().complement()),
            Update::Takes => (z.clone().complement(), z.clone()),
        };
        kept * h.clone() + taken * n.clone()
    }

    /// All steps in order. `each` receives the gates of every step.
    fn run(&self, mut each: impl FnMut(Vec<Prim<B>>)) -> Prim<B> {
        let p = self.project();
        let mut h = self.initial();
        let mut states = Vec::with_capacity(self.sizes.t);
        for &t in &self.times {
            h = self.started(h, t);
            let gates = self.gates(&self.at(&p, t), self.masked(h.clone()));
            let mut new = self.blend(&h, &gates[1], &gates[2]);
            if let Some(c) = self.spec.clip_state {
                new = new.clamp(-c, c);
            }
            let next = match self.zoneout_at(t) {
                Some(kept) => new * kept.clone().complement() + h.clone() * kept,
                None => new,
            };
            h = match self.skipped_at(t) {
                Some(skipped) => next.replaced(skipped, h),
                None => next,
            };
            each(gates);
            states.push(h.clone());
        }
        self.sequence(states)
    }

    /// A result without elements.
    fn nothing(&self, features: usize) -> Option<Prim<B>> {
        let shape = self.sequence_shape(features);
        self.times
            .is_empty()
            .then(|| Prim::zeros(shape, &self.inputs.weights.w_hh))
    }
}

pub(crate) fn forward<B: Backend>(call: GruCall<B>, keep_gates: bool) -> GruSaved<B> {
    let call = Call::new(call);
    let h = call.sizes.h;
    let width = call.spec.saved_per_unit() * h;
    let mut gates = Vec::new();
    let keep = |of_step| {
        if keep_gates {
            gates.push(Prim::cat(of_step, 1));
        }
    };
    let states = call.nothing(h).unwrap_or_else(|| call.run(keep));
    let gates = keep_gates.then(|| {
        call.nothing(width)
            .unwrap_or_else(|| call.sequence(gates))
            .0
    });
    GruSaved {
        states: states.0,
        gates,
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests;
