//! The solution of a small problem in float64, by plain loops.

use super::problem::{N, Small, T, columns, row_at};
use crate::kernel::rule::Starts;
use gru_spec::{Activation, Reset, Update};

/// States and gates as the kernels store them.
pub(super) struct Forward {
    pub(super) states: Vec<f64>,
    pub(super) gates: Vec<f64>,
}

/// Gradients as the kernels store them.
pub(super) struct Backward {
    pub(super) d_gates: Vec<f64>,
    pub(super) d_h0: Vec<f64>,
}

/// What a step computes for a row. Without a value at a skipped step.
struct Step {
    previous: Vec<f64>,
    /// The masked previous state.
    g: Vec<f64>,
    /// Pre-activations and outputs of r, z and n.
    a: [Vec<f64>; 3],
    y: [Vec<f64>; 3],
    q_n: Vec<f64>,
}

impl Small {
    fn mask(&self, k: usize, j: usize) -> f64 {
        let mask = self.recurrent_mask.as_ref();
        mask.map_or(1.0, |mask| mask[k * self.call.h + j])
    }

    fn kept(&self, row: usize, j: usize) -> f64 {
        let Some(zoneout) = &self.zoneout else {
            return 0.0;
        };
        if zoneout.len() == N * T {
            zoneout[row]
        } else {
            zoneout[row * self.call.h + j]
        }
    }

    fn bias(&self, gate: usize, j: usize) -> [f64; 2] {
        let of = |bias: &Option<Vec<f64>>| bias.as_ref().map_or(0.0, |b| b[gate * self.call.h + j]);
        [of(&self.b_ih), of(&self.b_hh)]
    }

    /// The part of the recurrent product for the gates from `first` on.
    fn product(&self, lhs: &[f64], first: usize) -> Vec<f64> {
        let h = self.call.h;
        let mut sums = vec![0.0; 3 * h];
        for (k, x) in lhs.iter().enumerate() {
            for c in columns(k, h).filter(|&c| c >= first * h) {
                sums[c] += x * self.w_hh[k * 3 * h + c];
            }
        }
        sums
    }

    /// `d · w_hhᵀ`, where `d` has the columns of the weight from `first · H` on.
    fn product_back(&self, d: &[f64], first: usize) -> Vec<f64> {
        let h = self.call.h;
        let range = first * h..first * h + d.len();
        let term = |k: usize, c: usize| self.w_hh[k * 3 * h + c] * d[c - range.start];
        let sum = |k| {
            let columns = columns(k, h).filter(|c| range.contains(c));
            columns.map(|c| term(k, c)).sum()
        };
        (0..h).map(sum).collect()
    }

    fn phi(&self) -> [Activation; 3] {
        self.call.spec.activations.into_array()
    }

    fn clipped(&self, a: f64) -> f64 {
        self.call.spec.clip_gates.map_or(a, |c| a.clamp(-c, c))
    }

    fn slope(&self, gate: usize, a: f64, y: f64) -> f64 {
        if self.clipped(a) == a {
            self.phi()[gate].slope(y)
        } else {
            0.0
        }
    }

    /// The state before a step, from the state that the step before has stored.
    fn previous(&self, k: usize, row: usize, state: &[f64]) -> Vec<f64> {
        let h = self.call.h;
        match (&self.h0, self.call.starts) {
            _ if !self.starts(row) => state.to_vec(),
            (Some(h0), Starts::FromState) => h0[(N + k) * h..][..h].to_vec(),
            _ => vec![0.0; h],
        }
    }

    fn initial(&self, k: usize) -> Vec<f64> {
        let h = self.call.h;
        let h0 = self.h0.as_ref();
        h0.map_or(vec![0.0; h], |h0| h0[k * h..][..h].to_vec())
    }

    fn step(&self, k: usize, row: usize, state: &[f64]) -> Step {
        let h = self.call.h;
        let is_after = self.call.spec.reset == Reset::AfterMatmul;
        let previous = self.previous(k, row, state);
        let g: Vec<f64> = (0..h).map(|j| self.mask(k, j) * previous[j]).collect();
        let q = self.product(&g, 0);
        let of_gate = |gate: usize, q: &dyn Fn(usize) -> f64| {
            let a: Vec<f64> = (0..h)
                .map(|j| self.p[(row * 3 + gate) * h + j] + self.bias(gate, j)[0] + q(j))
                .collect();
            let y = a
                .iter()
                .map(|&a| self.phi()[gate].value(self.clipped(a)))
                .collect::<Vec<_>>();
            (a, y)
        };
        let [(a_r, r), (a_z, z)] =
            [0, 1].map(|gate| of_gate(gate, &|j| q[gate * h + j] + self.bias(gate, j)[1]));
        let q_n: Vec<f64> = if is_after {
            (0..h).map(|j| q[2 * h + j] + self.bias(2, j)[1]).collect()
        } else {
            let rg: Vec<f64> = r.iter().zip(&g).map(|(r, g)| r * g).collect();
            let q = self.product(&rg, 2);
            (0..h).map(|j| q[2 * h + j] + self.bias(2, j)[1]).collect()
        };
        let (a_n, n) = of_gate(2, &|j| if is_after { r[j] * q_n[j] } else { q_n[j] });
        Step {
            previous,
            g,
            a: [a_r, a_z, a_n],
            y: [r, z, n],
            q_n,
        }
    }

