//! Results do not depend on the backend, the layout or the strides of the inputs.

use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor};
use gru_op::{Direction, GruSpec, GruWeights, Layout, Order, Reset, Update, gru_sequence_with};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    conformance::transposed,
    inputs::{self, Inputs},
    problem::{Biases, Problem},
};
use libtest_mimic::Trial;

use super::{backends::TestBackend, call, gradient::Known, runs};

/// Sizes beyond one tile, panel or cube: larger than the problems of the gradient suite.
fn problems() -> Vec<Problem> {
    let before = GruSpec::default()
        .with_reset(Reset::BeforeMatmul)
        .with_update(Update::Takes);
    let reverse = Order {
        layout: Layout::TimeMajor,
        direction: Direction::Reverse,
    };
    vec![
        Problem::new(5, 13, 9, 33),
        Problem::new(5, 13, 9, 33)
            .with_spec(before)
            .with_order(reverse),
        Problem::new(2, 40, 16, 64),
        Problem::new(2, 40, 16, 64).with_spec(before),
        Problem::new(17, 3, 5, 48)
            .with_biases(Biases::InputOnly)
            .without_h0(),
        Problem::new(1, 7, 65, 96).with_biases(Biases::None),
    ]
}

/// Compares each backend with the oracle: the operator, the composed default, the other layout, and views.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let problems = problems().into_iter();
    let problems: Vec<_> = problems.map(|p| Arc::new(Known::new(p))).collect();
    let runs: [(&str, Run); 4] = [
        ("agreement/operator", |problem, inputs, device| {
            call::of(problem, inputs, device, DType::F32, false)
        }),
        ("agreement/composed", |problem, inputs, device| {
            call::of(problem, inputs, device, DType::F32, true)
        }),
        ("layout", other_layout),
        ("views", strided),
    ];
    let mut trials = Vec::new();
    for backend in backends {
        for known in &problems {
            for (name, run) in runs {
                let id = known.problem.id();
                let id = format!("{name}/{id}/{}", backend.id(DType::F32));
                let (known, tolerance) = (known.clone(), backend.tolerance(Tolerance::F32));
                trials.push(backend.trial(id, move |device| {
                    let (inputs, truth) = known.truth();
                    run(&known.problem, inputs, device)?.compare(truth, tolerance)
                }));
            }
        }
    }
    trials
}

/// Runs a problem in float32 on a device, and returns the results in the problem's layout.
type Run = fn(&Problem, &Inputs, &Device) -> Result<Outcome, String>;

/// The problem with its sequences in the other layout.
fn swapped(problem: &Problem) -> Problem {
    let mut swapped = *problem;
    swapped.order.layout = match problem.order.layout {
        Layout::BatchMajor => Layout::TimeMajor,
        Layout::TimeMajor => Layout::BatchMajor,
    };
    swapped
}

/// Runs the operator on the same data in the other layout.
fn other_layout(problem: &Problem, inputs: &Inputs, device: &Device) -> Result<Outcome, String> {
    let other = swapped(problem);
    let inputs = Inputs {
        x: swap(&inputs.x, problem),
        d_y: swap(&inputs.d_y, problem),
        ..inputs.clone()
    };
    let mut got = call::of(&other, &inputs, device, DType::F32, false)?;
    for sequence in [got.outputs.get_mut("y"), got.gradients.get_mut("x")] {
        let sequence = sequence.expect("every outcome has y and the gradient of x");
        *sequence = swap(sequence, &other);
    }
    Ok(got)
}

/// Transposes a sequence from the layout of `problem` to the other layout.
fn swap(sequence: &[f64], problem: &Problem) -> Vec<f64> {
    let [outer, inner, _] = problem.sequence_shape(0);
    let features = sequence.len() / (outer * inner);
    (0..inner)
        .flat_map(|b| (0..outer).map(move |a| a * inner + b))
        .flat_map(|row| &sequence[row * features..][..features])
        .copied()
        .collect()
}

