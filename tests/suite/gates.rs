//! `gru_gates`: the states and each gate by name, against the oracle.

use burn::tensor::{DType, Device};
use gru_op::{Direction, GruSpec, Layout, Reset, Update, gru_gates};
use gru_testkit::{
    close::{Tolerance, close},
    inputs::Inputs,
    oracle,
    problem::{Biases, Problem},
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    runs::{Leaves, expect_shape, values},
};

/// Every convention at least once.
fn problems() -> [Problem; 4] {
    let before = GruSpec::default()
        .with_reset(Reset::BeforeMatmul)
        .with_layout(Layout::TimeMajor);
    let takes = GruSpec::default()
        .with_update(Update::Takes)
        .with_direction(Direction::Reverse);
    [
        Problem::new(3, 5, 4, 7),
        Problem::new(3, 5, 4, 7).with_spec(before),
        Problem::new(2, 4, 3, 17).with_spec(takes),
        Problem::new(2, 4, 3, 5)
            .with_biases(Biases::None)
            .without_h0(),
    ]
}

/// Every problem on every backend.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &backend in backends {
        for dtype in backend.dtypes() {
            for problem in problems() {
                let tolerance = backend.tolerance(match dtype {
                    DType::F64 => Tolerance::F64,
                    _ => Tolerance::F32,
                });
                let id = format!("gates/{}/{}", problem.id(), backend.id(dtype));
                trials.push(backend.trial(id, move |device| {
                    check(&problem, device, dtype, tolerance.forward)
                }));
            }
        }
    }
    trials
}

fn check(problem: &Problem, device: &Device, dtype: DType, tolerance: f64) -> Result<(), String> {
    let inputs = Inputs::random(problem);
    let expected = oracle::forward(problem, &inputs);
    let Leaves { x, h0, weights } = Leaves::new(problem, &inputs, device, dtype);
    let got = gru_gates(x, h0, &weights, &problem.spec);
    let [reset, update, candidate] = &expected.gates;
    for (name, got, expected) in [
        ("states", got.states, &expected.y),
        ("reset", got.reset, reset),
        ("update", got.update, update),
        ("candidate", got.candidate, candidate),
    ] {
        expect_shape(name, &got, problem.sequence_shape(problem.h))?;
        close(name, &values(got), expected, tolerance)?;
    }
    Ok(())
}
