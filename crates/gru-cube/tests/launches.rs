//! Counts the launches of a pass. This is a separate process with one thread, because the counter is per process.

mod support;

use gru_cube::{Buffers, Limits, Starts, Strategy, launches};
use gru_spec::{Direction, GruSpec, Order, Reset};
use libtest_mimic::Arguments;
use support::{
    F32, Given, Ignored, Problem, Ran, client, not_allowed, oracle, poisoned, run, trial,
};

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trials = vec![
        trial("launches/sequence", a_sequence_kernel_is_one_launch),
        trial("launches/steps", products_are_one_each),
        trial("launches/long", a_long_sequence_is_several_launches),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// Both biases and an initial state: as many buffers as a kernel may bind.
const SEVEN_BUFFERS: Given = Given::bits(7);

/// Launches of a forward and of a backward pass.
fn count(
    (n, t, h): (usize, usize, usize),
    spec: GruSpec,
    given: Given,
) -> Result<(u64, u64), Ignored> {
    let client = client();
    let problem = Problem::new((n, t, h), spec, given, 1);
    let call = problem.recurrence::<f32>(&client);
    let buffer = |len| poisoned::<f32>(&client, len);
    let (states, gates) = (buffer(n * t * h), buffer(n * t * h * spec.saved_per_unit()));
    let forward = Buffers::Forward {
        steps: 0..t,
        states: states.clone(),
        gates: Some(gates.clone()),
    };
    let backward = Buffers::Backward {
        d_states: buffer(n * t * h),
        states,
        gates,
        d_gates: None,
        d_h0: buffer(n * h),
    };
    let count = |buffers| {
        let before = launches();
        gru_cube::run(&client, &call, buffers, Strategy::Inferred).map_err(not_allowed)?;
        Ok(launches() - before)
    };
    Ok((count(&forward)?, count(&backward)?))
}

fn a_sequence_kernel_is_one_launch() -> Ran {
    let before = GruSpec::default().with_reset(Reset::BeforeMatmul);
    // With all tensors, one more launch copies the small ones into one buffer.
    for (given, more) in [(SEVEN_BUFFERS, 0), (Given::ALL, 1)] {
        for t in [3, 9] {
            let of = |h, spec| count((5, t, h), spec, given);
            let one = (1 + more, 1 + more);
            assert_eq!(of(16, GruSpec::default())?, one, "T{t} {given:?}");
            assert_eq!(of(64, before)?, one, "T{t} {given:?}");
            assert_eq!(of(128, GruSpec::default())?, one, "T{t} {given:?}");
            // The weight is read at every step, and the backward pass needs it transposed.
            let two = (1 + more, 2 + more);
            assert_eq!(of(256, GruSpec::default())?, two, "T{t} {given:?}");
        }
    }
    Ok(())
}

/// Each launch is bounded in time. Launches hand on the state and the gradients of the previous state and the start
/// state, so the results are as from one launch.
fn a_long_sequence_is_several_launches() -> Ran {
    const STEPS: usize = 45_000;
    assert_eq!(
        count((1, STEPS, 1), GruSpec::default(), SEVEN_BUFFERS)?,
        (3, 3)
    );
    let given = Given {
        starts: Starts::FromState,
        ..Given::ALL
    };
    for (reset, direction) in [
        (Reset::AfterMatmul, Direction::Forward),
        (Reset::BeforeMatmul, Direction::Reverse),
    ] {
        let spec = GruSpec::default().with_reset(reset);
        let order = Order {
            direction,
            ..Order::default()
        };
        let mut problem = Problem::new((2, STEPS, 3), spec, given, 1).with_order(order);
        // Row 0 never starts, so its state and gradient cross from launch to launch.
        problem.starts.as_mut().unwrap()[..STEPS].fill(0.0);
        let got = run::<f32>(&client(), &problem, Strategy::Inferred, true).map_err(not_allowed)?;
        if let Err(message) = got.compare(&oracle(&problem), F32) {
            panic!("{reset:?}: {message}");
        }
    }
    Ok(())
}

/// If the device stores the weight in 38 cubes of 16 columns, all steps are one launch.
fn products_are_one_each() -> Ran {
    let before = GruSpec::default().with_reset(Reset::BeforeMatmul);
    let limits = Limits::of(&client());
    let one_launch = limits.persistent && limits.coresident_cubes >= 38;
    for t in [3, 5] {
        // With the reset before the product, scratch memory is the eighth buffer of the forward pass.
        for (spec, products, shares) in
            [(GruSpec::default(), t as u64, 0), (before, 2 * t as u64, 1)]
        {
            let expected = if one_launch {
                (1 + shares, 3)
            } else {
                (products + shares, products + 2)
            };
            let got = count((2, t, 600), spec, SEVEN_BUFFERS)?;
            assert_eq!(got, expected, "T{t} {spec:?}");
        }
    }
    Ok(())
}
