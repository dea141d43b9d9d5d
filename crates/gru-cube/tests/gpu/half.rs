//! 16-bit storage with float32 sums, if the device has the type.

use super::support::{
    F16, F32, Given, Ignored, Problem, Ran, cases, catalogue::sixteen_bits, client, close,
    not_allowed, oracle, run, sequence, tile, trial,
};
use cubecl::{features::TypeUsage, prelude::*};
use gru_cube::{Schedule, Strategy};
use gru_spec::{GruSpec, Reset};
use half::f16;
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    let mut trials = cases(sixteen_bits(), |case| case.check::<f16>(F16));
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let name = format!("sixteen-bits/a-state-is-rounded-once-{reset:?}");
        trials.push(trial(name, move || a_state_is_rounded_once(reset)));
    }
    trials
}

fn has_f16() -> Ran {
    if f16::supported_uses(&client()).contains(TypeUsage::Buffer) {
        Ok(())
    } else {
        Err(Ignored("no buffers of f16".to_owned()))
    }
}

/// For any number of steps: between steps the state is float32. Storing it rounds by half an ulp, 2⁻¹²
/// below 1. (Sequence kernels keep it in registers, step kernels in a buffer.)
fn a_state_is_rounded_once(reset: Reset) -> Ran {
    has_f16()?;
    let spec = GruSpec::default().with_reset(reset);
    let problem = Problem::of::<f16>((3, 40, 33), spec, Given::ALL, 5);
    let expected = oracle(&problem).states;
    for schedule in [
        sequence(2, 2, 32, 1, false),
        Schedule::Steps(tile(2, 2, 16, 2, 2, 16)),
    ] {
        let strategy = Strategy::Forced(schedule);
        let got = run::<f16>(&client(), &problem, strategy, false).map_err(not_allowed)?;
        close(
            "states",
            &got.states,
            &expected,
            2f64.powi(-12) + F32.forward,
        )
        .unwrap_or_else(|message| panic!("{schedule}: {message}"));
    }
    Ok(())
}
