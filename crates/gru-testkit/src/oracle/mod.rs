//! The float64 oracle: the equations, recorded on a tape that differentiates them exactly.
//!
//! It is written from the equations. It shares no code with a kernel, and uses only the enums and
//! the list of inputs of the spec. The recurrence is written once, and no derivative of it is written by hand.

mod activation;
mod call;
mod tape;

use gru_spec::{Activation, Reset, Sizes, Update};

use self::{
    activation::{Kinks, inexact_gate},
    tape::{Tape, Vector},
};
use crate::close::Tensors;

pub use self::{
    activation::gate,
    call::{Call, Skipped},
    tape::Round,
};

/// The results of a forward pass, and the tape that recorded it.
#[derive(Debug)]
pub struct Forward {
    /// The state after every step, `[N, T, H]` or `[T, N, H]`.
    pub y: Vec<f64>,
    /// The state after the last step in the order of iteration, `[N, H]`.
    pub h_t: Vec<f64>,
    /// The reset gate, the update gate and the candidate, each with the shape of `y`. NaN at skipped
    /// steps, which have no gates.
    pub gates: [Vec<f64>; 3],
    /// `h·w_hn + b_hn`, which the reset gate multiplies, with the shape of `y`. If the reset gate acts
    /// before the product, the product of the reset state.
    pub q_n: Vec<f64>,
    /// The sides of all kinks on which the values are.
    kinks: Kinks,
    tape: Tape,
    leaves: Vec<(&'static str, Vector)>,
    /// Each row of `y`, and the final state of each batch row.
    states: Vec<Vector>,
    last: Vec<Vector>,
}

impl Forward {
    /// The smallest distance of a value from a kink of its function.
    pub fn kink_distance(&self) -> f64 {
        self.kinks.distance
    }

    /// The gates as the kernels save them for each step: r, z, n, and `q_n` if the reset gate acts after the product.
    /// NaN at skipped steps.
    pub fn saved(&self, call: &Call) -> Vec<f64> {
        let h = call.sizes.h;
        let kept = self.gates.iter().chain([&self.q_n]);
        let kept: Vec<_> = kept.take(call.spec.saved_per_unit()).collect();
        let rows = (0..self.y.len()).step_by(h.max(1));
        rows.flat_map(|at| kept.iter().flat_map(move |gate| &gate[at..][..h]))
            .copied()
            .collect()
    }

    /// The gradient of `Σ y ⊙ d_y + Σ h_t ⊙ d_h_t` by every input, by name. An empty `d_h_t` means none.
    pub fn gradients(&self, d_y: &[f64], d_h_t: &[f64]) -> Tensors {
        assert_eq!(d_y.len(), self.y.len(), "gradient of y");
        assert!(d_h_t.is_empty() || d_h_t.len() == self.h_t.len());
        let seeds = seeds(&self.states, d_y).chain(seeds(&self.last, d_h_t));
        let d = self.tape.sweep(seeds);
        let leaves = self.leaves.iter();
        leaves
            .map(|(name, leaf)| (String::from(*name), d.of(*leaf).to_vec()))
            .collect()
    }
}

/// The upstream gradient of each of several states.
fn seeds<'a>(states: &'a [Vector], d: &'a [f64]) -> impl Iterator<Item = (Vector, &'a [f64])> {
    let rows = d.chunks((d.len() / states.len().max(1)).max(1));
    states.iter().copied().zip(rows)
}

/// The recurrence during recording.
struct Recorder<'a> {
    call: &'a Call,
    tape: Tape,
    kinks: Kinks,
    leaves: Vec<(&'static str, Vector)>,
}

/// The places of the values of one step.
struct Step {
    r: Vector,
    z: Vector,
    n: Vector,
    q_n: Vector,
    state: Vector,
}

impl<'a> Recorder<'a> {
    fn new(call: &'a Call) -> Self {
        let mut tape = Tape::new(call.round);
        let leaves = call.differentiable().into_iter();
        let leaves = leaves.map(|(name, values)| (name, tape.leaf(values.iter().copied())));
        Self {
            call,
            leaves: leaves.collect(),
            tape,
            kinks: Kinks::new(),
        }
    }

    fn leaf(&self, name: &str) -> Option<Vector> {
        let leaf = self.leaves.iter().find(|(leaf, _)| *leaf == name);
        leaf.map(|(_, vector)| *vector)
    }