    /// The state after a step, before its clip.
    fn blend(&self, step: &Step, j: usize) -> f64 {
        let (h, z, n) = (step.previous[j], step.y[1][j], step.y[2][j]);
        match self.call.spec.update {
            Update::Keeps => z * h + (1.0 - z) * n,
            Update::Takes => (1.0 - z) * h + z * n,
        }
    }

    pub(super) fn forward(&self) -> Forward {
        let (h, saved) = (self.call.h, self.call.spec.saved_per_unit());
        let mut states = vec![0.0; N * T * h];
        let mut gates = vec![0.0; N * T * h * saved];
        for k in 0..N {
            let mut state = self.initial(k);
            for s in 0..T {
                let row = row_at(&self.call, k, s);
                let step = self.step(k, row, &state);
                state = (0..h)
                    .map(|j| {
                        let blended = self.blend(&step, j);
                        let clip = self.call.spec.clip_state;
                        let next = clip.map_or(blended, |c| blended.clamp(-c, c));
                        let kept = self.kept(row, j);
                        if self.is_skipped(row) {
                            step.previous[j]
                        } else {
                            kept * step.previous[j] + (1.0 - kept) * next
                        }
                    })
                    .collect();
                states[row * h..][..h].copy_from_slice(&state);
                let [r, z, n] = &step.y;
                for (i, gate) in [r, z, n, &step.q_n].into_iter().take(saved).enumerate() {
                    gates[(row * saved + i) * h..][..h].copy_from_slice(gate);
                }
            }
        }
        Forward { states, gates }
    }

    pub(super) fn backward(&self) -> Backward {
        let (h, saved) = (self.call.h, self.call.spec.saved_per_unit());
        let states = self.forward().states;
        let mut d_gates = vec![0.0; N * T * h * saved];
        let mut d_h0 = vec![0.0; 2 * N * h];
        for k in 0..N {
            let mut dh = vec![0.0; h];
            for s in (0..T).rev() {
                let row = row_at(&self.call, k, s);
                for (d, d_state) in dh.iter_mut().zip(&self.d_states[row * h..]) {
                    *d += d_state;
                }
                if !self.is_skipped(row) {
                    let before = match s {
                        0 => self.initial(k),
                        _ => states[row_at(&self.call, k, s - 1) * h..][..h].to_vec(),
                    };
                    let step = self.step(k, row, &before);
                    let d = self.step_back(k, row, &step, &mut dh);
                    for (i, d) in d.iter().take(saved).enumerate() {
                        d_gates[(row * saved + i) * h..][..h].copy_from_slice(d);
                    }
                }
                if self.starts(row) {
                    for (j, d) in dh.iter_mut().enumerate() {
                        d_h0[(N + k) * h + j] += *d;
                        *d = 0.0;
                    }
                }
            }
            d_h0[k * h..][..h].copy_from_slice(&dh);
        }
        if self.call.starts != Starts::FromState {
            d_h0.truncate(N * h);
        }
        Backward { d_gates, d_h0 }
    }

    /// From the gradient of the state after a valid step to the gradient of the state before it. Returns the
    /// gradients of the pre-activations: `dr̄, dz̄, dn̄, dn̄⊙r`.
    fn step_back(&self, k: usize, row: usize, step: &Step, dh: &mut [f64]) -> [Vec<f64>; 4] {
        let h = self.call.h;
        let mut d = [(); 4].map(|()| vec![0.0; h]);
        for j in 0..h {
            let (kept, upstream) = (self.kept(row, j), dh[j]);
            let blended = self.blend(step, j);
            let clip = self.call.spec.clip_state;
            let inner = if clip.is_some_and(|c| blended.abs() > c) {
                0.0
            } else {
                upstream * (1.0 - kept)
            };
            let [r, z, n] = [0, 1, 2].map(|gate| step.y[gate][j]);
            let (dz, dn, through) = match self.call.spec.update {
                Update::Keeps => (step.previous[j] - n, 1.0 - z, z),
                Update::Takes => (n - step.previous[j], z, 1.0 - z),
            };
            d[1][j] = inner * dz * self.slope(1, step.a[1][j], z);
            d[2][j] = inner * dn * self.slope(2, step.a[2][j], n);
            d[3][j] = d[2][j] * r;
            dh[j] = inner * through + upstream * kept;
        }
        let is_after = self.call.spec.reset == Reset::AfterMatmul;
        // The gradient of `r ⊙ g`, with the reset before the product.
        let ds = self.product_back(&d[2], 2);
        for j in 0..h {
            let slope = self.slope(0, step.a[0][j], step.y[0][j]);
            d[0][j] = slope
                * if is_after {
                    d[2][j] * step.q_n[j]
                } else {
                    dh[j] += self.mask(k, j) * ds[j] * step.y[0][j];
                    ds[j] * step.g[j]
                };
        }
        let lhs = if is_after {
            [&d[0][..], &d[1], &d[3]].concat()
        } else {
            [&d[0][..], &d[1]].concat()
        };
        for (j, dg) in self.product_back(&lhs, 0).into_iter().enumerate() {
            dh[j] += self.mask(k, j) * dg;
        }
        d
    }
}
