//! The maximum effect of activation errors on a gain: to first order, over all errors at once.

use super::{EXACT, Layer, Twin};

/// The values of all steps in one run of the exact twin.
pub struct Run {
    twin: Twin,
    steps: Vec<Step>,
}

struct Step {
    d: Vec<f64>,
    grus: [Gru; 3],
}

struct Gru {
    before: Vec<f64>,
    gates: [Vec<f64>; 3],
}

/// The largest errors of the twin's activations.
#[derive(Clone, Copy)]
pub struct Errors {
    pub tanh: f64,
    pub sigmoid: f64,
}

impl Run {
    pub fn new(mut twin: Twin, features: &[Vec<f64>]) -> Self {
        let step = |x: &Vec<f64>| {
            let before = twin.states.clone();
            twin.step(x);
            let d = twin.layers[0].dense(x, EXACT);
            let [v, n, _] = &twin.states;
            let inputs = [d.clone(), [&d[..], v, x].concat(), [&v[..], n, x].concat()];
            let mut k = 0;
            let grus = before.map(|before| {
                let gates = twin.layers[k + 1].gates(&inputs[k], &before, EXACT);
                k += 1;
                Gru { before, gates }
            });
            Step { d, grus }
        };
        let steps = features.iter().map(step).collect();
        Self { twin, steps }
    }

    /// The maximum change of the gains and the voice of step `t`, for any errors within `errors` at
    /// every step up to `t`. It is the sum over all activations of `|∂output/∂activation|` times its
    /// error, computed by the chain rule backwards from the output.
    pub fn bound(&self, t: usize, errors: Errors) -> f64 {
        let [.., gains, voice] = &self.twin.layers;
        let after = |gru: usize| {
            let Gru { before, gates } = &self.steps[t].grus[gru];
            let [z, _, c] = gates;
            let states = before.iter().zip(z).zip(c);
            states
                .map(|((h, z), c)| z * h + (1.0 - z) * c)
                .collect::<Vec<_>>()
        };
        let from = |gru: usize, layer: &Layer, k: usize| {
            let mut d: [Vec<f64>; 3] = self.twin.states.each_ref().map(|h| vec![0.0; h.len()]);
            let y = layer.dense(&after(gru), EXACT)[k];
            for (d, row) in d[gru].iter_mut().zip(&layer.weight) {
                *d = y * (1.0 - y) * row[k];
            }
            errors.sigmoid + self.back(t, d, errors)
        };
        let all = (0..gains.units).map(|k| from(2, gains, k));
        all.chain([from(0, voice, 0)]).fold(0.0, f64::max)
    }

    /// Propagates the derivatives by the states after step `t` back to the first step.
    fn back(&self, t: usize, mut d: [Vec<f64>; 3], errors: Errors) -> f64 {
        let mut total = 0.0;
        for step in self.steps[..=t].iter().rev() {
            let [v, n, _] = [0, 1, 2].map(|k: usize| step.grus[k].before.len());
            let mut d_d = vec![0.0; step.d.len()];
            // v | n | features
            let d_x = self.gru(2, step, &mut d[2], errors, &mut total);
            add(&mut d[0], &d_x[..v]);
            add(&mut d[1], &d_x[v..v + n]);
            // d | v | features
            let d_x = self.gru(1, step, &mut d[1], errors, &mut total);
            add(&mut d_d, &d_x);
            add(&mut d[0], &d_x[d_d.len()..]);
            let d_x = self.gru(0, step, &mut d[0], errors, &mut total);
            add(&mut d_d, &d_x);
            total += errors.tanh * d_d.iter().map(|d| d.abs()).sum::<f64>();
        }
        total
    }

    /// One step of one GRU: `d` changes from the derivative by the new state to the derivative by the
    /// previous state. Returns the derivatives by the inputs.
    fn gru(
        &self,
        k: usize,
        step: &Step,
        d: &mut [f64],
        errors: Errors,
        total: &mut f64,
    ) -> Vec<f64> {
        let layer = &self.twin.layers[k + 1];
        let Gru { before: h, gates } = &step.grus[k];
        let [z, r, c] = gates;
        let units = layer.units;
        // z | r | candidate, derivatives by the sums inside the activations.
        let mut d_sum = vec![0.0; 3 * units];
        for j in 0..units {
            let d_z = (h[j] - c[j]) * d[j];
            *total += errors.sigmoid * d_z.abs();
            d_sum[j] = z[j] * (1.0 - z[j]) * d_z;
            // ReLU has no table.
            d_sum[2 * units + j] = if c[j] > 0.0 { (1.0 - z[j]) * d[j] } else { 0.0 };
            d[j] *= z[j];
        }
        for j in 0..units {
            let d_seen = dot(&layer.recurrent[j][2 * units..], &d_sum[2 * units..]);
            let d_r = h[j] * d_seen;
            *total += errors.sigmoid * d_r.abs();
            d_sum[units + j] = r[j] * (1.0 - r[j]) * d_r;
            d[j] += r[j] * d_seen;
        }
        for (d, row) in d.iter_mut().zip(&layer.recurrent) {
            *d += dot(&row[..2 * units], &d_sum[..2 * units]);
        }
        layer.weight.iter().map(|row| dot(row, &d_sum)).collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}
