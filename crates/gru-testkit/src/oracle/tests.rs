//! Compares the tape with finite differences of its own forward pass, and tests non-finite values.

use gru_spec::{Direction, GruSpec, Layout, Order};

use super::*;
use crate::{
    activations::ACTIVATIONS,
    close::{Tolerance, close},
    draw::KINK_MARGIN,
    problem::{self, Biases},
};

/// Step of the differences: a power of two, so that a float32 input plus a few steps is exact.
///
/// The formula of fourth order has a truncation error of `STEP⁴/30 · f⁽⁵⁾` ≈ 3e-14 f⁽⁵⁾ and a rounding
/// error of about `1.5 · ε·|loss| / STEP` ≈ 1e-12. They are balanced near 2⁻¹⁰.
const STEP: f64 = 1.0 / 1024.0;

fn tensor<'a>(call: &'a mut Call, name: &str) -> &'a mut Vec<f64> {
    let tensor = match name {
        "x" => Some(&mut call.x),
        "h0" => call.h0.as_mut(),
        "w_ih" => call.w_ih.as_mut(),
        "w_hh" => Some(&mut call.w_hh),
        "b_ih" => call.b_ih.as_mut(),
        "b_hh" => call.b_hh.as_mut(),
        "start_state" => call.start_state.as_mut(),
        _ => None,
    };
    tensor.expect("the call has this tensor")
}

/// The gradient of the loss by every input, from central differences of fourth order.
fn differences(call: &Call, d_y: &[f64], d_h_t: &[f64]) -> Tensors {
    let pieces = call.forward().kinks.pieces;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut gradients = Tensors::new();
    for (name, values) in call.differentiable() {
        let mut moved = call.clone();
        let difference = |(index, start): (usize, &f64)| {
            let mut at = |steps: f64| {
                tensor(&mut moved, name)[index] = start + steps * STEP;
                let run = moved.forward();
                assert_eq!(run.kinks.pieces, pieces, "{name}[{index}] crosses a kink");
                dot(&run.y, d_y) + dot(&run.h_t, d_h_t)
            };
            let (near, far) = (at(1.0) - at(-1.0), at(2.0) - at(-2.0));
            tensor(&mut moved, name)[index] = *start;
            (8.0 * near - far) / (12.0 * STEP)
        };
        let gradient = values.iter().enumerate().map(difference).collect();
        gradients.insert(name.into(), gradient);
    }
    gradients
}

/// Compares the gradients of a call with differences.
fn check(id: &str, call: &Call, d_y: &[f64], d_h_t: &[f64]) {
    let forward = call.forward();
    let outcome = |gradients| Outcome {
        outputs: Tensors::from([("y".into(), forward.y.clone())]),
        gradients,
    };
    let got = outcome(forward.gradients(d_y, d_h_t));
    let expected = outcome(differences(call, d_y, d_h_t));
    if let Err(message) = got.compare(&expected, Tolerance::F64_DIFFERENCES) {
        panic!("{id}: {message}");
    }
}

#[test]
fn gradients_of_the_catalogue_match_differences() {
    for problem in problem::catalogue() {
        let inputs = Inputs::random(&problem);
        let call = Call::of(&problem, &inputs);
        check(&problem.id(), &call, &inputs.d_y, &inputs.d_h_t);
    }
}

/// Options of a call that a [`Problem`] does not have.
#[derive(Debug, Clone, Copy)]
struct Extras {
    skips: bool,
    mask: bool,
    /// None, one value for each step, or one value for each unit.
    zoneout: usize,
    /// An already projected sequence, and a recurrent bias for only the candidate.
    projected: bool,
    /// None, starts with zeros, or with a state.
    starts: usize,
}

fn with_extras(mut call: Call, extras: Extras) -> Call {
    let Call { n, t, h, .. } = call;
    let pattern = |len: usize, values: &[f64]| -> Vec<f64> {
        (0..len).map(|k| values[k * k % values.len()]).collect()
    };
    // For example row 0 of [1, 1, 0] and row 1 of [1, 1, 1, 0, 1], in either layout.
    call.step_mask = extras
        .skips
        .then(|| pattern(n * t, &[1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0]));
    call.recurrent_mask = extras.mask.then(|| pattern(n * h, &[1.25, 0.0, 0.75]));
    let shares = [0.25, 1.0, 0.0, 0.625, 0.875];
    call.zoneout = match extras.zoneout {
        0 => None,
        1 => Some(pattern(n * t, &shares)),
        _ => Some(pattern(n * t * h, &shares)),
    };
    if extras.projected {
        call.w_ih = None;
    }
    // At the first and the last time, and twice in a row.
    let flags = [0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0];
    call.starts = (extras.starts > 0).then(|| flags.repeat(n * t)[..n * t].to_vec());
    call.start_state = (extras.starts == 2).then(|| pattern(n * h, &[0.25, -0.5, 0.125]));
    call
}

