//! The inputs of the oracle.

use gru_spec::{Direction, GruSpec, Inputs, Layout, NAMES, Order, Sizes};

use super::{Forward, Recorder, Round};
use crate::close::{Outcome, Tensors};

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

/// One call, with flat row-major inputs.
#[derive(Debug, Clone)]
pub struct Call {
    /// Batch size, steps, features and units.
    pub sizes: Sizes,
    /// What a step computes.
    pub spec: GruSpec,
    /// Memory layout and time direction.
    pub order: Order,
    /// All inputs.
    pub inputs: Inputs<Vec<f64>>,
    /// The value of `y` at a skipped step.
    pub skipped: Skipped,
    /// Rounds the result of every operation. Shows the error of a run in another type.
    pub round: Option<Round>,
    /// Changes the value of each gate. Shows the effect of inexact activations.
    pub gate_error: Option<Round>,
}

impl Call {
    /// A call in float64, batch-major and forward in time.
    pub fn new(sizes: Sizes, spec: GruSpec, inputs: Inputs<Vec<f64>>) -> Self {
        Self {
            sizes,
            spec,
            order: Order::default(),
            inputs,
            skipped: Skipped::State,
            round: None,
            gate_error: None,
        }
    }

    /// Changes every input that is present, by its name.
    pub fn each_input(&mut self, mut change: impl FnMut(&'static str, &mut Vec<f64>)) {
        let mut slots = self.inputs.clone().into_slots();
        for (name, slot) in NAMES.into_iter().zip(&mut slots) {
            if let Some(values) = slot {
                change(name, values);
            }
        }
        self.inputs = Inputs::from_slots(slots).expect("no input was removed");
    }

    /// The differentiable tensors and their names, without absent ones.
    pub fn differentiable(&self) -> Vec<(&'static str, &Vec<f64>)> {
        let inputs = self.inputs.differentiable().named();
        inputs
            .filter_map(|(name, values)| Some((name, values?)))
            .collect()
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
        let t = self.sizes.t;
        let time = self.order.direction.time(step, t);
        let boundary = match self.order.direction {
            Direction::Forward => time,
            Direction::Reverse => time + 1,
        };
        let starts = self.inputs.sequence.starts.as_ref();
        let starts = starts.filter(|_| boundary < t);
        starts.is_some_and(|starts| starts[self.at(row, boundary)] != 0.0)
    }

    /// Index of a batch row among all rows of a sequence, at step `step` in the order of iteration.
    pub(super) fn row(&self, row: usize, step: usize) -> usize {
        self.at(row, self.order.direction.time(step, self.sizes.t))
    }

    fn at(&self, row: usize, time: usize) -> usize {
        match self.order.layout {
            Layout::BatchMajor => row * self.sizes.t + time,
            Layout::TimeMajor => time * self.sizes.n + row,
        }
    }
}
