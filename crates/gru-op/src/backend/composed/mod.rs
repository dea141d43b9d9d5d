//! Both passes made of Burn's own primitives, for any backend: what runs where there is no kernel.

pub(crate) mod gate;
pub(crate) mod prim;

use crate::{
    backend::call::{GruCall, GruGradients, GruSaved},
    backend::composed::gate::{gates, largest},
    backend::composed::prim::{Mask, Prim},
};
use burn::backend::{Backend, tensor::FloatTensor};
use gru_spec::{GruSpec, Inputs, Order, PerInput, Reset, Sequence, Sizes, Update, Weights};

/// The inputs with operators, and their sizes.
pub(crate) struct Call<B: Backend> {
    pub(crate) n: usize,
    pub(crate) t: usize,
    pub(crate) h: usize,
    pub(crate) order: Order,
    /// For arithmetic in the element type of the weights.
    spec: GruSpec,
    /// Which dimension of `x` is time.
    pub(crate) time_dim: usize,
    /// Time indices in the order in which they are iterated.
    times: Vec<usize>,
    pub(crate) x: Prim<B>,
    h0: Option<Prim<B>>,
    pub(crate) w_ih: Option<Prim<B>>,
    pub(crate) w_hh: Prim<B>,
    b_ih: Option<Prim<B>>,
    b_hh: Option<Prim<B>>,
    recurrent_mask: Option<Prim<B>>,
    step_mask: Option<Prim<B>>,
    zoneout: Option<Prim<B>>,
}

impl<B: Backend> Call<B> {
    pub(crate) fn new(call: GruCall<B>) -> Self {
        let (Sizes { n, t, h, .. }, order) = (call.sizes(), call.order);
        let Inputs { sequence, weights } = call.inputs;
        let Sequence {
            x,
            h0,
            recurrent_mask,
            step_mask,
            zoneout,
        } = sequence.map(Prim::<B>);
        let Weights {
            w_ih,
            w_hh,
            b_ih,
            b_hh,
        } = weights.map(Prim::<B>);
        Self {
            n,
            t,
            h,
            order,
            spec: call.spec.for_numbers_up_to(largest(w_hh.dtype())),
            time_dim: order.layout.time_dim(),
            times: (0..t).map(|s| order.direction.time(s, t)).collect(),
            x,
            h0,
            w_ih,
            w_hh,
            b_ih,
            b_hh,
            recurrent_mask,
            step_mask,
            zoneout,
        }
    }

    /// The initial state. The kernels do without its zeros, so they are not made beforehand.
    fn initial(&self) -> Prim<B> {
        let zeros = || Prim::zeros([self.n, self.h], &self.w_hh);
        self.h0.clone().unwrap_or_else(zeros)
    }

    /// `[N,T,features]` or `[T,N,features]`.
    pub(crate) fn sequence_shape(&self, features: usize) -> [usize; 3] {
        match self.time_dim {
            0 => [self.t, self.n, features],
            _ => [self.n, self.t, features],
        }
    }

    /// One step of a sequence, `[N,features]`.
    fn at(&self, sequence: &Prim<B>, t: usize) -> Prim<B> {
        let [_, _, features] = sequence.dims();
        let step = sequence.narrow(self.time_dim, t..t + 1);
        step.reshape([self.n, features])
    }

    /// A sequence from its steps in walking order, each `[N,features]`.
    fn sequence(&self, steps: Vec<Prim<B>>) -> Prim<B> {
        let [_, features] = steps[0].dims();
        let mut in_time: Vec<Prim<B>> = vec![steps[0].clone(); self.t];
        for (step, &t) in steps.into_iter().zip(&self.times) {
            let shape = match self.time_dim {
                0 => [1, self.n, features],
                _ => [self.n, 1, features],
            };
            in_time[t] = step.reshape(shape);
        }
        Prim::cat(in_time, self.time_dim)
    }

    /// The rows that skip a step, `[N,H]`. What they hold there may be NaN, which 0 times would keep.
    fn skipped_at(&self, t: usize) -> Option<Mask<B>> {
        let valid = self.step_mask.as_ref()?;
        let step = valid.narrow(self.time_dim, t..t + 1);
        let skipped = step.reshape([self.n, 1]).is_zero();
        Some(skipped.expand([self.n, self.h]))
    }

