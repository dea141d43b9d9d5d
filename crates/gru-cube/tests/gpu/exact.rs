//! Results that are exact.

use super::support::{F32, Kernels, Ran, cases::KINDS, expected, trial};
use cubecl::ir::FloatKind;
use gru_cube::Strategy;
use gru_testkit::{
    case::Case,
    close::{Outcome, close},
    runs::{Runs, Stop},
};
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    let mut trials = vec![trial("exact/same-bits-twice", same_bits_twice)];
    for (k, text) in KINDS.iter().enumerate() {
        let strategy = Strategy::Forced(text.parse().expect("a schedule"));
        trials.push(trial(format!("exact/kept-state-{k}"), move || {
            a_unit_keeps_its_state(strategy)
        }));
        for reset in ["", "before"] {
            let name = format!("exact/a-state-is-rounded-once-{k}-{reset}");
            trials.push(trial(name, move || {
                a_state_is_rounded_once(strategy, reset)
            }));
        }
    }
    trials
}

/// The same inputs give the same bits.
fn same_bits_twice() -> Ran {
    for words in ["N5 T7 H33", "N5 T7 H33 before", "N3 T4 H300"] {
        let case = Case::new(words).with("projected mask skips");
        let drawn = case.draw();
        let bits = || -> Result<Vec<Vec<u64>>, Stop> {
            let Outcome { outputs, gradients } =
                Kernels::f32(Strategy::Inferred).run(&case, &drawn)?;
            let tensors = outputs.into_values().chain(gradients.into_values());
            Ok(tensors
                .map(|x| x.into_iter().map(f64::to_bits).collect())
                .collect())
        };
        assert_eq!(bits()?, bits()?, "{words}");
    }
    Ok(())
}

/// A hidden unit that keeps all of its previous state keeps every bit.
fn a_unit_keeps_its_state(strategy: Strategy) -> Ran {
    const KEEPS: usize = 7;
    let case = Case::new("N5 T4 H33 projected mask zoneout-per-unit");
    let mut drawn = case.draw();
    let inputs = &mut drawn.call.inputs.sequence;
    for (k, share) in inputs.zoneout.as_mut().unwrap().iter_mut().enumerate() {
        *share = if k % 33 == KEEPS { 1.0 } else { 0.0 };
    }
    let got = Kernels::f32(strategy).run(&case, &drawn)?;
    let states = &got.outputs["states"];
    let h0 = drawn.call.inputs.sequence.h0.as_ref().unwrap();
    for (row, state) in states.chunks(33).enumerate() {
        let before = &h0[row / 4 * 33..][..33];
        assert_eq!(state[KEEPS], before[KEEPS], "row {row}");
        assert_ne!(state[KEEPS + 1], before[KEEPS + 1], "row {row}");
    }
    Ok(())
}

/// For any number of steps: between steps the state is float32. Storing it rounds by half an ulp, 2⁻¹² below 1.
/// (Sequence kernels keep it in registers, step kernels in a buffer.)
fn a_state_is_rounded_once(strategy: Strategy, reset: &str) -> Ran {
    let case = Case::new("N3 T40 H33 projected mask skips 16-bits").with(reset);
    let (drawn, dtype) = (case.draw(), FloatKind::F16);
    let got = Kernels { dtype, strategy }.run(&case, &drawn)?;
    let expected = expected(&drawn);
    let [got, expected] =
        [got, expected].map(|mut of| of.outputs.remove("states").expect("states"));
    close("states", &got, &expected, 2f64.powi(-12) + F32.forward).unwrap();
    Ok(())
}
