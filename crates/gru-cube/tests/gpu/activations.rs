//! Every activation and its slope over the range of float32, compared with float64, within the error
//! bounds of WGSL.

use super::support::{Device, Ran, client, not_allowed, trial};
use cubecl::ir::ElemType;
use gru_cube::{Buffers, Products, Recurrence, Starts, Strategy, ZoneoutKind};
use gru_spec::{Activation, GruSpec, Inputs, Order, Sequence, Sizes, Weights};
use gru_testkit::{activations::ACTIVATIONS, oracle, runs::Stop};
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    vec![trial(
        "activations/values-and-slopes-from-end-to-end",
        values_and_slopes_from_end_to_end,
    )]
}

/// Common activations, and extreme parameters; three at a time, for the gates r, z and n. The last set is completed from
/// the first.
fn activations() -> Vec<[Activation; 3]> {
    let mut all = ACTIVATIONS.to_vec();
    all.extend([
        Activation::LeakyRelu { alpha: 0.0 },
        Activation::Elu { alpha: 0.0 },
        Activation::ThresholdedRelu { alpha: 0.0 },
    ]);
    (0..all.len())
        .step_by(3)
        .map(|k| [0, 1, 2].map(|gate| all[(k + gate) % all.len()]))
        .collect()
}

/// One hidden unit, one value of `x` per row and gate.
fn call(device: &Device<'_>, spec: GruSpec, x: &[f64]) -> Recurrence {
    let n = x.len() / 3;
    Recurrence {
        sizes: Sizes {
            n,
            t: 1,
            i: 3,
            h: 1,
        },
        spec,
        order: Order::default(),
        dtype: ElemType::Float(device.dtype),
        inputs: Inputs {
            sequence: Sequence {
                h0: Some(device.upload(&vec![1.0; n])),
                ..Sequence::new(device.upload(x))
            },
            weights: Weights::new(None, device.upload(&[0.0; 3])),
        },
        starts: Starts::None,
        zoneout: ZoneoutKind::None,
        lengths: None,
    }
}

/// The `φ` of a gate for every value, on the device.
fn values(device: &Device<'_>, spec: GruSpec, gate: usize, a: &[f64]) -> Vec<f64> {
    let row = |&a: &f64| [0, 1, 2].map(|k| if k == gate { a } else { 0.0 });
    let x: Vec<f64> = a.iter().flat_map(row).collect();
    let q = device.upload(&vec![0.0; x.len()]);
    let gates = device.poisoned(4 * a.len());
    let call = call(device, spec, &x);
    gru_cube::gates(device.client, &call, &Products::All { q }, &gates);
    let gates = device.download(&gates);
    gates.chunks(4).map(|gates| gates[gate]).collect()
}

/// The slope of a gate at every output, from a step with initial state 1 and upstream gradient 1.
fn slopes(device: &Device<'_>, spec: GruSpec, gate: usize, y: &[f64]) -> Result<Vec<f64>, Stop> {
    // Values of r, z, n and q_n for which a gradient is the slope times a known factor: dr̄ = dn̄·q_n·φr',
    // dz̄ = (1 − n)·φz' or dn̄ = (1 − z)·φn'.
    let row = |&y: &f64| match gate {
        0 => [y, 0.0, 0.5, 1.0],
        1 => [0.0, y, 0.0, 0.0],
        _ => [0.0, 0.0, y, 0.0],
    };
    let gates: Vec<f64> = y.iter().flat_map(row).collect();
    let of = |value: f64| device.upload(&vec![value; y.len()]);
    let d_gates = device.poisoned(gates.len());
    let buffers = Buffers::Backward {
        d_states: of(1.0),
        states: of(0.0),
        gates: device.upload(&gates),
        d_gates: Some(d_gates.clone()),
        d_h0: of(f64::NAN),
    };
    let schedule = "sequence rows=4 width=4 n_threads=8 k_splits=1 resident".parse();
    let strategy = Strategy::Forced(schedule.expect("a schedule"));
    let call = call(device, spec, &vec![0.0; 3 * y.len()]);
    gru_cube::run(device.client, &call, &buffers, strategy).map_err(not_allowed)?;
    let d_gates = device.download(&d_gates);
    let slope = |d: &[f64]| if gate == 0 { d[0] / d[2] } else { d[gate] };
    Ok(d_gates.chunks(4).map(slope).collect())
}

