//! The recurrence in float64, number by number: NaN and infinities go where IEEE 754 sends them, a
//! NaN gate has a NaN slope, and what a skipped step holds goes nowhere.

use super::{Outcome, Problem};
use gru_cpu::spec::{Activation, Direction, Reset, Update};

/// `φ(clip(a))`.
pub fn value(activation: Activation, clip: Option<f64>, a: f64) -> f64 {
    match a.is_nan() {
        true => a,
        false => activation.value(bound(a, clip)),
    }
}

/// `dφ/da` from the output, if its pre-activation was not clipped.
pub fn slope(activation: Activation, y: f64) -> f64 {
    let step = |inside: bool, alpha: f64| if inside { alpha } else { 0.0 };
    match activation {
        _ if y.is_nan() => y,
        Activation::Sigmoid => y * (1.0 - y),
        Activation::Tanh => (1.0 - y) * (1.0 + y),
        Activation::Relu | Activation::ThresholdedRelu { .. } => step(y > 0.0, 1.0),
        Activation::HardSigmoid { alpha, .. } => step(y > 0.0 && y < 1.0, alpha),
        Activation::Identity => 1.0,
        Activation::Affine { alpha, .. } => alpha,
        Activation::LeakyRelu { .. } | Activation::Elu { .. } if y > 0.0 => 1.0,
        Activation::LeakyRelu { alpha } => alpha,
        Activation::ScaledTanh { alpha, beta } => beta / alpha * (alpha - y) * (alpha + y),
        Activation::Elu { alpha } => y + alpha,
        Activation::Softsign => (1.0 - y.abs()).powi(2),
        Activation::Softplus => -(-y).exp_m1(),
        other => unimplemented!("{other:?}"),
    }
}

/// `clamp(a, −c, c)`, NaN where `a` is.
fn bound(a: f64, c: Option<f64>) -> f64 {
    c.map_or(a, |c| if a.abs() > c { c.copysign(a) } else { a })
}