    fn run(mut self) -> Forward {
        let Sizes { n, t, h, .. } = self.call.sizes;
        let sequence = &self.call.inputs.sequence;
        let len = n * t * h;
        let mut y = vec![0.0; len];
        let [mut r, mut z, mut candidate, mut q_n] = [(); 4].map(|()| vec![f64::NAN; len]);
        let zeros = self.tape.leaf(vec![0.0; h]);
        let mut states = vec![zeros; n * t];
        let [h0, start] = ["h0", "start_state"].map(|name| self.leaf(name));
        let mut last: Vec<Vector> = (0..n)
            .map(|row| h0.map_or(zeros, |h0| h0.slice(row * h, h)))
            .collect();
        for (row, state) in last.iter_mut().enumerate() {
            let mask = sequence.recurrent_mask.as_ref();
            let mask = mask.map(|mask| self.tape.leaf(mask[row * h..][..h].iter().copied()));
            let mut output = zeros;
            for step in 0..t {
                if self.call.starts(row, step) {
                    *state = start.map_or(zeros, |start| start.slice(row * h, h));
                    output = zeros;
                }
                let at = self.call.row(row, step);
                let step_mask = sequence.step_mask.as_ref();
                if step_mask.is_none_or(|valid| valid[at] != 0.0) {
                    let next = self.step(at, *state, mask);
                    let kept = [
                        (&mut r, next.r),
                        (&mut z, next.z),
                        (&mut candidate, next.n),
                        (&mut q_n, next.q_n),
                    ];
                    for (all, vector) in kept {
                        all[at * h..][..h].copy_from_slice(self.tape.get(vector));
                    }
                    *state = next.state;
                    states[at] = *state;
                    output = *state;
                } else {
                    states[at] = match self.call.skipped {
                        Skipped::State => *state,
                        Skipped::Zero => zeros,
                        Skipped::Repeats => output,
                    };
                }
                y[at * h..][..h].copy_from_slice(self.tape.get(states[at]));
            }
        }
        let h_t = last.iter().flat_map(|state| self.tape.get(*state)).copied();
        Forward {
            y,
            h_t: h_t.collect(),
            gates: [r, z, candidate],
            q_n,
            kinks: self.kinks,
            tape: self.tape,
            leaves: self.leaves,
            states,
            last,
        }
    }

    /// One step of one row. `at` is its index among all rows of the sequence.
    fn step(&mut self, at: usize, state: Vector, mask: Option<Vector>) -> Step {
        let h = self.call.sizes.h;
        let spec = self.call.spec;
        let p = self.projected(at);
        let g = mask.map_or(state, |mask| self.tape.mul(mask, state));
        let gates = spec.activations;
        let reset = self.pre_activation(p, g, 0);
        let r = self.activate(&gates.reset, reset);
        let update = self.pre_activation(p, g, 1);
        let z = self.activate(&gates.update, update);
        let (q_n, recurrent) = match spec.reset {
            Reset::AfterMatmul => {
                let q_n = self.recurrent(g, 2);
                (q_n, self.tape.mul(r, q_n))
            }
            Reset::BeforeMatmul => {
                let reset_state = self.tape.mul(r, g);
                let q_n = self.recurrent(reset_state, 2);
                (q_n, q_n)
            }
        };
        let candidate = self.tape.add(p.slice(2 * h, h), recurrent);
        let n = self.activate(&gates.candidate, candidate);
        let mut next = match spec.update {
            Update::Keeps => self.tape.mix(z, state, n),
            Update::Takes => self.tape.mix(z, n, state),
        };
        if let Some(bound) = spec.clip_state {
            for value in self.tape.get(next) {
                self.kinks.visit_clip(bound, *value);
            }
            next = self.tape.clip(next, bound);
        }
        if let Some(zoneout) = &self.call.inputs.sequence.zoneout {
            let kept = match zoneout.len() {
                per_step if per_step == self.call.sizes.places() => vec![zoneout[at]; h],
                _ => zoneout[at * h..][..h].to_vec(),
            };
            let kept = self.tape.leaf(kept);
            next = self.tape.mix(kept, state, next);
        }
        Step {
            r,
            z,
            n,
            q_n,
            state: next,
        }
    }

    /// `x·w_ih + b_ih` for a row of the sequence, or the row itself if it is already projected.
    fn projected(&mut self, at: usize) -> Vector {
        let h = self.call.sizes.h;
        let x = self.leaf("x").expect("every call has a sequence");
        let p = match self.leaf("w_ih") {
            Some(w_ih) => {
                let features = self.tape.get(w_ih).len() / (3 * h).max(1);
                let x = x.slice(at * features, features);
                self.tape.product(x, w_ih, 3 * h, 3 * h)
            }
            None => x.slice(at * 3 * h, 3 * h),
        };
        match self.leaf("b_ih") {
            Some(b_ih) => self.tape.add(p, b_ih),
            None => p,
        }
    }

    /// `state·w_hh + b_hh` for one gate: r, z, n are 0, 1, 2.
    fn recurrent(&mut self, state: Vector, gate: usize) -> Vector {
        let h = self.call.sizes.h;
        let w_hh = self
            .leaf("w_hh")
            .expect("every call has a recurrent weight");
        let from = w_hh.slice(gate * h, self.tape.get(w_hh).len() - gate * h);
        let q = self.tape.product(state, from, h, 3 * h);
        match self.leaf("b_hh") {
            Some(b_hh) => self.tape.add(q, b_hh.slice(gate * h, h)),
            None => q,
        }
    }

    /// The input of the activation of the reset or update gate.
    fn pre_activation(&mut self, p: Vector, g: Vector, gate: usize) -> Vector {
        let h = self.call.sizes.h;
        let q = self.recurrent(g, gate);
        self.tape.add(p.slice(gate * h, h), q)
    }

    fn activate(&mut self, activation: &Activation, a: Vector) -> Vector {
        let bound = self.call.spec.clip_gates;
        let error = self.call.gate_error.unwrap_or(|y| y);
        let kinks = &mut self.kinks;
        self.tape.map(a, |a| {
            kinks.visit_gate(activation, bound, a);
            inexact_gate(activation, bound, a, error)
        })
    }
}

#[cfg(test)]
mod tests;
