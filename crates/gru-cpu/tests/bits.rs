//! Equal calls return equal bits, whatever the number of threads, and whichever helpers join in time.

mod support;

use gru_cpu::{
    Gru,
    spec::{Activation, Activations, Direction, GruSpec, Order, Reset, Sizes},
};
use support::{Case, RESULTS, agree_in_kind};

/// One thread agrees with the float64 oracle, within the tolerances of `kernels`. More threads return its bits.
fn check(case: &Case<f64>) {
    let (single, plain) = (case.cast::<f32>(), case.plain());
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("a pool")
            .install(|| [false, true].map(|lean| single.run(lean)))
    };
    let expected = run(1);
    for one in &expected {
        agree_in_kind(&format!("{:?}", case.gru), [2e-6, 5e-6], one, &plain);
    }
    for threads in [2, 3, 3, 5, 8] {
        for (got, expected) in run(threads).iter().zip(&expected) {
            for name in RESULTS {
                assert_eq!(got[name].len(), expected[name].len());
                let mut pairs = got[name].iter().zip(&expected[name]);
                let are_equal =
                    pairs.all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan());
                assert!(are_equal, "{threads} threads, {:?}: {name}", case.gru);
            }
        }
    }
}

const PRESENT: [&str; 5] = ["h0", "w_ih", "b_ih", "b_hh", "recurrent_mask"];

#[test]
#[cfg_attr(target_family = "wasm", ignore = "no threads")]
fn any_number_of_threads_any_number_of_times() {
    let usual = GruSpec::default();
    let reverse = Order {
        direction: Direction::Reverse,
        ..Order::default()
    };
    let specs = [
        (usual, Order::default()),
        (usual.with_reset(Reset::BeforeMatmul), reverse),
        (
            usual.with_activations(Activations {
                reset: Activation::Softsign,
                ..Default::default()
            }),
            Order::default(),
        ),
    ];
    // Split rows, split units, both, only a split input product; sizes that do not fill a tile or a vector.
    let sizes = [
        (33, 9, 8, 64),
        (13, 21, 5, 130),
        (7, 60, 17, 96),
        (1, 90, 8, 256),
        (50, 3, 33, 90),
        (3, 9, 8, 300),
        (1, 70, 300, 40),
        (17, 5, 8, 530),
    ];
    for (n, t, i, h) in sizes {
        for (spec, order) in specs {
            let sizes = Sizes { n, t, i, h };
            check(&Case::of(Gru { sizes, order, spec }, &PRESENT));
        }
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "no threads")]
fn also_with_nan() {
    for (n, t, h) in [(33, 6, 64), (1, 40, 130)] {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            let spec = GruSpec::default().with_reset(reset);
            for name in ["x", "w_hh"] {
                let mut case = Case::new(Sizes { n, t, i: 8, h }, spec, &PRESENT);
                let middle = case.tensor(name).len() / 2;
                case.tensor(name)[middle] = f64::NAN;
                check(&case);
            }
        }
    }
}

/// The accuracy of a bias gradient does not depend on the length of the sequence.
#[test]
fn long_sums() {
    let (n, t, i, h) = (8, 4096, 1, 4);
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        // The input is projected, so the bias gradient is the sum of the input gradient.
        let mut case = Case::new(Sizes { n, t, i, h }, spec, &["b_ih"]).cast::<f32>();
        for (row, x) in case.tensor("x").chunks_exact_mut(t * 3 * h).enumerate() {
            x.fill(0.3 + 0.05 * row as f32);
        }
        case.tensor("d_states").fill(0.7);
        let got = case.run(false);
        assert_eq!(got["d_b_ih"].len(), 3 * h);
        for (unit, &got_unit) in got["d_b_ih"].iter().enumerate() {
            let of_unit = got["d_x"].iter().skip(unit).step_by(3 * h);
            let expected: f64 = of_unit.map(|&d| f64::from(d)).sum();
            let error = (f64::from(got_unit) - expected).abs() / expected.abs();
            assert!(
                error <= 2.0 * f64::from(f32::EPSILON),
                "d_b_ih[{unit}] = {got_unit}, the sum is {expected}"
            );
        }
    }
}
