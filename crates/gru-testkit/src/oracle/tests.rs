//! Compares the tape with finite differences of its own forward pass, and tests non-finite values.

use gru_spec::Inputs;

use super::*;
use crate::{
    activations::ACTIVATIONS,
    case::Case,
    close::{Outcome, Tolerance, close},
    draw::Drawn,
    matrix::{OPTIONS, PADDED, activations, covering, sizes},
};

/// Step of the differences: a power of two, so that a float32 input plus a few steps is exact.
///
/// The formula of fourth order has a truncation error of `STEP⁴/30 · f⁽⁵⁾` ≈ 3e-14 f⁽⁵⁾ and a rounding
/// error of about `1.5 · ε·|loss| / STEP` ≈ 1e-12. They are balanced near 2⁻¹⁰.
const STEP: f64 = 1.0 / 1024.0;

/// A pre-activation moves by at most a few steps.
const MARGIN: f64 = 4.0 * STEP;

/// The gradient of the loss by every input, from central differences of fourth order.
fn differences(call: &Call, d_y: &[f64], d_h_t: &[f64]) -> Tensors {
    let pieces = call.forward().kinks.pieces;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut gradients = Tensors::new();
    for (name, values) in call.differentiable() {
        let mut moved = call.clone();
        let difference = |(index, start): (usize, &f64)| {
            let mut at = |steps: f64| {
                moved.each_input(|input, values| {
                    if input == name {
                        values[index] = start + steps * STEP;
                    }
                });
                let run = moved.forward();
                assert_eq!(run.kinks.pieces, pieces, "{name}[{index}] crosses a kink");
                dot(&run.y, d_y) + dot(&run.h_t, d_h_t)
            };
            let (near, far) = (at(1.0) - at(-1.0), at(2.0) - at(-2.0));
            at(0.0);
            (8.0 * near - far) / (12.0 * STEP)
        };
        let gradient = values.iter().enumerate().map(difference).collect();
        gradients.insert(name.into(), gradient);
    }
    gradients
}

#[test]
fn gradients_match_differences() {
    let small = [&[&["N2 T4 I2 H3"][..]], OPTIONS, PADDED].concat();
    for case in [covering(&small, 2), sizes(), activations()].concat() {
        let Drawn {
            call, d_y, d_h_t, ..
        } = case.draw_with_margin(MARGIN);
        let forward = call.forward();
        let outcome = |gradients| Outcome {
            outputs: Tensors::from([("y".into(), forward.y.clone())]),
            gradients,
        };
        let got = outcome(forward.gradients(&d_y, &d_h_t));
        let expected = outcome(differences(&call, &d_y, &d_h_t));
        if let Err(message) = got.compare(&expected, Tolerance::F64_DIFFERENCES) {
            panic!("{}: {message}", case.id());
        }
    }
}

#[test]
fn an_infinite_clip_is_none() {
    for activation in ACTIVATIONS {
        for a in [-3.0, -0.5, 0.0, 0.5, 3.0, f64::INFINITY, f64::NEG_INFINITY] {
            let bits = |(value, slope): (f64, f64)| [value.to_bits(), slope.to_bits()];
            let (with, without) = (
                gate(&activation, Some(f64::INFINITY), a),
                gate(&activation, None, a),
            );
            assert_eq!(bits(with), bits(without), "{activation:?} at {a}");
        }
    }
    let mut drawn = Case::new("N2 T3").draw();
    let expected = drawn.expected();
    drawn.call.spec.clip_state = Some(f64::INFINITY);
    assert_eq!(drawn.expected(), expected);
}

#[test]
fn a_clipped_pre_activation_has_no_slope() {
    for activation in ACTIVATIONS {
        for a in [-0.7, 0.7, f64::INFINITY, f64::NEG_INFINITY] {
            let (value, slope) = gate(&activation, Some(0.5), a);
            let (end, _) = gate(&activation, None, 0.5f64.copysign(a));
            assert_eq!((value, slope), (end, 0.0), "{activation:?} at {a}");
        }
        let (value, slope) = gate(&activation, Some(0.5), f64::NAN);
        assert!(value.is_nan() && slope.is_nan(), "{activation:?}");
    }
}

/// The gate is closed, so the candidate, which is NaN, is multiplied by 0. The result is still NaN.
#[test]
fn zero_times_nan_is_nan() {
    let mut drawn = Case::new("N1 T2 I1 H1 no-b_hh").draw();
    drawn.call.inputs.weights.b_ih = Some(vec![0.0, f64::INFINITY, f64::NAN]);
    let Outcome { outputs, gradients } = drawn.expected();
    assert!(outputs["y"].iter().all(|y| y.is_nan()));
    assert!(gradients.values().flatten().all(|d| d.is_nan()));
}

/// An infinite gradient of the blend has the sign of `h − n`. The form ∞ · h − ∞ · n would give NaN.
#[test]
fn an_infinite_gradient_keeps_its_sign() {
    let Drawn { call, .. } = Case::new("N1 T1 I1 H3 no-b_hh").draw();
    let run = call.forward();
    let d = run.gradients(&[f64::INFINITY; 3], &[]);
    let h0 = call.inputs.sequence.h0.expect("the case has a state");
    for j in 0..3 {
        let towards = h0[j] - run.gates[2][j];
        assert_eq!(d["b_ih"][3 + j], f64::INFINITY.copysign(towards));
        assert_eq!(d["b_ih"][6 + j], f64::INFINITY);
    }
}