/// Columns to the left and right of a narrowed tensor. They contain NaN.
const MARGIN: [usize; 2] = [2, 3];

/// `rows` with NaN columns on both sides.
fn widened(rows: &[f64], columns: usize) -> Vec<f64> {
    let [left, right] = MARGIN.map(inputs::poisoned::<f64>);
    rows.chunks_exact(columns)
        .flat_map(|row| [&left, row, &right].concat())
        .collect()
}

fn narrowed(rows: &[f64], columns: usize) -> Vec<f64> {
    let [left, right] = MARGIN;
    rows.chunks_exact(left + columns + right)
        .flat_map(|row| &row[left..][..columns])
        .copied()
        .collect()
}

/// [`call::of`] on views. The sequence is stored in the other layout, the weights are stored
/// transposed, and the initial state and the biases are slices of wider tensors.
fn strided(problem: &Problem, inputs: &Inputs, device: &Device) -> Result<Outcome, String> {
    let &Problem { n, i, h, .. } = problem;
    let [left, right] = MARGIN;
    let device = device.clone().autodiff();
    let leaf = |data: &[f64], shape: [usize; 2]| {
        runs::tensor(data, shape, &device, DType::F32).require_grad()
    };
    let [outer, inner, _] = problem.sequence_shape(i);
    let x: Tensor<3> = runs::tensor(
        &swap(&inputs.x, problem),
        [inner, outer, i],
        &device,
        DType::F32,
    )
    .require_grad();
    let w_ih = leaf(&transposed(&inputs.w_ih, i, 3 * h), [3 * h, i]);
    let w_hh = leaf(&transposed(&inputs.w_hh, h, 3 * h), [3 * h, h]);
    let wide = |data: &Vec<f64>, rows: usize, columns: usize| {
        leaf(&widened(data, columns), [rows, left + columns + right])
    };
    let h0 = inputs.h0.as_ref().map(|h0| wide(h0, n, h));
    let biases = [&inputs.b_ih, &inputs.b_hh].map(|bias| bias.as_ref().map(|b| wide(b, 1, 3 * h)));
    let [b_ih, b_hh] = biases.clone().map(|bias| {
        let bias = bias?.narrow(1, left, 3 * h);
        Some(bias.reshape([3 * h]))
    });
    let weights = GruWeights::new(w_ih.clone().transpose(), w_hh.clone().transpose())
        .with_b_ih(b_ih)
        .with_b_hh(b_hh);
    let options = runs::options(problem).state(h0.clone().map(|h0| h0.narrow(1, left, h)));
    let (y, h_t) = gru_sequence_with(x.clone().swap_dims(0, 1), &weights, &problem.spec, options);
    let loss = runs::loss(&y, &inputs.d_y) + runs::loss(&h_t, &inputs.d_h_t);
    let gradients = loss.backward();

    // Converts back to the shapes of the leaves.
    let weight = |name: &str, leaf: &Tensor<2>, rows: usize| {
        let gradient = runs::gradient(name, leaf, &gradients)?;
        Ok::<_, String>((name.to_owned(), transposed(&gradient, 3 * h, rows)))
    };
    let x = swap(&runs::gradient("x", &x, &gradients)?, &swapped(problem));
    let mut named = Tensors::from([
        ("x".into(), x),
        weight("w_ih", &w_ih, i)?,
        weight("w_hh", &w_hh, h)?,
    ]);
    let [b_ih, b_hh] = &biases;
    for (name, leaf, columns) in [("h0", &h0, h), ("b_ih", b_ih, 3 * h), ("b_hh", b_hh, 3 * h)] {
        if let Some(leaf) = leaf {
            let gradient = runs::gradient(name, leaf, &gradients)?;
            named.insert(name.into(), narrowed(&gradient, columns));
        }
    }
    Ok(Outcome {
        outputs: Tensors::from([
            ("y".into(), runs::values(y)),
            ("h_t".into(), runs::values(h_t)),
        ]),
        gradients: named,
    })
}
