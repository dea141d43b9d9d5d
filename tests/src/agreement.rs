//! Results do not depend on the backend, the layout or the strides of the inputs.

use std::sync::Arc;

use burn::tensor::DType;
use gru_op::{Direction, GruSpec, Layout, Order, Reset, Update};
use gru_testkit::{
    close::Tolerance,
    oracle::Call,
    problem::{Biases, Problem},
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    call::{self, How},
    gradient::Known,
};

/// Sizes beyond one tile, panel or cube: larger than the problems of the gradient suite.
fn problems() -> Vec<Problem> {
    let before = GruSpec::default()
        .with_reset(Reset::BeforeMatmul)
        .with_update(Update::Takes);
    let time_major = |direction| Order {
        layout: Layout::TimeMajor,
        direction,
    };
    vec![
        Problem::new(5, 13, 9, 33),
        Problem::new(5, 13, 9, 33)
            .with_spec(before)
            .with_order(time_major(Direction::Reverse)),
        Problem::new(2, 40, 16, 64).with_order(time_major(Direction::Forward)),
        Problem::new(2, 40, 16, 64).with_spec(before),
        Problem::new(17, 3, 5, 48)
            .with_biases(Biases::InputOnly)
            .without_h0(),
        Problem::new(1, 7, 65, 96).with_biases(Biases::None),
    ]
}

/// Compares each backend with the oracle: the operator, the composed default, and the operator on views.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let problems = problems().into_iter();
    let problems: Vec<_> = problems.map(|p| Arc::new(Known::new(p))).collect();
    let usual = How::default();
    let composed = How {
        composed: true,
        ..usual
    };
    let views = How {
        views: true,
        ..usual
    };
    let ways = [
        ("agreement/operator", usual),
        ("agreement/composed", composed),
        ("views", views),
    ];
    let mut trials = Vec::new();
    for backend in backends {
        for known in &problems {
            for (name, how) in ways {
                let id = known.problem.id();
                let id = format!("{name}/{id}/{}", backend.id(DType::F32));
                let (known, tolerance) = (known.clone(), backend.tolerance(Tolerance::F32));
                trials.push(backend.trial(id, move |device| {
                    let (inputs, truth) = known.truth();
                    let call = Call::of(&known.problem, inputs);
                    let upstream = [&inputs.d_y[..], &inputs.d_h_t];
                    call::on(device, DType::F32, &call, upstream, &how)?.compare(truth, tolerance)
                }));
            }
        }
    }
    trials
}
