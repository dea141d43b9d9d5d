//! Counts the launches of a pass. This is a separate process with one thread, because the counter is per process.

mod support;

use gru_cube::{Buffers, Limits, Strategy, launches};
use gru_testkit::{case::Case, runs::Runs};
use libtest_mimic::Arguments;
use support::{Device, F32, Ignored, Kernels, Ran, client, expected, not_allowed, trial};

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

/// All tensors. One more launch copies the small ones into one buffer. Without them, both biases and an initial state are
/// as many buffers as a kernel may bind.
const ALL: &str = "mask skips";

/// Launches of a forward and of a backward pass.
fn count(words: &str) -> Result<(u64, u64), Ignored> {
    let client = client();
    let device = Device::f32(&client);
    let drawn = Case::new(words).with("projected").draw();
    let call = device.recurrence(&drawn);
    let (len, saved) = (
        call.sizes.places() * call.sizes.h,
        call.spec.saved_per_unit(),
    );
    let [states, gates] = [len, len * saved].map(|len| device.poisoned(len));
    let forward = Buffers::Forward {
        steps: 0..call.sizes.t,
        states: states.clone(),
        gates: Some(gates.clone()),
    };
    let backward = Buffers::Backward {
        d_states: device.poisoned(len),
        states,
        gates,
        d_gates: None,
        d_h0: device.poisoned(call.sizes.n * call.sizes.h),
    };
    let count = |buffers| {
        let before = launches();
        gru_cube::run(&client, &call, buffers, Strategy::Inferred).map_err(not_allowed)?;
        Ok::<_, Ignored>(launches() - before)
    };
    Ok((count(&forward)?, count(&backward)?))
}

fn a_sequence_kernel_is_one_launch() -> Ran {
    for (given, more) in [("", 0), (ALL, 1)] {
        for t in [3, 9] {
            let of = |words| count(&format!("N5 T{t} {words} {given}"));
            let one = (1 + more, 1 + more);
            assert_eq!(of("H16")?, one, "T{t} {given}");
            assert_eq!(of("H64 before")?, one, "T{t} {given}");
            assert_eq!(of("H128")?, one, "T{t} {given}");
            // The weight is read at every step, and the backward pass needs it transposed.
            assert_eq!(of("H256")?, (1 + more, 2 + more), "T{t} {given}");
        }
    }
    Ok(())
}

/// Each launch is bounded in time. Launches hand on the state and the gradients of the previous state and the start
/// state, so the results are as from one launch.
fn a_long_sequence_is_several_launches() -> Ran {
    const STEPS: usize = 45_000;
    assert_eq!(count(&format!("N1 T{STEPS} H1"))?, (3, 3));
    for words in ["", "before reverse"] {
        let case = Case::new(&format!(
            "N2 T{STEPS} H3 projected mask skips start-states {words}"
        ));
        let mut drawn = case.draw();
        // Row 0 never starts, so its state and gradient cross from launch to launch.
        let starts = drawn.call.inputs.sequence.starts.as_mut();
        starts.expect("starts")[..STEPS].fill(0.0);
        let got = Kernels::f32(Strategy::Inferred).run(&case, &drawn)?;
        got.compare(&expected(&drawn), F32).unwrap();
    }
    Ok(())
}

/// If the device stores the weight in 38 cubes of 16 columns, all steps are one launch.
fn products_are_one_each() -> Ran {
    let limits = Limits::of(&client());
    let one_launch = limits.persistent && limits.coresident_cubes >= 38;
    for t in [3, 5] {
        // With the reset before the product, scratch memory is the eighth buffer of the forward pass.
        for (reset, products, shares) in [("", t, 0), ("before", 2 * t, 1)] {
            let expected = if one_launch {
                (1 + shares, 3)
            } else {
                (products + shares, products + 2)
            };
            let got = count(&format!("N2 T{t} H600 {reset}"))?;
            assert_eq!(got, expected, "T{t} {reset}");
        }
    }
    Ok(())
}
