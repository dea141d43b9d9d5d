//! Gradients against central differences, for any function over Burn's tensors.
//!
//! A hand-written backward is right when it agrees with the slope of the forward pass.
//! [`GradCheck`] measures that slope in float64 and compares every number of every gradient that
//! Burn's autodiff returns. It knows nothing of GRUs: check your own operators with it.
//!
//! In the tests of another crate `gru-op = { version = "0.1", default-features = false, features =
//! ["autodiff"] }` is enough, and does not turn Burn's fusion on.
//!
//! ```
//! use burn::tensor::{Device, Distribution, Tensor};
//! use gru_op::gradcheck::GradCheck;
//!
//! let device = Device::flex();
//! let random = |shape| Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), &device);
//! let report = GradCheck::new()
//!     .input("a", random([3, 4]))
//!     .input("b", random([4, 2]))
//!     .check(|at| at.get::<2>("a").matmul(at.get("b")).tanh());
//! report.assert();
//! println!("{report}"); // one line for each input, with its worst number
//! ```
//!
//! # How a number is judged
//!
//! The output, of any shape, is summed under fixed random weights of either sign, so that one
//! backward stands for all outputs and none can hide behind another. Call that sum `f`, and `h`
//! the [step](GradCheck::step). The difference is that of fourth order,
//!
//! ```text
//! (8 (f(x + h) − f(x − h)) − (f(x + 2h) − f(x − 2h))) / 12h
//! ```
//!
//! wrong by `h⁴/30` times the fifth derivative, and by the rounding of `f` over `h`. A gradient
//! passes if it is within `tolerance · max(1, largest difference of this input)`: a number is a
//! sum of terms as large as the largest, and may cancel. Where it does not, the step is quartered
//! up to three times; whatever bends within reach of the long step may be out of reach of a short
//! one.
//!
//! # Kinks
//!
//! Where a function has a corner, there is no gradient to compare with. With the shortest step the
//! slopes to the left and to the right are taken apart,
//!
//! ```text
//! (3 f(x) − 4 f(x − h) + f(x − 2h)) / 2h        (−3 f(x) + 4 f(x + h) − f(x + 2h)) / 2h
//! ```
//!
//! and a gradient that failed but lies between the two is reported as one at a kink, not as a
//! failure. Where a function is smooth the two agree to `h³`, so a wrong gradient does not lie
//! between them.
//!
//! Source: Fornberg, Generation of finite difference formulas on arbitrarily spaced grids,
//! Mathematics of Computation 51 (1988), <https://doi.org/10.1090/S0025-5718-1988-0935077-0>.

mod difference;
mod inputs;
mod report;

pub use self::{
    inputs::Inputs,
    report::{Element, Finding, InputReport, Place, Report},
};

use self::{
    difference::{Slopes, slopes},
    inputs::Input,
};
use burn::tensor::{DType, Tensor, TensorData};

/// Quarterings of the step before a number is given up.
const QUARTERINGS: usize = 3;

/// What is to be checked, and how closely.
#[derive(Debug, Clone)]
pub struct GradCheck {
    inputs: Vec<Input>,
    step: f64,
    tolerance: f64,
    directions: Option<Directions>,
}

#[derive(Debug, Clone, Copy)]
struct Directions {
    count: usize,
    seed: u64,
}

impl Default for GradCheck {
    fn default() -> Self {
        Self::new()
    }
}

impl GradCheck {
    /// A check with no inputs yet, a step of 2⁻¹⁰ and a tolerance of 1e-8.
    pub fn new() -> Self {
        Self {
            inputs: Vec::new(),
            step: 1.0 / 1024.0,
            tolerance: 1e-8,
            directions: None,
        }
    }

    /// Adds an input whose gradient is checked.
    ///
    /// Its numbers are taken over in float64, on its own device with autodiff; where that has
    /// gradient checkpointing, the function runs with it.
    ///
    /// # Panics
    /// If there is an input of this name, or its device has no float64.
    pub fn input<const D: usize>(self, name: &str, values: Tensor<D>) -> Self {
        self.with(Input::new(name, values, true))
    }

    /// Adds an input that the function reads, but that must get no gradient.
    ///
    /// # Panics
    /// As [`input`](Self::input).
    pub fn constant<const D: usize>(self, name: &str, values: Tensor<D>) -> Self {
        self.with(Input::new(name, values, false))
    }

    /// How far an input is moved. A power of two moves most numbers without rounding.
    ///
    /// # Panics
    /// If it is not a positive number.
    pub fn step(self, step: f64) -> Self {
        positive("step", step);
        Self { step, ..self }
    }

    /// How far a gradient may be off, as a share of the largest difference of its input or of 1,
    /// whichever is more.
    ///
    /// # Panics
    /// If it is not a positive number.
    pub fn tolerance(self, tolerance: f64) -> Self {
        positive("tolerance", tolerance);
        Self { tolerance, ..self }
    }