#[test]
fn gradients_of_options_match_differences() {
    let mut count = 0;
    for bits in 0..128 {
        let bit = |k: usize| bits >> k & 1 == 1;
        let mut spec = GruSpec::default().with_clip_state(bit(3).then_some(0.375));
        if bit(0) {
            spec.reset = Reset::BeforeMatmul;
        }
        if bit(1) {
            spec.update = Update::Takes;
        }
        let order = if bit(2) {
            Order {
                layout: Layout::TimeMajor,
                direction: Direction::Reverse,
            }
        } else {
            Order::default()
        };
        for zoneout in 0..3 {
            let extras = Extras {
                skips: bit(4),
                mask: bit(5),
                zoneout,
                projected: bit(6),
                starts: (bits + zoneout) % 3,
            };
            let (n, t, h) = (2, 4, 3);
            let features = if extras.projected { 3 * h } else { 2 };
            let problem = Problem::new(n, t, features, h)
                .with_spec(spec)
                .with_order(order);
            let draw = |attempt| {
                let inputs = Inputs::draw(&problem, attempt);
                (with_extras(Call::of(&problem, &inputs), extras), inputs)
            };
            let (call, inputs) = (0..1000)
                .map(draw)
                .find(|(call, _)| call.forward().kink_distance() > KINK_MARGIN)
                .expect("a draw away from the clips");
            let id = format!("{} {extras:?}", problem.id());
            check(&id, &call, &inputs.d_y, &inputs.d_h_t);
            count += 1;
        }
    }
    assert_eq!(count, 384);
}

/// A clip that no value reaches would test nothing, except that it is no clip.
#[test]
fn every_clip_of_the_catalogue_shows() {
    let is_finite = |problem: &Problem| problem.spec.clip_gates.is_none_or(|clip| clip < 1e38);
    for problem in problem::catalogue().into_iter().filter(is_finite) {
        let inputs = Inputs::random(&problem);
        let clipped = forward(&problem, &inputs).y;
        let spec = problem.spec;
        for without in [spec.with_clip_gates(None), spec.with_clip_state(None)] {
            let free = forward(&problem.with_spec(without), &inputs).y;
            let differs = clipped.iter().zip(&free).any(|(a, b)| (a - b).abs() > 1e-2);
            assert_eq!(differs, without != spec, "{}", problem.id());
        }
    }
}

#[test]
fn an_infinite_clip_is_none() {
    for (k, activation) in ACTIVATIONS.into_iter().enumerate() {
        for a in [-3.0, -0.5, 0.0, 0.5, 3.0, f64::INFINITY, f64::NEG_INFINITY] {
            let bits = |(value, slope): (f64, f64)| [value.to_bits(), slope.to_bits()];
            let (with, without) = (
                gate(&activation, Some(f64::INFINITY), a),
                gate(&activation, None, a),
            );
            assert_eq!(bits(with), bits(without), "{activation:?} at {a}");
        }
        let problem = Problem::new(1, 3, 2, 4 + k % 2);
        let inputs = Inputs::random(&problem);
        let spec = problem.spec.with_clip_state(Some(f64::INFINITY));
        let clipped = outcome(&problem.with_spec(spec), &inputs);
        assert_eq!(clipped, outcome(&problem, &inputs));
    }
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
    let problem = Problem::new(1, 2, 1, 1).with_biases(Biases::InputOnly);
    let mut inputs = Inputs::random(&problem);
    inputs.b_ih = Some(vec![0.0, f64::INFINITY, f64::NAN]);
    let Outcome { outputs, gradients } = outcome(&problem, &inputs);
    assert!(outputs["y"].iter().all(|y| y.is_nan()));
    assert!(gradients.values().flatten().all(|d| d.is_nan()));
}

/// An infinite gradient of the blend has the sign of `h − n`. The form ∞ · h − ∞ · n would give NaN.
#[test]
fn an_infinite_gradient_keeps_its_sign() {
    let problem = Problem::new(1, 1, 1, 3).with_biases(Biases::InputOnly);
    let mut inputs = Inputs::random(&problem);
    inputs.d_y.fill(f64::INFINITY);
    let run = forward(&problem, &inputs);
    let d = run.gradients(&inputs.d_y, &[]);
    let h0 = inputs
        .h0
        .as_ref()
        .expect("the problem has an initial state");
    for j in 0..3 {
        let towards = h0[j] - run.gates[2][j];
        assert_eq!(d["b_ih"][3 + j], f64::INFINITY.copysign(towards));
        assert_eq!(d["b_ih"][6 + j], f64::INFINITY);
    }
}

