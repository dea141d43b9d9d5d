//! The check: settings, the passes, the comparison.

use crate::{
    difference::{self, Slopes, slopes},
    point::{Gradient, Input, Point},
    report::{Element, Finding, InputReport, Report},
};
use burn::tensor::{DType, Tensor, TensorData};

/// How often the step is divided by 4 before a gradient fails.
const REFINEMENTS: usize = 3;

/// The inputs of a check, and its step and tolerance.
#[derive(Debug, Clone)]
#[must_use = "a check compares nothing before `check`"]
pub struct GradCheck {
    inputs: Vec<Input>,
    step: f64,
    tolerance: f64,
}

impl Default for GradCheck {
    fn default() -> Self {
        Self::new()
    }
}

impl GradCheck {
    /// A check without inputs, with a step of 2⁻¹⁰ and a tolerance of 1e-8.
    pub fn new() -> Self {
        Self {
            inputs: Vec::new(),
            step: 1.0 / 1024.0,
            tolerance: 1e-8,
        }
    }

    /// Adds an input whose gradient is checked.
    ///
    /// Its values are converted to float64, on the same device with autodiff. If that device has gradient
    /// checkpointing, the function runs with it.
    ///
    /// # Panics
    /// If there is an input of this name, or the device does not have float64.
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

    /// The distance by which inputs are changed. A power of two changes most values without rounding.
    ///
    /// # Panics
    /// If it is not a positive number.
    pub fn step(self, step: f64) -> Self {
        positive("step", step);
        Self { step, ..self }
    }

    /// The allowed error of a gradient: this number times the largest slope of its input by finite differences, or times
    /// 1 if that is larger.
    ///
    /// # Panics
    /// If it is not a positive number.
    pub fn tolerance(self, tolerance: f64) -> Self {
        positive("tolerance", tolerance);
        Self { tolerance, ..self }
    }

    /// Compares the gradients of `f`.
    ///
    /// `f` must depend only on its inputs. If it draws random numbers, a second call returns another value and
    /// the check fails. Float tensors that `f` captures must be float64, and their gradients are not checked.
    /// To check a parameter of a module, replace it in `f`: `layer.weight = Param::initialized(ParamId::new(), at.get("w"))`.
    ///
    /// # Panics
    /// If there are neither inputs nor constants, `f` does not return float64, or `f` reads an input that does not exist or
    /// has another rank.
    pub fn check<const D: usize>(&self, f: impl Fn(&Point) -> Tensor<D>) -> Report {
        assert!(
            !self.inputs.is_empty(),
            "GradCheck: expected at least one input, got none"
        );
        let tracked = Point::new(&self.inputs, true);
        let output = f(&tracked);
        assert!(
            output.dtype() == DType::F64,
            "GradCheck: result of the function: expected float64, got {:?}",
            output.dtype()
        );
        let weights = weights_like(&output);
        let weighted = |output: Tensor<D>| (output * weights.clone()).sum();
        let loss = weighted(output);
        let gradients = loss.is_tracked().then(|| loss.backward());

        let base = Point::new(&self.inputs, false);
        let value = |at: &Point| number(weighted(f(at)));
        let here = value(&base);
        let again = value(&base);
        let inputs = self.inputs.iter().enumerate().map(|(k, input)| {
            let gradient = tracked.gradient(k, gradients.as_ref());
            let moved = |at: usize, by: f64| {
                let mut values = input.values.clone();
                values[at] += by;
                value(&base.with(k, input.leaf(values, false)))
            };
            self.judge(input, gradient, here, moved)
        });
        Report {
            inputs: inputs.collect(),
            value: here,
            repeats: here == again,
        }
    }

    /// Checks one input. `moved` is the function with one value of the input changed.
    fn judge(
        &self,
        input: &Input,
        gradient: Option<Gradient>,
        here: f64,
        moved: impl Fn(usize, f64) -> f64,
    ) -> InputReport {
        let (finding, gradient) = match gradient {
            None if input.tracked => (Finding::Absent, Some(vec![0.0; input.values.len()])),
            None => (Finding::Constant, None),
            Some(_) if !input.tracked => (Finding::Unexpected, None),
            Some((actual, _)) if actual != input.shape => {
                let expected = input.shape.clone();
                (Finding::Shape { expected, actual }, None)
            }
            Some((_, gradient)) => (Finding::Compared, Some(gradient)),
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
        moved: impl Fn(usize, f64) -> f64,
        report: &mut InputReport,
    ) {
        let slopes = |at: usize, step: f64| slopes(|by| moved(at, by), here, step);
        let count = input.values.len();
        let first: Vec<Slopes> = (0..count).map(|at| slopes(at, self.step)).collect();
        let sizes = first.iter().map(|slopes| slopes.central.abs());
        let largest = sizes.filter(|size| size.is_finite()).fold(1.0, f64::max);
        report.compared = count;
        report.allowed = self.tolerance * largest;

        for (at, (mut found, &gradient)) in first.into_iter().zip(gradient).enumerate() {
            let mut step = self.step;
            for _ in 0..REFINEMENTS {
                if found.agree_with(gradient, report.allowed) {
                    break;
                }
                step /= 4.0;
                found = slopes(at, step);
            }
            let element = Element {
                index: input.index(at),
                gradient,
                difference: found.central,
                left: found.left,
                right: found.right,
            };
            if found.agree_with(gradient, report.allowed) {
                report.worst = Element::worse(report.worst.take(), &element);
            } else if found.enclose(gradient, report.allowed) {
                report.kinks.push(element);
            } else {
                report.failed.push(element);
            }
        }
        if !report.failed.is_empty() {
            report.worst = report.failed.iter().fold(None, Element::worse);
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

/// Weights of both signs, none close to zero. A single output gets the weight 1.
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
    values.expect("the data was just converted")[0]
}

fn positive(name: &str, value: f64) {
    assert!(
        value > 0.0 && value.is_finite(),
        "GradCheck: {name}: expected a number > 0, got {value}"
    );
}
