//! The equations as scalar float64 loops, and gradients by finite differences.
//!
//! Written from the equations alone and shared with no kernel. Slow on purpose: nothing here is
//! blocked, fused or saved, and no derivative is written by hand.

use gru_cpu::spec::{Activation, Direction, Reset, Update};

use crate::{
    close::{Outcome, Tensors},
    inputs::Inputs,
    problem::Problem,
};

/// Step of the differences: a power of two, so that a float32 input plus a few steps is exact.
///
/// The 4th-order formula truncates `STEP⁴/30 · f⁽⁵⁾` ≈ 3e-14 f⁽⁵⁾ and rounds about
/// `1.5 · ε·|loss| / STEP` ≈ 1e-12; both are balanced near 2⁻¹⁰.
const STEP: f64 = 1.0 / 1024.0;

/// What one forward pass gives.
#[derive(Debug, Clone)]
pub struct Forward {
    /// The state after every step, `[N, T, H]` or `[T, N, H]`.
    pub y: Vec<f64>,
    /// The state after the last step walked, `[N, H]`.
    pub h_t: Vec<f64>,
    /// The reset gate, the update gate and the candidate, each of the shape of `y`.
    pub gates: [Vec<f64>; 3],
    /// How near any value came to a kink of the function applied to it.
    pub kink_distance: f64,
    /// Hash of the smooth pieces all values lay on: equal pieces, one smooth function.
    pieces: u64,
}

/// Runs the sequence.
pub fn forward(problem: &Problem, inputs: &Inputs) -> Forward {
    let &Problem { n, t, i, h, .. } = problem;
    let mut kinks = Kinks::new();
    let mut y = vec![0.0; n * t * h];
    let mut gates = [y.clone(), y.clone(), y.clone()];
    let mut state = inputs.h0.clone().unwrap_or_else(|| vec![0.0; n * h]);
    for step in 0..t {
        let time = match problem.spec.direction {
            Direction::Forward => step,
            Direction::Reverse => t - 1 - step,
        };
        for row in 0..n {
            let at = problem.row(row, time);
            let x = &inputs.x[at * i..][..i];
            let next = cell(problem, inputs, x, &state[row * h..][..h], &mut kinks);
            for (all, gate) in gates.iter_mut().zip(&next.gates) {
                all[at * h..][..h].copy_from_slice(gate);
            }
            state[row * h..][..h].copy_from_slice(&next.state);
            y[at * h..][..h].copy_from_slice(&next.state);
        }
    }
    Forward {
        y,
        h_t: state,
        gates,
        kink_distance: kinks.distance,
        pieces: kinks.pieces,
    }
}

/// One step of one row.
struct Step {
    /// r, z and n, `[H]` each.
    gates: [Vec<f64>; 3],
    /// The new state `[H]`.
    state: Vec<f64>,
}

/// One step of one row, from `x [I]` and `prev [H]`.
fn cell(problem: &Problem, inputs: &Inputs, x: &[f64], prev: &[f64], kinks: &mut Kinks) -> Step {
    let spec = &problem.spec;
    let h = problem.h;
    // Columns of the packed gates r|z|n.
    let p = |column| affine(x, &inputs.w_ih, inputs.b_ih.as_deref(), column, 3 * h);
    let q =
        |state: &[f64], column| affine(state, &inputs.w_hh, inputs.b_hh.as_deref(), column, 3 * h);
    let mut gate = |activation: &Activation, a: f64| {
        let a = match spec.clip_gates {
            Some(c) => kinks.clip(a, c),
            None => a,
        };
        kinks.visit(a, self::kinks(activation));
        activate(activation, a)
    };
    let gates = &spec.activations;
    let r: Vec<f64> = (0..h)
        .map(|j| gate(&gates.reset, p(j) + q(prev, j)))
        .collect();
    let reset_state: Vec<f64> = r.iter().zip(prev).map(|(r, prev)| r * prev).collect();
    let z: Vec<f64> = (0..h)
        .map(|j| gate(&gates.update, p(h + j) + q(prev, h + j)))
        .collect();
    let n: Vec<f64> = (2 * h..3 * h)
        .zip(&r)
        .map(|(column, r)| {
            let recurrent = match spec.reset {
                Reset::AfterMatmul => r * q(prev, column),
                Reset::BeforeMatmul => q(&reset_state, column),
            };
            gate(&gates.candidate, p(column) + recurrent)
        })
        .collect();
    let state = (0..h)
        .map(|j| {
            let blended = match spec.update {
                Update::Keeps => z[j] * prev[j] + (1.0 - z[j]) * n[j],
                Update::Takes => (1.0 - z[j]) * prev[j] + z[j] * n[j],
            };
            match spec.clip_state {
                Some(c) => kinks.clip(blended, c),
                None => blended,
            }
        })
        .collect();
    Step {
        gates: [r, z, n],
        state,
    }
}

/// `bias[column] + Σ_k input[k] · weight[k, column]`, for a weight with `columns` columns.
fn affine(
    input: &[f64],
    weight: &[f64],
    bias: Option<&[f64]>,
    column: usize,
    columns: usize,
) -> f64 {
    let mut sum = bias.map_or(0.0, |bias| bias[column]);
    for k in 0..input.len() {
        sum += input[k] * weight[k * columns + column];
    }
    sum
}

