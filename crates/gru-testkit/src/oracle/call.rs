//! The inputs of the oracle.

use gru_spec::{Direction, GruSpec, Layout, Order};

use super::{Forward, Recorder, Round};
use crate::{
    close::{Outcome, Tensors},
    inputs::Inputs,
    problem::Problem,
};

/// The value of `y` at a skipped step. The state is kept in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Skipped {
    /// The state, as in `gru_cpu`'s calls.
    #[default]
    State,
    /// Zero, as for PyTorch's and ONNX' lengths.
    Zero,
    /// The previous output, and zero before the first valid step of a sequence, as for Keras' masks.
    Repeats,
}

/// One call with all possible inputs, flat and row-major.
#[derive(Debug, Clone)]
pub struct Call {
    /// What a step computes.
    pub spec: GruSpec,
    /// Memory layout and time direction.
    pub order: Order,
    /// The batch size.
    pub n: usize,
    /// Time steps.
    pub t: usize,
    /// Hidden units.
    pub h: usize,
    /// `[N, T, I]` or `[T, N, I]`. Without `w_ih` it is already projected, with `3H` features.
    pub x: Vec<f64>,
    /// Initial state `[N, H]`, zeros if absent.
    pub h0: Option<Vec<f64>>,
    /// `[I, 3H]`, columns r|z|n.
    pub w_ih: Option<Vec<f64>>,
    /// `[H, 3H]`, columns r|z|n.
    pub w_hh: Vec<f64>,
    /// `[3H]`.
    pub b_ih: Option<Vec<f64>>,
    /// `[3H]`.
    pub b_hh: Option<Vec<f64>>,
    /// Recurrent mask `[N, H]`: multiplies the state as input of the gates.
    pub recurrent_mask: Option<Vec<f64>>,
    /// `[N, T]` or `[T, N]`: 0 if the step is skipped.
    pub step_mask: Option<Vec<f64>>,
    /// The value of `y` at a skipped step.
    pub skipped: Skipped,
    /// The share of the previous state that is kept, `[N, T, H]` or `[N, T, 1]` (`[T, N, ·]`).
    pub zoneout: Option<Vec<f64>>,
    /// `[N, T]` or `[T, N]`: nonzero if the row starts a new sequence before this time.
    pub starts: Option<Vec<f64>>,
    /// The state with which a row starts, `[N, H]`, zeros if absent.
    pub start_state: Option<Vec<f64>>,
    /// Rounds the result of every operation. Shows the error of a run in another type.
    pub round: Option<Round>,
    /// Changes the value of each gate. Shows the effect of inexact activations.
    pub gate_error: Option<Round>,
}

impl Call {
    /// An already projected sequence and a recurrent weight, nothing else.
    pub fn new(spec: GruSpec, [n, t, h]: [usize; 3], x: Vec<f64>, w_hh: Vec<f64>) -> Self {
        Self {
            spec,
            order: Order::default(),
            n,
            t,
            h,
            x,
            h0: None,
            w_ih: None,
            w_hh,
            b_ih: None,
            b_hh: None,
            recurrent_mask: None,
            step_mask: None,
            skipped: Skipped::State,
            zoneout: None,
            starts: None,
            start_state: None,
            round: None,
            gate_error: None,
        }
    }

    /// The call of a problem and its inputs.
    pub fn of(problem: &Problem, inputs: &Inputs) -> Self {
        let &Problem {
            n,
            t,
            h,
            spec,
            order,
            ..
        } = problem;
        let (x, w_hh) = (inputs.x.clone(), inputs.w_hh.clone());
        Self {
            order,
            h0: inputs.h0.clone(),
            w_ih: Some(inputs.w_ih.clone()),
            b_ih: inputs.b_ih.clone(),
            b_hh: inputs.b_hh.clone(),
            ..Self::new(spec, [n, t, h], x, w_hh)
        }
    }

    /// The differentiable tensors and their names, without absent ones.
    pub fn differentiable(&self) -> Vec<(&'static str, &Vec<f64>)> {
        let all = [
            ("x", Some(&self.x)),
            ("h0", self.h0.as_ref()),
            ("w_ih", self.w_ih.as_ref()),
            ("w_hh", Some(&self.w_hh)),
            ("b_ih", self.b_ih.as_ref()),
            ("b_hh", self.b_hh.as_ref()),
            ("start_state", self.start_state.as_ref()),
        ];
        let given = |(name, tensor)| Some((name, tensor?));
        all.into_iter().filter_map(given).collect()
    }

    /// Runs the sequence.
    pub fn forward(&self) -> Forward {
        Recorder::new(self).run()
    }

    /// Outputs `y` and `h_t`, and the gradient of `Σ y ⊙ d_y + Σ h_t ⊙ d_h_t` by every input, by name.
    pub fn outcome(&self, d_y: &[f64], d_h_t: &[f64]) -> Outcome {
        let forward = self.forward();
        let gradients = forward.gradients(d_y, d_h_t);
        let Forward { y, h_t, .. } = forward;
        Outcome {
            outputs: Tensors::from([("y".into(), y), ("h_t".into(), h_t)]),
            gradients,
        }
    }

    /// Whether a batch row starts a new sequence before step `step` in the order of iteration: between the times
    /// of that step and of the step before it.
    pub(super) fn starts(&self, row: usize, step: usize) -> bool {
        let time = self.order.direction.time(step, self.t);
        let boundary = match self.order.direction {
            Direction::Forward => time,
            Direction::Reverse => time + 1,
        };
        let starts = self.starts.as_ref().filter(|_| boundary < self.t);
        starts.is_some_and(|starts| starts[self.at(row, boundary)] != 0.0)
    }

    /// Index of a batch row among all rows of a sequence, at step `step` in the order of iteration.
    pub(super) fn row(&self, row: usize, step: usize) -> usize {
        self.at(row, self.order.direction.time(step, self.t))
    }

    fn at(&self, row: usize, time: usize) -> usize {
        match self.order.layout {
            Layout::BatchMajor => row * self.t + time,
            Layout::TimeMajor => time * self.n + row,
        }
    }
}
