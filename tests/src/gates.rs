//! `gru_gates`: the states and each gate by name, compared with the oracle.

use burn::tensor::{DType, Device, Tensor};
use gru_op::{GruBlockConfig, SequenceOptions, gru_gates};
use gru_testkit::{
    case::Case,
    close::{Tolerance, close},
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    operator::{self, Way},
    runs::{Leaves, expect_shape, random, values},
};

/// Every convention at least once. With lengths, a row is empty.
const CASES: [&str; 8] = [
    "",
    "zoneout-per-unit",
    "zoneout-per-step before time",
    "before time",
    "H17 takes reverse",
    "no-b_ih no-b_hh no-h0",
    "lengths",
    "lengths time reverse",
];

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &backend in backends {
        for dtype in backend.dtypes() {
            for case in CASES.map(Case::new) {
                let tolerance = backend.tolerance(match dtype {
                    DType::F64 => Tolerance::F64,
                    _ => Tolerance::F32,
                });
                let id = format!("gates/{}/{}", case.id(), backend.id(dtype));
                trials.push(backend.trial(id, move |device| {
                    check(&case, device, dtype, tolerance.forward)
                }));
            }
        }
        for batch_first in [true, false] {
            let order = if batch_first { "batch" } else { "time" };
            let id = format!("gates/block-{order}/{}", backend.name);
            let tolerance = backend.tolerance(Tolerance::F32).forward;
            trials.push(backend.trial(id, move |device| block(batch_first, device, tolerance)));
        }
    }
    trials
}

/// The states of a block with zoneout equal the output of `forward`.
fn block(batch_first: bool, device: &Device, tolerance: f64) -> Result<(), String> {
    let block = GruBlockConfig::new(4, 7)
        .with_num_layers(2)
        .with_batch_first(batch_first)
        .with_zoneout(0.5)
        .init(device);
    let x: Tensor<3> = random("x", [3, 5, 4], device);
    let [_, last] = &block.gates(x.clone(), SequenceOptions::new())[..] else {
        return Err("expected the gates of two layers".into());
    };
    let (states, y) = (last.states.clone(), block.forward(x, None).0);
    close("states", &values(states), &values(y), tolerance)
}

/// Past the end of a row, the state is zero and the gates have no meaning.
fn check(case: &Case, device: &Device, dtype: DType, tolerance: f64) -> Result<(), String> {
    let drawn = case.draw();
    let leaves = Leaves::new(&drawn, device, dtype);
    let (x, weights, options) = operator::arguments(&drawn, Way::of(case), &leaves);
    let got = gru_gates(x, &weights, &case.spec, options);
    let expected = drawn.call.forward();
    let [reset, update, candidate] = &expected.gates;
    let shape = case.sizes.sequence(case.order.layout, case.sizes.h);
    for (name, got, expected) in [
        ("states", got.states, &expected.y),
        ("reset", got.reset, reset),
        ("update", got.update, update),
        ("candidate", got.candidate, candidate),
    ] {
        expect_shape(name, &got, shape[..].try_into().expect("three sizes"))?;
        let mut got = values(got);
        if name != "states" {
            drawn.fill_skipped(&mut got, f64::NAN);
        }
        close(name, &got, expected, tolerance)?;
    }
    Ok(())
}