    /// `[N,H]` or `[N,1]`, the share of the previous state that is kept.
    fn zoneout_at(&self, t: usize) -> Option<Prim<B>> {
        Some(self.at(self.zoneout.as_ref()?, t))
    }

    /// With 0 in the rows of skipped steps, `[T·N,H]`.
    fn silenced_rows(&self, rows: Prim<B>) -> Prim<B> {
        match &self.step_mask {
            Some(valid) => {
                let count = self.n * self.t;
                let skipped = valid.clone().reshape([count, 1]).is_zero();
                rows.silenced(skipped.expand([count, self.h]))
            }
            None => rows,
        }
    }

    fn masked(&self, h: Prim<B>) -> Prim<B> {
        match &self.recurrent_mask {
            Some(mask) => h * mask.clone(),
            None => h,
        }
    }

    /// The gate columns `from..to` of a matrix, counted in gates.
    fn columns(&self, matrix: &Prim<B>, from: usize, to: usize) -> Prim<B> {
        matrix.narrow(1, from * self.h..to * self.h)
    }

    /// `p`: the input product of all steps at once, with `b_ih`; a sequence of `3H` features.
    pub(crate) fn project(&self) -> Prim<B> {
        let width = 3 * self.h;
        let p = match &self.w_ih {
            Some(w_ih) => {
                let [_, _, i] = self.x.dims();
                let rows = self.x.clone().reshape([self.n * self.t, i]);
                let p = rows.matmul(w_ih.clone());
                p.reshape(self.sequence_shape(width))
            }
            None => self.x.clone(),
        };
        match &self.b_ih {
            Some(b) => p + b.clone().reshape([1, 1, width]),
            None => p,
        }
    }

    /// `q`, or its gates `from..to`, of any number of rows.
    fn recurrent(&self, g: Prim<B>, from: usize, to: usize) -> Prim<B> {
        let q = g.matmul(self.columns(&self.w_hh, from, to));
        match &self.b_hh {
            Some(b) => q + self.columns(&b.clone().reshape([1, 3 * self.h]), from, to),
            None => q,
        }
    }

    /// The gates `[r, z, n, q_n]` (without q_n for reset-before) of any number of rows, from their
    /// `p` and `g`.
    fn gates(&self, p: &Prim<B>, g: Prim<B>) -> Vec<Prim<B>> {
        let gate = gates(&self.spec);
        let q_rz = |q: &Prim<B>| {
            let a = self.columns(p, 0, 2) + self.columns(q, 0, 2);
            let r = gate[0].apply(self.columns(&a, 0, 1));
            let z = gate[1].apply(self.columns(&a, 1, 2));
            (r, z)
        };
        let p_n = self.columns(p, 2, 3);
        match self.spec.reset {
            Reset::AfterMatmul => {
                let q = self.recurrent(g, 0, 3);
                let (r, z) = q_rz(&q);
                let q_n = self.columns(&q, 2, 3);
                let n = gate[2].apply(p_n + r.clone() * q_n.clone());
                vec![r, z, n, q_n]
            }
            Reset::BeforeMatmul => {
                let (r, z) = q_rz(&self.recurrent(g.clone(), 0, 2));
                let n = gate[2].apply(p_n + self.recurrent(r.clone() * g, 2, 3));
                vec![r, z, n]
            }
        }
    }

    /// A sequence as a matrix, `[T·N,features]`.
    pub(crate) fn rows(&self, sequence: Prim<B>) -> Prim<B> {
        let [_, _, features] = sequence.dims();
        sequence.reshape([self.n * self.t, features])
    }

    /// g of every row, `[T·N,H]`, from the state before every step: its own memory, but one
    /// product instead of T.
    fn masked_rows(&self, previous: Prim<B>) -> Prim<B> {
        match &self.recurrent_mask {
            Some(mask) => {
                let shape = match self.time_dim {
                    0 => [1, self.n, self.h],
                    _ => [self.n, 1, self.h],
                };
                self.rows(previous * mask.clone().reshape(shape))
            }
            None => self.rows(previous),
        }
    }

    /// All gates anew, a sequence, from the state before every step.
    fn recompute(&self, previous: Prim<B>) -> Prim<B> {
        let gates = self.gates(&self.rows(self.project()), self.masked_rows(previous));
        let width = gates.len() * self.h;
        Prim::cat(gates, 1).reshape(self.sequence_shape(width))
    }