#[test]
fn skipped_steps_have_no_effect() {
    let problem = Problem::new(2, 3, 2, 4);
    let inputs = Inputs::random(&problem);
    let mut call = Call::of(&problem, &inputs);
    call.step_mask = Some(vec![1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    let clean = call.forward();
    for row in [1, 3, 4, 5] {
        call.x[row * 2..][..2].fill(f64::NAN);
    }
    // Row 1 has no valid step, so even a non-finite weight does not affect it.
    let padded = call.forward();
    assert_eq!(padded.y, clean.y);
    let d = padded.gradients(&inputs.d_y, &inputs.d_h_t);
    assert_eq!(d, clean.gradients(&inputs.d_y, &inputs.d_h_t));
    for row in [1, 3, 4, 5] {
        assert_eq!(d["x"][row * 2..][..2], [0.0; 2]);
        assert!(padded.gates[0][row * 4..][..4].iter().all(|r| r.is_nan()));
    }
    call.w_hh.fill(f64::NAN);
    let run = call.forward();
    let h0 = &inputs
        .h0
        .as_ref()
        .expect("the problem has an initial state")[4..];
    assert_eq!(run.y[12..], [h0, h0, h0].concat());
    let d = run.gradients(&inputs.d_y, &inputs.d_h_t);
    assert!(d["h0"][..4].iter().all(|d| d.is_nan()));
    assert!(d["h0"][4..].iter().all(|d| d.is_finite()));
}

/// Each option, compared with an equivalent call without it.
#[test]
fn options_equal_calls_without_them() {
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let (n, t, i, h) = (1, 4, 2, 3);
        let problem = Problem::new(n, t, i, h).with_spec(GruSpec::default().with_reset(reset));
        let inputs = Inputs::random(&problem);
        let plain = Call::of(&problem, &inputs);
        let step_mask = Some(vec![1.0, 0.0, 1.0, 1.0]);
        let mask = vec![1.25, 0.0, 0.5];
        let scaled_rows = plain.w_hh.chunks(3 * h).zip(&mask);
        let scaled_rows = scaled_rows.flat_map(|(row, m)| row.iter().map(move |w| m * w));
        // 1 on the diagonal of the first rows.
        let identity: Vec<f64> = (0..9 * h * h)
            .map(|k| f64::from(u8::from(k % (3 * h + 1) == 0)))
            .collect();
        let projected = Call {
            x: inputs.d_y.repeat(3),
            w_ih: None,
            ..plain.clone()
        };
        let pairs = [
            (
                "zoneout of each step",
                Call {
                    zoneout: Some(vec![0.0, 1.0, 0.0, 0.0]),
                    ..plain.clone()
                },
                Call {
                    step_mask,
                    ..plain.clone()
                },
            ),
            (
                "mask",
                Call {
                    recurrent_mask: Some(mask.clone()),
                    ..plain.clone()
                },
                Call {
                    w_hh: scaled_rows.collect(),
                    ..plain.clone()
                },
            ),
            (
                "no input weight",
                projected.clone(),
                Call {
                    w_ih: Some(identity),
                    ..projected
                },
            ),
        ];
        for (name, with, without) in pairs {
            let (with, without) = (with.forward().y, without.forward().y);
            close(name, &with, &without, 1e-15).expect(name);
        }
        // Rows 0 and 2 are skipped: `y` is the state, zero, or the previous output.
        let skips = |skipped| Call {
            step_mask: Some(vec![0.0, 1.0, 0.0, 1.0]),
            skipped,
            ..plain.clone()
        };
        let runs = [Skipped::State, Skipped::Zero, Skipped::Repeats];
        let [state, zero, repeats] = runs.map(|skipped| skips(skipped).forward());
        let rows = |run: &Forward| run.y.chunks(h).map(<[f64]>::to_vec).collect::<Vec<_>>();
        let [kept, zeroed, repeated] = [&state, &zero, &repeats].map(rows);
        let h0 = inputs.h0.clone().expect("the problem has an initial state");
        let nothing = vec![0.0; h];
        assert_eq!([&kept[0], &kept[2]], [&h0, &kept[1]]);
        assert_eq!([&zeroed[0], &zeroed[2]], [&nothing, &nothing]);
        assert_eq!([&repeated[0], &repeated[2]], [&nothing, &kept[1]]);
        for (run, rows) in [(&zero, &zeroed), (&repeats, &repeated)] {
            assert_eq!([&rows[1], &rows[3]], [&kept[1], &kept[3]]);
            assert_eq!(run.h_t, state.h_t);
        }
        // The upstream gradient of a zero output has no effect.
        let mut of_row_0 = vec![0.0; t * h];
        of_row_0[..h].fill(1.0);
        for run in [&zero, &repeats] {
            let d = run.gradients(&of_row_0, &[]);
            assert!(d.values().flatten().all(|d| *d == 0.0));
        }
        assert_eq!(state.gradients(&of_row_0, &[])["h0"], [1.0; 3]);
        // Half of the new state, half of the previous state.
        let of_units = Call {
            zoneout: Some([vec![0.5; h], vec![0.0; (t - 1) * h]].concat()),
            ..plain.clone()
        };
        let h0 = inputs
            .h0
            .as_ref()
            .expect("the problem has an initial state");
        let whole = plain.forward().y;
        let expected: Vec<f64> = (0..h).map(|j| (whole[j] + h0[j]) / 2.0).collect();
        close("half", &of_units.forward().y[..h], &expected, 1e-15).expect("half");
    }
}