    /// Moves every input along `count` random directions of length 1 instead of number by number:
    /// four calls of the function for each direction, however large the input.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn directions(self, count: usize, seed: u64) -> Self {
        assert!(
            count > 0,
            "GradCheck: directions must be positive, expected > 0, got 0"
        );
        Self {
            directions: Some(Directions { count, seed }),
            ..self
        }
    }

    /// Compares the gradients of `f`, which must be a function of its inputs alone: anything that
    /// it draws at random differs from call to call, and fails the check.
    ///
    /// # Panics
    /// If there are no inputs, `f` returns another type than float64, or asks for an input that
    /// is not there.
    pub fn check<const D: usize>(&self, f: impl Fn(&Inputs) -> Tensor<D>) -> Report {
        assert!(
            !self.inputs.is_empty(),
            "GradCheck: expected at least one input, got none"
        );
        let asking = Inputs::new(&self.inputs, true);
        let output = f(&asking);
        assert!(
            output.dtype() == DType::F64,
            "GradCheck: the function must return float64, got {:?}",
            output.dtype()
        );
        let weights = weights_like(&output);
        let weighted = |output: Tensor<D>| (output * weights.clone()).sum();
        let loss = weighted(output);
        let gradients = loss.is_tracked().then(|| loss.backward());

        let base = Inputs::new(&self.inputs, false);
        let value = |at: &Inputs| number(weighted(f(at)));
        let here = value(&base);
        let again = value(&base);
        let inputs = self.inputs.iter().enumerate().map(|(k, input)| {
            let given = asking.gradient(k, gradients.as_ref());
            let moved = |along: &[f64], by: f64| {
                let values = input.values.iter().zip(along);
                let values = values.map(|(x, v)| x + by * v).collect();
                value(&base.with(k, input.leaf(values, false)))
            };
            self.judge(input, given, here, moved)
        });
        Report {
            inputs: inputs.collect(),
            value: here,
            repeats: here == again,
        }
    }

    /// Judges one input; `moved` is the function with the input that far along a direction.
    fn judge(
        &self,
        input: &Input,
        given: Option<(Vec<usize>, Vec<f64>)>,
        here: f64,
        moved: impl Fn(&[f64], f64) -> f64,
    ) -> InputReport {
        let (finding, gradient) = match (input.asks, given) {
            (false, None) => (Finding::Constant, None),
            (false, Some(_)) => (Finding::Unasked, None),
            (true, None) => (Finding::Absent, Some(vec![0.0; input.values.len()])),
            (true, Some((actual, _))) if actual != input.shape => {
                let expected = input.shape.clone();
                (Finding::Shape { expected, actual }, None)
            }
            (true, Some((_, gradient))) => (Finding::Compared, Some(gradient)),
        };
        let mut report = InputReport::new(&input.name, finding);
        if let Some(gradient) = gradient {
            self.compare(input, &gradient, here, moved, &mut report);
        }
        report
    }

    fn compare(
        &self,
        input: &Input,
        gradient: &[f64],
        here: f64,
        moved: impl Fn(&[f64], f64) -> f64,
        report: &mut InputReport,
    ) {
        let line = |place: &Place| match place {
            Place::Index(index) => input.unit(index),
            Place::Direction { seed } => difference::direction(input.values.len(), *seed),
        };
        let slopes = |line: &[f64], step: f64| slopes(|by| moved(line, by), here, step);
        let places = self.places(input);
        let first: Vec<Slopes> = places
            .iter()
            .map(|at| slopes(&line(at), self.step))
            .collect();
        let sizes = first.iter().map(|slopes| slopes.central.abs());
        let largest = sizes.filter(|size| size.is_finite()).fold(1.0, f64::max);
        report.compared = places.len();
        report.allowed = self.tolerance * largest;

        for (place, mut found) in places.into_iter().zip(first) {
            let line = line(&place);
            // Nothing times infinity is not nothing.
            let moved = gradient.iter().zip(&line).filter(|(_, v)| **v != 0.0);
            let gradient = moved.map(|(g, v)| g * v).sum::<f64>();
            let mut step = self.step;
            for _ in 0..QUARTERINGS {
                if found.agree_with(gradient, report.allowed) {
                    break;
                }
                step /= 4.0;
                found = slopes(&line, step);
            }
            let passed = found.agree_with(gradient, report.allowed);
            let at_kink = !passed && found.embrace(gradient, report.allowed);
            let element = Element {
                place,
                gradient,
                difference: found.central,
                left: found.left,
                right: found.right,
            };
            match (passed, at_kink) {
                (true, _) => report.worst = Element::worse(report.worst.take(), &element),
                (false, true) => report.kinks.push(element),
                (false, false) => report.failed.push(element),
            }
        }
        if !report.failed.is_empty() {
            report.worst = report.failed.iter().fold(None, Element::worse);
        }
    }

    /// Where an input is compared: at each of its numbers, or along directions.
    fn places(&self, input: &Input) -> Vec<Place> {
        match self.directions {
            // Nothing can be moved in an empty input.
            _ if input.values.is_empty() => Vec::new(),
            None => input.indices().map(Place::Index).collect(),
            Some(Directions { count, seed }) => (0..count as u64)
                .map(|k| Place::Direction {
                    seed: seed.wrapping_add(k),
                })
                .collect(),
        }
    }

    fn with(mut self, input: Input) -> Self {
        assert!(
            self.inputs.iter().all(|other| other.name != input.name),
            "GradCheck: expected inputs of different names, got {} twice",
            input.name
        );
        self.inputs.push(input);
        self
    }
}

/// Weights of either sign, none close to zero; a single output is taken as it is.
fn weights_like<const D: usize>(output: &Tensor<D>) -> Tensor<D> {
    let shape = output.dims();
    let weights = match shape.iter().product() {
        1 => vec![1.0],
        len => difference::signed(len, 1),
    };
    let data = TensorData::new(weights, shape);
    Tensor::from_data(data, (&output.device(), DType::F64))
}

fn number(loss: Tensor<1>) -> f64 {
    let values = loss.into_data().convert::<f64>().try_into_vec::<f64>();
    values.expect("a loss of float64 is one number")[0]
}

fn positive(name: &str, value: f64) {
    assert!(
        value > 0.0 && value.is_finite(),
        "GradCheck: {name} must be positive, expected a number > 0, got {value}"
    );
}
