//! Equal calls return equal bits, whatever the number of threads, and whichever helpers join in time.

mod support;

use gru_cpu::{
    Gru,
    spec::{Activation, Activations, Direction, GruSpec, Order, Reset, Sizes},
};
use support::{Case, RESULTS};

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
    // Split rows, split units, both; rows, units and inputs that do not fill a tile or a vector.
    let sizes = [
        (33, 9, 8, 64),
        (13, 21, 5, 130),
        (7, 60, 17, 96),
        (1, 90, 8, 256),
        (50, 3, 33, 90),
    ];
    for (n, t, i, h) in sizes {
        for (spec, order) in specs {
            let present = ["h0", "w_ih", "b_ih", "b_hh", "recurrent_mask"];
            let sizes = Sizes { n, t, i, h };
            let case = Case::of(Gru { sizes, order, spec }, &present).cast::<f32>();
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                pool.expect("a pool")
                    .install(|| [case.run(false), case.run(true)])
            };
            let expected = run(1);
            for threads in [2, 3, 3, 5, 8] {
                let got = run(threads);
                for (got, expected) in got.iter().zip(&expected) {
                    for (name, (got, expected)) in RESULTS.iter().zip(got.iter().zip(expected)) {
                        let same = got
                            .iter()
                            .zip(expected)
                            .all(|(a, b)| a.to_bits() == b.to_bits());
                        assert!(
                            same,
                            "{threads} threads, {:?} {spec:?}: {name}",
                            case.gru.sizes
                        );
                    }
                }
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
        case.tensor("x").fill(0.3);
        case.tensor("d_states").fill(0.7);
        let [_, _, d_x, .., d_b_ih, _] = case.run(false);
        for (unit, &got) in d_b_ih.iter().enumerate() {
            let of_unit = d_x.iter().skip(unit).step_by(3 * h);
            let expected: f64 = of_unit.map(|&d| f64::from(d)).sum();
            let error = (f64::from(got) - expected).abs() / expected.abs();
            assert!(
                error <= 2.0 * f64::from(f32::EPSILON),
                "d_b_ih[{unit}] = {got}, the sum is {expected}"
            );
        }
    }
}