/// `x` is NaN at skipped steps. Row 1 has no valid step, so even a non-finite weight does not affect it.
#[test]
fn skipped_steps_have_no_effect() {
    let Drawn {
        mut call,
        d_y,
        d_h_t,
        ..
    } = Case::new("N2 T3 I2 H4 skips").draw();
    call.skipped = Skipped::State;
    let run = call.forward();
    let d = run.gradients(&d_y, &d_h_t);
    let valid = call.inputs.sequence.step_mask.clone();
    for (row, valid) in valid.expect("the case has a mask").into_iter().enumerate() {
        assert_eq!(d["x"][row * 2..][..2] == [0.0; 2], valid == 0.0);
        let is_nan = run.gates[0][row * 4..][..4].iter().all(|r| r.is_nan());
        assert_eq!(is_nan, valid == 0.0);
    }
    assert!(run.y.iter().all(|y| y.is_finite()));
    call.inputs.weights.w_hh.fill(f64::NAN);
    let run = call.forward();
    let h0 = call.inputs.sequence.h0.expect("the case has a state");
    assert_eq!(run.y[12..], h0[4..].repeat(3));
    let d = run.gradients(&d_y, &d_h_t);
    assert!(d["h0"][..4].iter().all(|d| d.is_nan()));
    assert!(d["h0"][4..].iter().all(|d| d.is_finite()));
}

/// Each option, compared with an equivalent call without it.
#[test]
fn options_equal_calls_without_them() {
    for words in ["N1 T4 I2 H3", "N1 T4 I2 H3 before"] {
        let h = 3;
        let Drawn {
            call: plain, d_y, ..
        } = Case::new(words).draw();
        let with = |change: &dyn Fn(&mut Inputs<Vec<f64>>)| {
            let mut call = plain.clone();
            change(&mut call.inputs);
            call
        };
        let y = |change: &dyn Fn(&mut Inputs<Vec<f64>>)| with(change).forward().y;
        let mask = [1.25, 0.0, 0.5];
        // 1 on the diagonal of the first rows.
        let identity: Vec<f64> = (0..9 * h * h)
            .map(|k| f64::from(u8::from(k % (3 * h + 1) == 0)))
            .collect();
        let pairs = [
            (
                "zoneout of each step",
                y(&|inputs| inputs.sequence.zoneout = Some(vec![0.0, 1.0, 0.0, 0.0])),
                y(&|inputs| inputs.sequence.step_mask = Some(vec![1.0, 0.0, 1.0, 1.0])),
            ),
            (
                "mask",
                y(&|inputs| inputs.sequence.recurrent_mask = Some(mask.into())),
                y(&|inputs| {
                    for (row, m) in inputs.weights.w_hh.chunks_mut(3 * h).zip(&mask) {
                        row.iter_mut().for_each(|w| *w *= m);
                    }
                }),
            ),
            (
                "no input weight",
                y(&|inputs| {
                    inputs.sequence.x = d_y.repeat(3);
                    inputs.weights.w_ih = None;
                }),
                y(&|inputs| {
                    inputs.sequence.x = d_y.repeat(3);
                    inputs.weights.w_ih = Some(identity.clone());
                }),
            ),
        ];
        for (name, with, without) in pairs {
            close(name, &with, &without, 1e-15).expect(name);
        }
        // Rows 0 and 2 are skipped: `y` is the state, zero, or the previous output.
        let runs = [Skipped::State, Skipped::Zero, Skipped::Repeats].map(|skipped| {
            let mut call = with(&|inputs| {
                inputs.sequence.step_mask = Some(vec![0.0, 1.0, 0.0, 1.0]);
            });
            call.skipped = skipped;
            call.forward()
        });
        let rows = |run: &Forward| run.y.chunks(h).map(<[f64]>::to_vec).collect::<Vec<_>>();
        let [kept, zeroed, repeated] = runs.each_ref().map(rows);
        let [state, zero, repeats] = runs;
        let h0 = plain
            .inputs
            .sequence
            .h0
            .clone()
            .expect("the case has a state");
        let nothing = vec![0.0; h];
        assert_eq!([&kept[0], &kept[2]], [&h0, &kept[1]]);
        assert_eq!([&zeroed[0], &zeroed[2]], [&nothing, &nothing]);
        assert_eq!([&repeated[0], &repeated[2]], [&nothing, &kept[1]]);
        // The upstream gradient of a zero output has no effect.
        let mut of_row_0 = vec![0.0; 4 * h];
        of_row_0[..h].fill(1.0);
        for (run, rows) in [(&zero, &zeroed), (&repeats, &repeated)] {
            assert_eq!([&rows[1], &rows[3]], [&kept[1], &kept[3]]);
            assert_eq!(run.h_t, state.h_t);
            let d = run.gradients(&of_row_0, &[]);
            assert!(d.values().flatten().all(|d| *d == 0.0));
        }
        assert_eq!(state.gradients(&of_row_0, &[])["h0"], [1.0; 3]);
        // Half of the new state, half of the previous state.
        let half = y(&|inputs| {
            inputs.sequence.zoneout = Some([vec![0.5; h], vec![0.0; 3 * h]].concat());
        });
        let whole = plain.forward().y;
        let expected: Vec<f64> = (0..h).map(|j| (whole[j] + h0[j]) / 2.0).collect();
        close("half", &half[..h], &expected, 1e-15).expect("half");
    }
}