    fn blend(&self, h: &Prim<B>, z: &Prim<B>, n: &Prim<B>) -> Prim<B> {
        let (kept, taken) = match self.spec.update {
            Update::Keeps => (z.clone(), z.clone().complement()),
            Update::Takes => (z.clone().complement(), z.clone()),
        };
        kept * h.clone() + taken * n.clone()
    }

    /// The state before every step, a sequence.
    fn previous(&self, states: &Prim<B>) -> Prim<B> {
        let before = |&(k, _): &(usize, &usize)| match k {
            0 => self.initial(),
            _ => self.at(states, self.times[k - 1]),
        };
        self.sequence(self.times.iter().enumerate().map(|s| before(&s)).collect())
    }
}

fn walk<B: Backend>(call: &Call<B>, mut each: impl FnMut(&[Prim<B>])) -> Prim<B> {
    let p = call.project();
    let mut h = call.initial();
    let mut states = Vec::with_capacity(call.t);
    for &t in &call.times {
        let gates = call.gates(&call.at(&p, t), call.masked(h.clone()));
        let mut new = call.blend(&h, &gates[1], &gates[2]);
        if let Some(c) = call.spec.clip_state {
            new = new.clamp(-c, c);
        }
        let next = match call.zoneout_at(t) {
            Some(kept) => new * kept.clone().complement() + h.clone() * kept,
            None => new,
        };
        h = match call.skipped_at(t) {
            Some(skipped) => next.replaced(skipped, h),
            None => next,
        };
        each(&gates);
        states.push(h.clone());
    }
    call.sequence(states)
}

pub(crate) fn states<B: Backend>(call: GruCall<B>) -> FloatTensor<B> {
    let call = Call::new(call);
    if call.n == 0 || call.t == 0 {
        return Prim::zeros(call.sequence_shape(call.h), &call.w_hh).0;
    }
    walk(&call, |_| {}).0
}

pub(crate) fn states_and_gates<B: Backend>(call: GruCall<B>) -> GruSaved<B> {
    let call = Call::new(call);
    let width = call.spec.saved_per_unit() * call.h;
    if call.n == 0 || call.t == 0 {
        return GruSaved {
            states: Prim::zeros(call.sequence_shape(call.h), &call.w_hh).0,
            gates: Some(Prim::zeros(call.sequence_shape(width), &call.w_hh).0),
        };
    }
    let mut kept = Vec::with_capacity(call.t);
    let states = walk(&call, |gates| kept.push(Prim::cat(gates.to_vec(), 1)));
    GruSaved {
        states: states.0,
        gates: Some(call.sequence(kept).0),
    }
}

