//! `gru_gates`: the states and each gate by name, compared with the oracle.

use burn::tensor::{DType, Device, Tensor};
use gru_op::{Direction, GruBlockConfig, GruSpec, Layout, Order, Reset, Update, gru_gates};
use gru_testkit::{
    close::{Tolerance, close},
    inputs::Inputs,
    oracle::Call,
    problem::{Biases, Problem},
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    call::{self, How},
    runs::{self, Leaves, expect_shape, values},
};

/// Unsorted, with an empty row.
const LENGTHS: [usize; 4] = [2, 5, 0, 3];

/// Every convention at least once.
fn problems() -> [Problem; 4] {
    let before = GruSpec::default().with_reset(Reset::BeforeMatmul);
    let time_major = Order {
        layout: Layout::TimeMajor,
        ..Order::default()
    };
    let takes = GruSpec::default().with_update(Update::Takes);
    let reverse = Order {
        direction: Direction::Reverse,
        ..Order::default()
    };
    [
        Problem::new(3, 5, 4, 7),
        Problem::new(3, 5, 4, 7)
            .with_spec(before)
            .with_order(time_major),
        Problem::new(2, 4, 3, 17)
            .with_spec(takes)
            .with_order(reverse),
        Problem::new(2, 4, 3, 5)
            .with_biases(Biases::None)
            .without_h0(),
    ]
}

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
                    check(&problem, None, device, dtype, tolerance.forward)
                }));
            }
        }
        for order in [
            Order::default(),
            Order {
                layout: Layout::TimeMajor,
                direction: Direction::Reverse,
            },
        ] {
            let problem = Problem::new(LENGTHS.len(), 5, 3, 7).with_order(order);
            let id = format!("gates/lengths-{}/{}", problem.id(), backend.name);
            let tolerance = backend.tolerance(Tolerance::F32).forward;
            trials.push(backend.trial(id, move |device| {
                check(&problem, Some(&LENGTHS), device, DType::F32, tolerance)
            }));
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
    let inputs = Inputs::random(&Problem::new(n, t, i, h));
    let [time_dim, first, second] = if batch_first { [1, n, t] } else { [0, t, n] };
    let x: Tensor<3> = runs::tensor(&inputs.x, [first, second, i], device, DType::F32);
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
fn check(
    problem: &Problem,
    lengths: Option<&[usize]>,
    device: &Device,
    dtype: DType,
    tolerance: f64,
) -> Result<(), String> {
    let mut call = Call::of(problem, &Inputs::random(problem));
    if let Some(lengths) = lengths {
        call = call::with_lengths(call, lengths);
    }
    let how = How {
        lengths,
        ..How::default()
    };
    let leaves = Leaves::of(&call, false, device, dtype);
    let (x, weights, options) = call::arguments(&call, &how, &leaves);
    let got = gru_gates(x, &weights, &call.spec, options);
    let expected = call.forward();
    let [reset, update, candidate] = &expected.gates;
    let is_valid = |step: usize| call.step_mask.as_ref().is_none_or(|mask| mask[step] != 0.0);
    for (name, got, expected) in [
        ("states", got.states, &expected.y),
        ("reset", got.reset, reset),
        ("update", got.update, update),
        ("candidate", got.candidate, candidate),
    ] {
        expect_shape(name, &got, problem.sequence_shape(problem.h))?;
        let compared = |all: &[f64]| -> Vec<f64> {
            let steps = all.chunks_exact(problem.h).enumerate();
            let steps = steps.filter(|&(step, _)| name == "states" || is_valid(step));
            steps.flat_map(|(_, units)| units).copied().collect()
        };
        close(
            name,
            &compared(&values(got)),
            &compared(expected),
            tolerance,
        )?;
    }
    Ok(())
}
