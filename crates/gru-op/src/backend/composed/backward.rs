//! The backward pass. The backward of `gru-cpu` lists its equations.

use super::{ComposedCall, gate::gates, prim::Prim};
use crate::backend::call::{GruCall, GruGradients, GruSaved};
use burn::backend::{Backend, tensor::FloatTensor};
use gru_spec::{PerInput, Reset, Update};

/// See [`GruBackend::gru_gradients`](crate::backend::GruBackend::gru_gradients).
pub(crate) fn gradients<B: Backend>(
    call: GruCall<B>,
    saved: GruSaved<B>,
    d_states: FloatTensor<B>,
    wanted: PerInput<bool>,
) -> GruGradients<B> {
    let call = ComposedCall::new(call);
    if call.times.is_empty() {
        let shapes = call.sizes.shapes(call.order.layout);
        let zeros = |(wanted, shape): (bool, Option<&gru_spec::Shape>)| {
            let shape = shape.filter(|_| wanted)?;
            Some(Prim::zeros(shape.to_vec(), &call.inputs.weights.w_hh).0)
        };
        return GruGradients(wanted.zip(shapes.differentiable()).map(zeros));
    }
    let previous = call.previous(&Prim(saved.states));
    let gates = match saved.gates {
        Some(gates) => Prim(gates),
        None => call.recompute(previous.clone()),
    };

    let zeros = Prim::zeros([call.sizes.n, call.sizes.h], &previous);
    let (mut dh, mut d_start) = (zeros.clone(), zeros.clone());
    let (mut dps, mut dq_ns) = (Vec::new(), Vec::new());
    for &t in call.times.iter().rev() {
        dh = dh + call.at(&Prim(d_states.clone()), t);
        let (of_step, h) = (call.at(&gates, t), call.at(&previous, t));
        let [dp, dq_n, before] = call.step_backward(&of_step, h, t, dh);
        dh = before;
        if let Some(starts) = call.starts_at(t) {
            d_start = d_start + zeros.clone().replaced(starts.clone(), dh.clone());
            dh = dh.zeroed(starts);
        }
        dps.push(dp);
        dq_ns.push(dq_n);
    }
    dps.reverse();
    dq_ns.reverse();
    let dp = call.rows(call.sequence(dps));
    let dq_n = call.rows(call.sequence(dq_ns));

    let w_hh = wanted.w_hh.then(|| {
        let g = call.without_skipped(call.masked_rows(previous));
        let g_n = match call.spec.reset {
            Reset::AfterMatmul => g.clone(),
            Reset::BeforeMatmul => {
                let r = call.columns(&call.rows(gates), 0, 1);
                call.without_skipped(r * g.clone())
            }
        };
        let rz = g.transpose().matmul(call.columns(&dp, 0, 2));
        Prim::cat(vec![rz, g_n.transpose().matmul(dq_n.clone())], 1)
    });
    let b_hh = wanted.b_hh.then(|| {
        let rz = call.columns(&dp, 0, 2).sum_rows();
        Prim::cat(vec![rz, dq_n.sum_rows()], 0)
    });
    let x = &call.inputs.sequence.x;
    let gradients = PerInput {
        x: wanted
            .x
            .then(|| call.d_x(dp.clone()).reshape(x.dims::<3>())),
        h0: wanted.h0.then_some(dh),
        w_ih: wanted
            .w_ih
            .then(|| call.rows(x.clone()).transpose().matmul(dp.clone())),
        w_hh,
        b_ih: wanted.b_ih.then(|| dp.sum_rows()),
        b_hh,
        start_state: wanted.start_state.then_some(d_start),
    };
    GruGradients(gradients.map(|gradient| Some(gradient?.0)))
}

/// `q_n` of all steps, a sequence, from the states.
pub(crate) fn q_n<B: Backend>(call: GruCall<B>, states: FloatTensor<B>) -> FloatTensor<B> {
    let call = ComposedCall::new(call);
    if call.times.is_empty() {
        return states; // empty, too
    }
    let g = call.masked_rows(call.previous(&Prim(states)));
    let q_n = call.recurrent(g, 2, 3);
    q_n.reshape(call.sequence_shape(call.sizes.h)).0
}

impl<B: Backend> ComposedCall<B> {
    /// Rows of the gradient of `x` from rows of the gradient of all pre-activations, `[…,3H]`.
    pub(crate) fn d_x(&self, dp: Prim<B>) -> Prim<B> {
        match &self.inputs.weights.w_ih {
            Some(w_ih) => dp.matmul(w_ih.clone().transpose()),
            None => dp,
        }
    }

