//! float32, which has kernels of its own, against float64, which has none: every output and every
//! gradient, at sizes that fill no vector and no tile, in buffers poisoned with NaN.

use gru_cpu::{
    Dims, Element, Gradients, Inputs, backward, forward,
    spec::{Direction, GruSpec, Layout, Reset, Update},
};

const NAMES: [&str; 8] = ["states", "saved", "x", "h0", "w_ih", "w_hh", "b_ih", "b_hh"];

/// States, saved gates and the six gradients.
type Outputs<E> = [Vec<E>; 8];

/// Values in (−1, 1), the same in either type: exact multiples of 2⁻¹⁶.
fn noise<E: Element>(len: usize, seed: u64) -> Vec<E> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 47) as f64 / 65536.0 - 1.0
    };
    (0..len)
        .map(|_| E::from(next()).expect("a float"))
        .collect()
}

fn run<E: Element>(dims: &Dims, spec: &GruSpec, h0: bool, biases: bool) -> Outputs<E> {
    let Dims { n, t, i, h } = *dims;
    let scale = E::from(1.0 / (h as f64).sqrt()).expect("a float");
    let weights = |len, seed| -> Vec<E> {
        noise::<E>(len, seed)
            .into_iter()
            .map(|w| w * scale)
            .collect()
    };
    let (x, initial) = (noise::<E>(n * t * i, 1), noise::<E>(n * h, 2));
    let (w_ih, w_hh) = (weights(i * 3 * h, 3), weights(h * 3 * h, 4));
    let (b_ih, b_hh) = (weights(3 * h, 5), weights(3 * h, 6));
    let inputs = Inputs {
        x: &x,
        h0: h0.then_some(&initial),
        w_ih: Some(&w_ih),
        w_hh: &w_hh,
        b_ih: biases.then_some(&b_ih),
        b_hh: biases.then_some(&b_hh),
        mask: None,
        valid: None,
    };
    let nan = |len: usize| vec![E::nan(); len];
    let mut states = nan(n * t * h);
    let mut saved = nan(n * t * h * spec.saved_per_unit());
    forward(dims, spec, &inputs, &mut states, Some(&mut saved));
    let mut inference = nan(n * t * h);
    forward(dims, spec, &inputs, &mut inference, None);
    assert!(inference == states, "inference and training differ");

    let kept = saved.clone();
    let up = noise::<E>(n * t * h, 7);
    let mut d = [x.len(), n * h, w_ih.len(), w_hh.len(), 3 * h, 3 * h].map(nan);
    let [dx, dh0, dw_ih, dw_hh, db_ih, db_hh] = &mut d;
    let to = Gradients {
        x: Some(dx),
        h0: h0.then_some(dh0.as_mut_slice()),
        w_ih: Some(dw_ih),
        w_hh: Some(dw_hh),
        b_ih: biases.then_some(db_ih.as_mut_slice()),
        b_hh: biases.then_some(db_hh.as_mut_slice()),
    };
    backward(dims, spec, &inputs, &states, &mut saved, &up, to);
    let [dx, mut dh0, dw_ih, dw_hh, mut db_ih, mut db_hh] = d;
    if !h0 {
        dh0.clear();
    }
    if !biases {
        db_ih.clear();
        db_hh.clear();
    }
    [states, kept, dx, dh0, dw_ih, dw_hh, db_ih, db_hh]
}

/// The rule of the recorded cases: `|got − expected| ≤ tol · max(1, max |expected|)`, with their
/// 2e-6 for outputs and 5e-6 for gradients.
fn compare(dims: Dims, spec: GruSpec, h0: bool, biases: bool) {
    let id = format!("{dims:?} {spec:?} h0 {h0} biases {biases}");
    let got = run::<f32>(&dims, &spec, h0, biases);
    let expected = run::<f64>(&dims, &spec, h0, biases);
    for (k, (got, expected)) in got.iter().zip(&expected).enumerate() {
        let largest = expected.iter().fold(1.0f64, |m, v| m.max(v.abs()));
        let allowed = if k < 2 { 2e-6 } else { 5e-6 } * largest;
        for (at, (&got, &expected)) in got.iter().zip(expected).enumerate() {
            let error = (f64::from(got) - expected).abs();
            assert!(
                error <= allowed,
                "{id}: {}[{at}] = {got}, expected {expected} to {allowed}",
                NAMES[k]
            );
        }
    }
}

#[test]
fn odd_sizes() {
    for h in [1, 3, 7, 15, 16, 17, 33, 49, 65] {
        for n in [1, 2, 5, 8, 13, 17] {
            compare(Dims { n, t: 4, i: 2, h }, GruSpec::default(), true, true);
        }
    }
}

#[test]
fn every_rule_layout_and_direction() {
    let dims = Dims {
        n: 11,
        t: 6,
        i: 5,
        h: 35,
    };
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        for update in [Update::Keeps, Update::Takes] {
            for layout in [Layout::BatchMajor, Layout::TimeMajor] {
                for direction in [Direction::Forward, Direction::Reverse] {
                    for (h0, biases) in [(true, true), (false, true), (true, false)] {
                        let spec = GruSpec {
                            reset,
                            update,
                            layout,
                            direction,
                            ..GruSpec::default()
                        };
                        compare(dims, spec, h0, biases);
                    }
                }
            }
        }
    }
}

#[test]
fn large_enough_for_threads() {
    for n in [2, 9, 33] {
        let dims = Dims {
            n,
            t: 12,
            i: 20,
            h: 129,
        };
        compare(dims, GruSpec::default(), true, true);
    }
}

#[test]
fn long_sequences() {
    let dims = Dims {
        n: 2,
        t: 700,
        i: 3,
        h: 20,
    };
    compare(dims, GruSpec::default(), true, true);
}