/// From −200 to 200, denser around 0, larger values, and NaN.
fn arguments() -> Vec<f64> {
    let mut positive: Vec<f64> = (1..=800).map(|k| f64::from(k) / 4.0).collect();
    positive.extend((1..=60).map(|k| 1.3 * 0.5f64.powi(k)));
    positive.extend([1e4, 1e30, f64::INFINITY]);
    let negative = positive.iter().map(|a| -a);
    let all = negative
        .chain([-0.0, 0.0, f64::NAN])
        .chain(positive.iter().copied());
    all.map(|a| f64::from(a as f32)).collect()
}

/// WGSL allows `exp(x)` an error of 3 + 2|x| ulp, a division an error of 2.5 ulp, and to flush subnormals to
/// 0. Results that are exactly 0, 1 or −1 in float32 must be exact.
fn is_close(activation: Activation, got: f64, expected: f64, a: f64) -> bool {
    use Activation::{Affine, HardSigmoid};
    let of_a_sum = matches!(activation, Affine { .. } | HardSigmoid { .. });
    let rounded = f64::from(expected as f32);
    let exponent = a.abs().min(110.0);
    let relative = (16.0 + 2.0 * exponent) * f64::from(f32::EPSILON);
    match expected {
        // A compiler may turn 0·∞ into 0.
        _ if activation == (Activation::LeakyRelu { alpha: 0.0 }) && a == f64::NEG_INFINITY => true,
        // Terms may cancel.
        _ if of_a_sum && (got - expected).abs() <= f64::from(f32::EPSILON) => true,
        _ if rounded.is_nan() => got.is_nan(),
        _ if rounded == 0.0 || rounded.abs() == 1.0 || rounded.is_infinite() => got == rounded,
        _ if rounded.abs() < 2f64.powi(-125) => (got - expected).abs() <= 2f64.powi(-125),
        _ => (got - expected).abs() <= relative * expected.abs(),
    }
}

fn values_and_slopes_from_end_to_end() -> Ran {
    let (client, a) = (client(), arguments());
    let device = Device::f32(&client);
    let mut wrong = Vec::new();
    for activations in activations() {
        let mut clips = vec![None, Some(0.7)];
        // A large clip, beyond the saturation of two of the activations.
        if activations.contains(&Activation::Relu) {
            clips.push(Some(1e4));
        }
        for clip in clips {
            let spec = GruSpec::default()
                .with_activations(activations.into())
                .with_clip_gates(clip);
            for (gate, activation) in activations.into_iter().enumerate() {
                let values = values(&device, spec, gate, &a);
                let slopes = slopes(&device, spec, gate, &values)?;
                for ((&a, y), slope) in a.iter().zip(values).zip(slopes) {
                    let at = || format!("{activation:?}, clip {clip:?}, at {a:e}");
                    let (expected, _) = oracle::gate(&activation, clip, a);
                    if !is_close(activation, y, expected, a) {
                        wrong.push(format!("{}: {y:e}, expected {expected:e}", at()));
                    }
                    let expected = if clip.is_some_and(|c| a.abs() >= c) {
                        0.0
                    } else {
                        activation.slope(y)
                    };
                    // A slope is a difference of values up to 1. Within 16 ulp of the end of a clip an
                    // output may count as clipped, and the slope of tanh is twice as far from 0.
                    let off = (slope - expected).abs();
                    let is_close = off <= 40.0 * f64::from(f32::EPSILON);
                    if !(is_close || slope.is_nan() && expected.is_nan()) {
                        wrong.push(format!("{}: slope {slope:e}, expected {expected:e}", at()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}