/// See [`GruBackend::gru_gradients`](crate::backend::GruBackend::gru_gradients). The backward of `gru-cpu`
/// has the equations.
pub(crate) fn gradients<B: Backend>(
    call: GruCall<B>,
    saved: GruSaved<B>,
    d_states: FloatTensor<B>,
    wanted: PerInput<bool>,
) -> GruGradients<B> {
    let (sizes, layout) = (call.sizes(), call.order.layout);
    let call = Call::new(call);
    if sizes.rows() == 0 {
        // Nothing flows through an empty batch or an empty sequence.
        let shapes = sizes.shapes(layout);
        let zeros = |(wanted, shape): (bool, Option<&gru_spec::Shape>)| {
            let shape = shape.filter(|_| wanted)?;
            Some(Prim::zeros(shape.to_vec(), &call.w_hh).0)
        };
        return GruGradients(wanted.zip(shapes.differentiable()).map(zeros));
    }
    let x_shape = call.x.dims::<3>();
    let spec = &call.spec;
    let (states, d_states) = (Prim::<B>(saved.states), Prim::<B>(d_states));
    let (n, t, h) = (call.n, call.t, call.h);
    let previous = call.previous(&states);
    let rows = |sequence: Prim<B>| call.rows(sequence);
    let masked_previous = || call.silenced_rows(call.masked_rows(previous.clone()));
    let kept = match saved.gates {
        Some(kept) => Prim(kept),
        None => call.recompute(previous.clone()),
    };

    let [gate_r, gate_z, gate_n] = gates(spec);
    let w_hh_t = |from, to| call.columns(&call.w_hh, from, to).transpose();
    let mut dh = Prim::zeros([n, h], &states);
    let (mut dps, mut dq_ns) = (Vec::with_capacity(t), Vec::with_capacity(t));
    for &t in call.times.iter().rev() {
        let kept = call.at(&kept, t);
        let [r, z, n] = [0, 1, 2].map(|k| call.columns(&kept, k, k + 1));
        let before = call.at(&previous, t);
        dh = dh + call.at(&d_states, t);
        let skipped = call.skipped_at(t);
        let silenced = |d: Prim<B>| match &skipped {
            Some(skipped) => d.silenced(skipped.clone()),
            None => d,
        };

        // A skipped step passes its whole gradient on, zoneout passes the kept share past the step, a
        // clipped state passes none.
        let whole = dh.clone();
        let kept_share = call.zoneout_at(t);
        let past = kept_share.clone().map(|kept| dh.clone() * kept);
        let mut d = match kept_share {
            Some(kept) => dh * kept.complement(),
            None => dh,
        };
        if let Some(c) = spec.clip_state {
            let u = call.blend(&before, &z, &n);
            d = d.silenced(u.above(c).or(u.below(-c)));
        }
        let (dz, dn, carry) = match spec.update {
            Update::Keeps => (
                d.clone() * (before.clone() - n.clone()),
                d.clone() * z.clone().complement(),
                d * z.clone(),
            ),
            Update::Takes => (
                d.clone() * (n.clone() - before.clone()),
                d.clone() * z.clone(),
                d * z.clone().complement(),
            ),
        };
        let dz = silenced(dz * gate_z.slope(z));
        let dn = silenced(dn * gate_n.slope(n));
        let (dr, dq_n, dg) = match spec.reset {
            Reset::AfterMatmul => {
                let q_n = call.columns(&kept, 3, 4);
                let dr = silenced(dn.clone() * q_n * gate_r.slope(r.clone()));
                let dq_n = silenced(dn.clone() * r);
                let dq = Prim::cat(vec![dr.clone(), dz.clone(), dq_n.clone()], 1);
                (dr, dq_n, dq.matmul(w_hh_t(0, 3)))
            }
            Reset::BeforeMatmul => {
                let ds = dn.clone().matmul(w_hh_t(2, 3));
                let dr = silenced(ds.clone() * call.masked(before) * gate_r.slope(r.clone()));
                let d_rz = Prim::cat(vec![dr.clone(), dz.clone()], 1);
                (dr, dn.clone(), d_rz.matmul(w_hh_t(0, 2)) + ds * r)
            }
        };
        dh = carry + call.masked(dg);
        if let Some(past) = past {
            dh = dh + past;
        }
        if let Some(skipped) = skipped {
            dh = dh.replaced(skipped, whole);
        }
        dps.push(Prim::cat(vec![dr, dz, dn], 1));
        dq_ns.push(dq_n);
    }
    // The loop ran backwards.
    dps.reverse();
    dq_ns.reverse();
    let dp = rows(call.sequence(dps));
    let dq_n = rows(call.sequence(dq_ns));

    let x = wanted.x.then(|| match &call.w_ih {
        Some(w_ih) => dp.clone().matmul(w_ih.clone().transpose()).reshape(x_shape),
        None => dp.clone().reshape(x_shape),
    });
    let w_ih = wanted
        .w_ih
        .then(|| rows(call.x.clone()).transpose().matmul(dp.clone()));
    let w_hh = wanted.w_hh.then(|| {
        let g = masked_previous();
        let g_n = match spec.reset {
            Reset::AfterMatmul => g.clone(),
            Reset::BeforeMatmul => {
                call.silenced_rows(call.columns(&rows(kept.clone()), 0, 1) * g.clone())
            }
        };
        let rz = g.transpose().matmul(call.columns(&dp, 0, 2));
        Prim::cat(vec![rz, g_n.transpose().matmul(dq_n.clone())], 1)
    });
    let b_ih = wanted.b_ih.then(|| dp.clone().sum_rows());
    let b_hh = wanted.b_hh.then(|| {
        let rz = call.columns(&dp, 0, 2).sum_rows();
        Prim::cat(vec![rz, dq_n.clone().sum_rows()], 0)
    });
    let h0 = wanted.h0.then_some(dh);
    let gradients = PerInput {
        x,
        h0,
        w_ih,
        w_hh,
        b_ih,
        b_hh,
    };
    GruGradients(gradients.map(|gradient| gradient.map(|gradient| gradient.0)))
}

#[cfg(all(test, feature = "flex"))]
mod tests;
