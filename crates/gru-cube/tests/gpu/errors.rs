//! Calls that do not fit their kernels.

use super::support::{Device, client, test};
use cubecl::server::Handle;
use gru_cube::{Buffers, Products, Recurrence, Strategy, gates, run};
use gru_spec::Direction;
use gru_testkit::{case::Case, panics::panics};
use libtest_mimic::Trial;
use std::ops::Range;

pub fn trials() -> Vec<Trial> {
    vec![test("errors/calls-that-do-not-fit", calls_that_do_not_fit)]
}

fn calls_that_do_not_fit() {
    let client = client();
    let device = Device::f32(&client);
    let drawn = Case::new("N3 T4 H5 projected skips").draw();
    let call = device.recurrence(&drawn);
    let states = device.poisoned(3 * 4 * 5);
    let fails = |call: &Recurrence, steps: Range<usize>, states: &Handle, message: &str| {
        let buffers = Buffers::Forward {
            steps,
            states: states.clone(),
            gates: None,
        };
        let run = || run(&client, call, &buffers, Strategy::Inferred);
        panics(run, &format!("gru_cube: {message}")).unwrap();
    };
    fails(&call, 2..5, &states, "expected steps within 0..4, got 2..5");
    let short = device.poisoned(59);
    fails(&call, 0..4, &short, "states has 236 bytes, expected 240");

    let with_lengths = |lengths: &[usize]| Recurrence {
        lengths: Some(lengths.to_vec()),
        ..call.clone()
    };
    for lengths in [vec![4, 2], vec![2, 4, 0], vec![5, 2, 0]] {
        let message =
            format!("expected 3 lengths of at most 4 that do not increase, got {lengths:?}");
        fails(&with_lengths(&lengths), 0..4, &states, &message);
    }
    let mut other = with_lengths(&[4, 2, 0]);
    other.order.direction = Direction::Reverse;
    let message =
        "lengths: expected the forward direction and a step_mask, got Reverse and a step_mask";
    fails(&other, 0..4, &states, message);
    let mut other = with_lengths(&[4, 2, 0]);
    other.inputs.sequence.step_mask = None;
    let message = "lengths: expected the forward direction and a step_mask, got Forward and none";
    fails(&other, 0..4, &states, message);

    let q = device.poisoned(3 * 4 * 10);
    let products = Products::Candidate { q: q.clone() };
    let run = || gates(&client, &call, &products, &q);
    let message = "gru_cube: expected the products of reset AfterMatmul, got Candidate";
    panics(run, message).unwrap();
}
