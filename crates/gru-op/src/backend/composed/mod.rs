//! Both passes built from Burn's operations. They run on every backend, and replace kernels where none fits.
//!
//! ```text
//! p = x·w_ih + b_ih    g = mask ⊙ h₋₁    q = g·w_hh + b_hh
//! r = φr(p_r + q_r)    z = φz(p_z + q_z)
//! n = φn(p_n + r ⊙ q_n)                       Reset::AfterMatmul
//! n = φn(p_n + (r ⊙ g)·w_hn + b_hn)           Reset::BeforeMatmul
//! h' = z ⊙ h₋₁ + (1−z) ⊙ n                    Update::Keeps
//! h' = (1−z) ⊙ h₋₁ + z ⊙ n                    Update::Takes
//! h = zoneout ⊙ h₋₁ + (1−zoneout) ⊙ h'        h₋₁ at a skipped step
//! ```

mod backward;
mod composed_call;
pub(crate) mod gate;
pub(crate) mod prim;

pub(crate) use self::{
    backward::{gradients, q_n},
    composed_call::ComposedCall,
};

use crate::{
    backend::call::{GruCall, GruSaved},
    backend::composed::gate::gates,
    backend::composed::prim::Prim,
};
use burn::backend::Backend;
use gru_spec::{Reset, Update};

/// See [`GruBackend::gru_forward`](crate::backend::GruBackend::gru_forward).
pub(crate) fn forward<B: Backend>(call: GruCall<B>, keep_gates: bool) -> GruSaved<B> {
    let call = ComposedCall::new(call);
    let width = call.spec.saved_per_unit() * call.sizes.h;
    if call.times.is_empty() {
        let weight = &call.inputs.weights.w_hh;
        let empty = |features| Prim::zeros(call.sequence_shape(features), weight).0;
        return GruSaved {
            states: empty(call.sizes.h),
            gates: keep_gates.then(|| empty(width)),
        };
    }
    let (p, mut h) = (call.project(), call.initial());
    let (mut states, mut gates) = (Vec::new(), Vec::new());
    for &t in &call.times {
        h = call.started(h, t);
        let of_step = call.gates(&call.at(&p, t), call.masked(h.clone()));
        h = call.next(h, &of_step[1], &of_step[2], t);
        states.push(h.clone());
        if keep_gates {
            gates.push(Prim::cat(of_step, 1));
        }
    }
    GruSaved {
        states: call.sequence(states).0,
        gates: keep_gates.then(|| call.sequence(gates).0),
    }
}

impl<B: Backend> ComposedCall<B> {
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

    /// The new state before its clip.
    fn blend(&self, h: &Prim<B>, z: &Prim<B>, n: &Prim<B>) -> Prim<B> {
        let (kept, taken) = match self.spec.update {
            Update::Keeps => (z.clone(), z.clone().complement()),
            Update::Takes => (z.clone().complement(), z.clone()),
        };
        kept * h.clone() + taken * n.clone()
    }

    /// The state after the step at time `t`, from the state before it and the gates.
    fn next(&self, h: Prim<B>, z: &Prim<B>, n: &Prim<B>, t: usize) -> Prim<B> {
        let mut new = self.blend(&h, z, n);
        if let Some(c) = self.spec.clip_state {
            new = new.clamp(-c, c);
        }
        let next = match self.zoneout_at(t) {
            Some(kept) => new * kept.clone().complement() + h.clone() * kept,
            None => new,
        };
        match self.skipped_at(t) {
            Some(skipped) => next.replaced(skipped, h),
            None => next,
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests;