fn activate(activation: &Activation, a: f64) -> f64 {
    match *activation {
        Activation::Sigmoid => 1.0 / (1.0 + (-a).exp()),
        Activation::Tanh => a.tanh(),
        Activation::Relu => a.max(0.0),
        Activation::HardSigmoid { alpha, beta } => (alpha * a + beta).clamp(0.0, 1.0),
        Activation::Identity => a,
        Activation::Affine { alpha, beta } => alpha * a + beta,
        Activation::LeakyRelu { alpha } => {
            if a > 0.0 {
                a
            } else {
                alpha * a
            }
        }
        Activation::ThresholdedRelu { alpha } => {
            if a > alpha {
                a
            } else {
                0.0
            }
        }
        Activation::ScaledTanh { alpha, beta } => alpha * (beta * a).tanh(),
        Activation::Elu { alpha } => {
            if a > 0.0 {
                a
            } else {
                alpha * (a.exp() - 1.0)
            }
        }
        Activation::Softsign => a / (1.0 + a.abs()),
        Activation::Softplus => (1.0 + a.exp()).ln(),
        other => unimplemented!("{other:?}"),
    }
}

/// Where an activation is not smooth; infinite where there is nothing to name.
///
/// Softsign and ELU have a first derivative everywhere, but not the five that the differences
/// ask for.
fn kinks(activation: &Activation) -> [f64; 2] {
    const NONE: f64 = f64::INFINITY;
    match *activation {
        Activation::Relu
        | Activation::LeakyRelu { .. }
        | Activation::Elu { .. }
        | Activation::Softsign => [0.0, NONE],
        Activation::ThresholdedRelu { alpha } => [alpha, NONE],
        Activation::HardSigmoid { alpha, beta } => [-beta / alpha, (1.0 - beta) / alpha],
        Activation::Sigmoid
        | Activation::Tanh
        | Activation::Identity
        | Activation::Affine { .. }
        | Activation::ScaledTanh { .. }
        | Activation::Softplus => [NONE, NONE],
        other => unimplemented!("{other:?}"),
    }
}

/// Watches on which side of every kink the values lie, and how far from it.
struct Kinks {
    distance: f64,
    pieces: u64,
}

impl Kinks {
    fn new() -> Self {
        Self {
            distance: f64::INFINITY,
            pieces: 0,
        }
    }

    fn visit(&mut self, value: f64, kinks: [f64; 2]) {
        for kink in kinks {
            self.distance = self.distance.min((value - kink).abs());
            // FNV-1a over the sides: the order of the values counts too.
            self.pieces =
                (self.pieces ^ (2 + u64::from(value > kink))).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn clip(&mut self, value: f64, bound: f64) -> f64 {
        self.visit(value, [-bound, bound]);
        value.clamp(-bound, bound)
    }
}

/// `Σ y ⊙ d_y + Σ h_t ⊙ d_h_t`: outputs and final state each carry a gradient of their own.
fn loss(forward: &Forward, inputs: &Inputs) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(&forward.y, &inputs.d_y) + dot(&forward.h_t, &inputs.d_h_t)
}

/// Outputs `y` and `h_t`, and the gradient of the loss by every input, under their names.
pub fn outcome(problem: &Problem, inputs: &Inputs) -> Outcome {
    let Forward { y, h_t, .. } = forward(problem, inputs);
    Outcome {
        outputs: Tensors::from([("y".into(), y), ("h_t".into(), h_t)]),
        gradients: gradients(problem, inputs),
    }
}

/// The gradient of the loss by every input, by 4th-order central differences.
///
/// # Panics
/// If a difference crosses a kink, where it would mean nothing.
pub fn gradients(problem: &Problem, inputs: &Inputs) -> Tensors {
    let pieces = forward(problem, inputs).pieces;
    let mut inputs = inputs.clone();
    let sizes: Vec<(&str, usize)> = inputs
        .differentiable_mut()
        .iter()
        .map(|(name, values)| (*name, values.len()))
        .collect();
    let mut gradients = Tensors::new();
    for (tensor, (name, len)) in sizes.into_iter().enumerate() {
        let mut gradient = Vec::with_capacity(len);
        for index in 0..len {
            let start = inputs.differentiable_mut()[tensor].1[index];
            let mut at = |steps: f64| {
                inputs.differentiable_mut()[tensor].1[index] = start + steps * STEP;
                let moved = forward(problem, &inputs);
                assert_eq!(
                    moved.pieces,
                    pieces,
                    "{}: the difference by {name}[{index}] crosses a kink",
                    problem.id()
                );
                loss(&moved, &inputs)
            };
            let (near, far) = (at(1.0) - at(-1.0), at(2.0) - at(-2.0));
            gradient.push((8.0 * near - far) / (12.0 * STEP));
            inputs.differentiable_mut()[tensor].1[index] = start;
        }
        gradients.insert(name.into(), gradient);
    }
    gradients
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem;

    /// A clip that no value reaches would test nothing.
    #[test]
    fn every_clip_of_the_catalogue_shows() {
        for problem in problem::catalogue() {
            let inputs = Inputs::random(&problem);
            let clipped = forward(&problem, &inputs).y;
            let spec = problem.spec;
            for without in [spec.with_clip_gates(None), spec.with_clip_state(None)] {
                let free = forward(&problem.with_spec(without), &inputs).y;
                let differs = clipped.iter().zip(&free).any(|(a, b)| (a - b).abs() > 1e-2);
                assert_eq!(differs, without != spec, "{}", problem.id());
            }
        }
    }
}
