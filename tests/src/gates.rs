//! `gru_gates`: the states and each gate by name, compared with the oracle.

use burn::tensor::{DType, Device, Tensor};
use gru_op::{GruBlockConfig, gru_gates};
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
const CASES: [&str; 6] = [
    "",
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
            let id = format!("gates/zoneout-{order}/{}", backend.name);
            let tolerance = backend.tolerance(Tolerance::F32).forward;
            trials.push(backend.trial(id, move |device| zoneout(batch_first, device, tolerance)));
        }
    }
    trials
}

/// A block with zoneout. Its states equal the states of `forward`. Each state follows from its gates and
/// the previous state: `h = (1 − zoneout) (z h₋₁ + (1 − z) n) + zoneout h₋₁`.
fn zoneout(batch_first: bool, device: &Device, tolerance: f64) -> Result<(), String> {
    const ZONEOUT: f64 = 0.5;
    let (n, t, i, h) = (3, 5, 4, 7);
    let block = GruBlockConfig::new(i, h)
        .with_num_layers(2)
        .with_batch_first(batch_first)
        .with_zoneout(ZONEOUT)
        .init(device);
    let [time_dim, first, second] = if batch_first { [1, n, t] } else { [0, t, n] };
    let x: Tensor<3> = random("x", [first, second, i], device);
    let gates = block.gates(x.clone(), None);
    let y = block.forward(x, None).0;
    close(
        "states",
        &values(gates[1].states.clone()),
        &values(y),
        tolerance,
    )?;
    for (k, gates) in gates.into_iter().enumerate() {
        let at = |gate: &Tensor<3>, t| values(gate.clone().narrow(time_dim, t, 1));
        let mut state = vec![0.0; n * h];
        for t in 0..t {
            let (z, candidate) = (at(&gates.update, t), at(&gates.candidate, t));
            for (u, state) in state.iter_mut().enumerate() {
                let new = z[u] * *state + (1.0 - z[u]) * candidate[u];
                *state = (1.0 - ZONEOUT) * new + ZONEOUT * *state;
            }
            let name = format!("layer {k}, state at {t}");
            close(&name, &at(&gates.states, t), &state, tolerance)?;
        }
    }
    Ok(())
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