/// What [`run`](super::run) yields. Of gates that are clipped, only NaN has a slope.
pub fn run(problem: &Problem) -> Outcome {
    let &Problem { n, t, h, spec, .. } = problem;
    let activations = spec.activations;
    let after = spec.reset == Reset::AfterMatmul;
    let or = |tensor: &Option<Vec<f64>>, at: usize, otherwise: f64| match tensor {
        Some(tensor) => tensor[at],
        None => otherwise,
    };
    let bias = |gate: usize, j: usize| or(&problem.b_hh, gate * h + j, 0.0);
    let w = |k: usize, gate: usize, j: usize| problem.w_hh[k * 3 * h + gate * h + j];
    let row = |k: usize, s: usize| match spec.direction {
        Direction::Forward => problem.row(k, s),
        Direction::Reverse => problem.row(k, t - 1 - s),
    };
    let product =
        |g: &[f64], gate: usize, j: usize| -> f64 { (0..h).map(|k| g[k] * w(k, gate, j)).sum() };
    let phi = |activation, a| value(activation, spec.clip_gates, a);
    let mut states = vec![0.0; n * t * h];
    let mut out = Outcome {
        d_p: vec![0.0; 3 * n * t * h],
        d_h0: vec![0.0; n * h],
        d_w_hh: vec![0.0; 3 * h * h],
        d_b_hh: vec![0.0; 3 * h],
        states: Vec::new(),
    };
    for k in 0..n {
        let m = |j: usize| or(&problem.mask, k * h + j, 1.0);
        // Of every step that counts: its row, state before, g, r, z, n, q_n.
        let mut steps = Vec::new();
        let mut state: Vec<f64> = (0..h).map(|j| or(&problem.h0, k * h + j, 0.0)).collect();
        for s in 0..t {
            let row = row(k, s);
            if or(&problem.valid, row, 1.0) != 0.0 {
                let before = state.clone();
                let g: Vec<f64> = (0..h).map(|j| m(j) * before[j]).collect();
                let p = |gate: usize, j: usize| {
                    problem.p[(row * 3 + gate) * h + j] + or(&problem.b_ih, gate * h + j, 0.0)
                };
                let gate = |gate: usize, activation| -> Vec<f64> {
                    let a = |j| p(gate, j) + product(&g, gate, j) + bias(gate, j);
                    (0..h).map(|j| phi(activation, a(j))).collect()
                };
                let (r, z) = (gate(0, activations.reset), gate(1, activations.update));
                let left: Vec<f64> = match after {
                    true => g.clone(),
                    false => (0..h).map(|j| r[j] * g[j]).collect(),
                };
                let q_n: Vec<f64> = (0..h).map(|j| product(&left, 2, j) + bias(2, j)).collect();
                let new: Vec<f64> = (0..h)
                    .map(|j| p(2, j) + if after { r[j] * q_n[j] } else { q_n[j] })
                    .map(|a| phi(activations.candidate, a))
                    .collect();
                let blended: Vec<f64> = (0..h)
                    .map(|j| match spec.update {
                        Update::Keeps => z[j] * before[j] + (1.0 - z[j]) * new[j],
                        Update::Takes => (1.0 - z[j]) * before[j] + z[j] * new[j],
                    })
                    .collect();
                state = blended.iter().map(|&u| bound(u, spec.clip_state)).collect();
                steps.push((row, before, left, g, r, z, new, q_n, blended));
            }
            states[row * h..][..h].copy_from_slice(&state);
        }
        let mut dh = vec![0.0; h];
        for s in (0..t).rev() {
            let row = row(k, s);
            for (dh, d) in dh.iter_mut().zip(&problem.d_states[row * h..]) {
                *dh += d;
            }
            if steps.last().is_none_or(|step| step.0 != row) {
                continue;
            }
            let (_, before, left, g, r, z, new, q_n, blended) = steps.pop().unwrap();
            let is_cut = |j: usize| spec.clip_state.is_some_and(|c| blended[j].abs() > c);
            let d: Vec<f64> = (0..h)
                .map(|j| if is_cut(j) { 0.0 } else { dh[j] })
                .collect();
            let (mut dz, mut dn) = (vec![0.0; h], vec![0.0; h]);
            for j in 0..h {
                let (towards, taken) = match spec.update {
                    Update::Keeps => (before[j] - new[j], 1.0 - z[j]),
                    Update::Takes => (new[j] - before[j], z[j]),
                };
                dz[j] = d[j] * towards * slope(activations.update, z[j]);
                dn[j] = d[j] * taken * slope(activations.candidate, new[j]);
                dh[j] = d[j]
                    * if spec.update == Update::Keeps {
                        z[j]
                    } else {
                        1.0 - z[j]
                    };
            }
            let back = |d: &[f64], gate: usize, j: usize| -> f64 {
                (0..h).map(|c| d[c] * w(j, gate, c)).sum()
            };
            let ds: Vec<f64> = (0..h).map(|j| back(&dn, 2, j)).collect();
            let dr: Vec<f64> = (0..h)
                .map(|j| if after { dn[j] * q_n[j] } else { ds[j] * g[j] })
                .zip(&r)
                .map(|(d, &r)| d * slope(activations.reset, r))
                .collect();
            let dq_n: Vec<f64> = match after {
                true => (0..h).map(|j| dn[j] * r[j]).collect(),
                false => dn.clone(),
            };
            for j in 0..h {
                let through_n = if after {
                    back(&dq_n, 2, j)
                } else {
                    ds[j] * r[j]
                };
                dh[j] += m(j) * (back(&dr, 0, j) + back(&dz, 1, j) + through_n);
                for (gate, d) in [&dr, &dz, &dn].into_iter().enumerate() {
                    out.d_p[(row * 3 + gate) * h + j] = d[j];
                }
                for (gate, d) in [&dr, &dz, &dq_n].into_iter().enumerate() {
                    out.d_b_hh[gate * h + j] += d[j];
                    let left = if gate == 2 { &left } else { &g };
                    for (i, left) in left.iter().enumerate() {
                        out.d_w_hh[i * 3 * h + gate * h + j] += left * d[j];
                    }
                }
            }
        }
        out.d_h0[k * h..][..h].copy_from_slice(&dh);
    }
    Outcome { states, ..out }
}

/// NaN where NaN is expected, the same infinity where one is, and close elsewhere.
pub fn same(name: &str, got: &[f64], expected: &[f64], tolerance: f64) -> Result<(), String> {
    assert_eq!(got.len(), expected.len(), "{name}");
    let finite = expected.iter().filter(|x| x.is_finite());
    let scale = finite.fold(1.0, |max: f64, x| max.max(x.abs()));
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let is_same = match expected.is_finite() {
            true => (got - expected).abs() <= tolerance * scale,
            false => got == expected || (got.is_nan() && expected.is_nan()),
        };
        if !is_same {
            return Err(format!("{name}[{i}]: got {got:e}, expected {expected:e}"));
        }
    }
    Ok(())
}

impl Outcome {
    /// [`same`], of everything.
    pub fn is_same(&self, expected: &Self, tolerance: (f64, f64)) -> Result<(), String> {
        same("states", &self.states, &expected.states, tolerance.0)?;
        for (name, got, expected) in [
            ("d_p", &self.d_p, &expected.d_p),
            ("d_h0", &self.d_h0, &expected.d_h0),
            ("d_w_hh", &self.d_w_hh, &expected.d_w_hh),
            ("d_b_hh", &self.d_b_hh, &expected.d_b_hh),
        ] {
            same(name, got, expected, tolerance.1)?;
        }
        Ok(())
    }
}
