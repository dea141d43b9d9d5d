//! A forward pass in chunks of time, each with its own `p`, compared with float64 and with one call.

use super::support::{
    F32, Given, Ignored, Problem, Ran, client, close, download, not_allowed, oracle, panics,
    poisoned, sequence, test, tile, trial, upload,
};
use gru_cube::{Buffers, Schedule, Starts, Strategy};
use gru_spec::{Direction, GruSpec, Layout, Order, Reset};
use gru_testkit::cover::cover;
use libtest_mimic::Trial;
use std::ops::Range;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("chunks/chunks-equal-one-call", chunks_equal_one_call),
        test("chunks/steps-past-the-end-panic", steps_past_the_end_panic),
    ]
}

/// `p` of some steps, in the order of computation.
fn p_of(problem: &Problem, steps: &Range<usize>) -> Vec<f64> {
    let Problem { n, t, h, order, .. } = *problem;
    let times = order.direction.times(steps.clone(), t);
    let row = |row: usize| problem.p[row * 3 * h..][..3 * h].iter().copied();
    match order.layout {
        Layout::BatchMajor => (0..n)
            .flat_map(|k| times.clone().map(move |time| k * t + time))
            .flat_map(row)
            .collect(),
        Layout::TimeMajor => times
            .flat_map(|time| (0..n).map(move |k| time * n + k))
            .flat_map(row)
            .collect(),
    }
}

/// States and gates after the given chunks.
fn forward(
    problem: &Problem,
    chunks: &[Range<usize>],
    strategy: Strategy,
) -> Result<(Vec<f64>, Vec<f64>), Ignored> {
    let client = client();
    let width = problem.spec.saved_per_unit() * problem.h;
    let (states_len, gates_len) = (problem.rows() * problem.h, problem.rows() * width);
    let states = poisoned::<f32>(&client, states_len);
    let gates = poisoned::<f32>(&client, gates_len);
    let mut call = problem.recurrence::<f32>(&client);
    for steps in chunks {
        call.inputs.sequence.x = upload::<f32>(&client, &p_of(problem, steps));
        let buffers = Buffers::Forward {
            steps: steps.clone(),
            states: states.clone(),
            gates: Some(gates.clone()),
        };
        gru_cube::run(&client, &call, &buffers, strategy).map_err(not_allowed)?;
    }
    Ok((
        download::<f32>(&client, states, states_len),
        download::<f32>(&client, gates, gates_len),
    ))
}

fn chunks_equal_one_call() -> Ran {
    let schedules = [
        sequence(2, 2, 8, 1, false),
        Schedule::Steps(tile(2, 2, 4, 1, 2, 8)),
    ];
    for row in cover(&[2; 4], 2) {
        let order = Order {
            direction: [Direction::Forward, Direction::Reverse][row[0]],
            layout: [Layout::BatchMajor, Layout::TimeMajor][row[1]],
        };
        let reset = [Reset::AfterMatmul, Reset::BeforeMatmul][row[2]];
        let spec = GruSpec::default().with_reset(reset);
        let schedule = schedules[row[3]];
        let strategy = Strategy::Forced(schedule);
        let given = Given {
            starts: Starts::FromState,
            ..Given::ALL
        };
        let problem = Problem::new((3, 7, 9), spec, given, 5).with_order(order);
        let whole = forward(&problem, &[0..0, 0..7], strategy)?;
        let parts = forward(&problem, &[0..3, 3..3, 3..4, 4..7], strategy)?;
        let at = format!("{spec:?} {order:?} {schedule:?}");
        assert_eq!(whole.0, parts.0, "states {at}");
        // Compared as bits, because gates are NaN where nothing was written.
        let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&whole.1), bits(&parts.1), "gates {at}");
        if let Err(message) = close("states", &parts.0, &oracle(&problem).states, F32.forward) {
            panic!("{at}: {message}");
        }
    }
    Ok(())
}

fn steps_past_the_end_panic() {
    let problem = Problem::new((1, 4, 3), GruSpec::default(), Given::NONE, 1);
    let client = client();
    let buffers = Buffers::Forward {
        steps: 2..5,
        states: poisoned::<f32>(&client, 12),
        gates: None,
    };
    let call = problem.recurrence::<f32>(&client);
    panics(
        || gru_cube::run(&client, &call, &buffers, Strategy::Inferred),
        "gru_cube: expected steps within 0..4, got 2..5",
    )
    .unwrap();
}