    /// The state before every step, a sequence.
    fn previous(&self, states: &Prim<B>) -> Prim<B> {
        let last = self.times.len() - 1;
        let before = self.times[..last].iter().map(|&t| self.at(states, t));
        let previous = [self.initial()].into_iter().chain(before).zip(&self.times);
        self.sequence(previous.map(|(h, &t)| self.started(h, t)).collect())
    }

    /// `g` of every row, `[T·N,H]`, from the state before every step.
    fn masked_rows(&self, previous: Prim<B>) -> Prim<B> {
        let shape = self.step_shape(self.sizes.h);
        self.rows(match &self.inputs.sequence.recurrent_mask {
            Some(mask) => previous * mask.clone().reshape(shape),
            None => previous,
        })
    }

    /// Rows `[T·N,H]` with 0 at skipped steps.
    fn without_skipped(&self, rows: Prim<B>) -> Prim<B> {
        let (count, h) = (self.sizes.places(), self.sizes.h);
        match &self.inputs.sequence.step_mask {
            Some(step_mask) => {
                let skipped = step_mask.clone().reshape([count, 1]).equals(0.0);
                rows.zeroed(skipped.expand([count, h]))
            }
            None => rows,
        }
    }

    /// The gates of all steps, a sequence, from the state before every step.
    fn recompute(&self, previous: Prim<B>) -> Prim<B> {
        let gates = self.gates(&self.rows(self.project()), self.masked_rows(previous));
        let width = gates.len() * self.sizes.h;
        Prim::cat(gates, 1).reshape(self.sequence_shape(width))
    }

    /// From the gradient of the state after the step at time `t`, with its gates and the state `h` before it: the
    /// gradients of the pre-activations `[N,3H]`, of `q_n [N,H]`, and of the state before the step.
    fn step_backward(
        &self,
        gates_of_step: &Prim<B>,
        h: Prim<B>,
        t: usize,
        dh: Prim<B>,
    ) -> [Prim<B>; 3] {
        let (skipped, zoneout) = (self.skipped_at(t), self.zoneout_at(t));
        let zeroed = |d: Prim<B>| match &skipped {
            Some(skipped) => d.zeroed(skipped.clone()),
            None => d,
        };
        let gate = |k| self.columns(gates_of_step, k, k + 1);
        let ([r, z, n], [gate_r, gate_z, gate_n]) = ([0, 1, 2].map(gate), gates(&self.spec));
        let w_hh = &self.inputs.weights.w_hh;
        let w_hh_t = |from, to| self.columns(w_hh, from, to).transpose();

        // The kept share of zoneout and skipped steps go directly to the state before. A clipped state has
        // no gradient.
        let mut d = match &zoneout {
            Some(kept) => dh.clone() * kept.clone().complement(),
            None => dh.clone(),
        };
        if let Some(c) = self.spec.clip_state {
            let new = self.blend(&h, &z, &n);
            d = d.zeroed(new.above(c).or(new.below(-c)));
        }
        let (dz, dn, carry) = match self.spec.update {
            Update::Keeps => (
                d.clone() * (h.clone() - n.clone()),
                d.clone() * z.clone().complement(),
                d * z.clone(),
            ),
            Update::Takes => (
                d.clone() * (n.clone() - h.clone()),
                d.clone() * z.clone(),
                d * z.clone().complement(),
            ),
        };
        let dz = zeroed(dz * gate_z.slope(z));
        let dn = zeroed(dn * gate_n.slope(n));
        let (dr, dq_n, dg) = match self.spec.reset {
            Reset::AfterMatmul => {
                let q_n = gate(3);
                let dr = zeroed(dn.clone() * q_n * gate_r.slope(r.clone()));
                let dq_n = zeroed(dn.clone() * r);
                let dq = Prim::cat(vec![dr.clone(), dz.clone(), dq_n.clone()], 1);
                (dr, dq_n, dq.matmul(w_hh_t(0, 3)))
            }
            Reset::BeforeMatmul => {
                let ds = dn.clone().matmul(w_hh_t(2, 3));
                let dr = zeroed(ds.clone() * self.masked(h) * gate_r.slope(r.clone()));
                let d_rz = Prim::cat(vec![dr.clone(), dz.clone()], 1);
                (dr, dn.clone(), d_rz.matmul(w_hh_t(0, 2)) + ds * r)
            }
        };
        let mut d_before = carry + self.masked(dg);
        if let Some(kept) = zoneout {
            d_before = d_before + dh.clone() * kept;
        }
        if let Some(skipped) = skipped {
            d_before = d_before.replaced(skipped, dh);
        }
        [Prim::cat(vec![dr, dz, dn], 1), dq_n, d_before]
    }
}
