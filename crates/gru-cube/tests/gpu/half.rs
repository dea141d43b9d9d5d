//! Sixteen-bit storage with float32 sums, where the device has the type.

use super::support::{
    FORWARD, Given, Ignored, Problem, Ran, cases,
    catalogue::{Case, matrices, sixteen_bits},
    client, close, oracle, refused, run, tile, trial,
};
use cubecl::{features::TypeUsage, prelude::*};
use gru_cube::{Cut, PlanError, StepTile, Strategy, WalkTile};
use gru_spec::{GruSpec, Reset};
use half::f16;
use libtest_mimic::Trial;

/// Storage rounds at 2⁻¹¹. A state is rounded once per step on its way out, and its gates feed
/// gradients; sums of up to 20 such terms stay within ten roundings of the largest number.
const TOLERANCE: f64 = 10.0 / 2048.0;

pub fn trials() -> Vec<Trial> {
    let mut trials = cases(sixteen_bits(), |case: &Case| {
        case.check::<f16>((TOLERANCE, TOLERANCE))
    });
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let name = format!("sixteen-bits/a-state-is-rounded-once-{reset:?}");
        trials.push(trial(name, move || a_state_is_rounded_once(reset)));
    }
    trials.push(trial(
        "f16-matrices/other-sizes-are-refused".to_owned(),
        sizes_that_are_not_of_matrices_are_refused,
    ));
    trials
}

fn has_f16() -> Ran {
    if f16::supported_uses(&client()).contains(TypeUsage::Buffer) {
        Ok(())
    } else {
        Err(Ignored("no buffers of f16".to_owned()))
    }
}

/// However many steps there are: between them the state is float32, and half an ulp of a state, 2⁻¹² below
/// 1, is the rounding of its way out. (A walk keeps it in registers, steps in a buffer of their own.)
fn a_state_is_rounded_once(reset: Reset) -> Ran {
    has_f16()?;
    let walk = Cut::Walk(WalkTile {
        rows: 2,
        width: 2,
        lanes: 32,
        splits: 1,
        resident: false,
    });
    let spec = GruSpec::default().with_reset(reset);
    let problem = Problem::of::<f16>((3, 40, 33), spec, Given::ALL, 5);
    let expected = oracle(&problem).states;
    for cut in [walk, Cut::Steps(tile(2, 2, 16, 2, 2, 16))] {
        let strategy = Strategy::Forced(cut);
        let got = run::<f16>(&client(), &problem, (strategy, strategy), false).map_err(refused)?;
        close("states", &got.states, &expected, 2f64.powi(-12) + FORWARD)
            .unwrap_or_else(|message| panic!("{cut}: {message}"));
    }
    Ok(())
}

fn sizes_that_are_not_of_matrices_are_refused() -> Ran {
    has_f16()?;
    let first = matrices("f16-matrices", Cut::Steps).cases.remove(0);
    first.check::<f16>((TOLERANCE, TOLERANCE))?;
    let Strategy::Forced(Cut::Steps(good)) = first.strategy else {
        panic!("{first:?}");
    };
    for (h, tile) in [
        (33, good),
        (48, StepTile { rows: 3, ..good }),
        (48, StepTile { lanes: 5, ..good }),
        (48, StepTile { lanes: 36, ..good }),
    ] {
        let problem = Problem::of::<f16>((5, 2, h), GruSpec::default(), Given::NONE, 0);
        let strategy = Strategy::Forced(Cut::Steps(tile));
        let refused = run::<f16>(&client(), &problem, (strategy, strategy), false);
        assert!(
            matches!(refused, Err(PlanError::NotOfMatrices { .. })),
            "H{h} {tile:?}: {refused:?}"
        );
    }
    Ok(())
}
