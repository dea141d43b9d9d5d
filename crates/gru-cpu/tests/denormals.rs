//! Inputs, states and gradients that are denormal make no difference to speak of, and a call leaves
//! the arithmetic of its threads as it was.

mod support;

use gru_cpu::{
    Dims,
    spec::{GruSpec, Reset},
};
use std::hint::black_box;
use support::{Case, RESULTS};

#[test]
fn results_and_callers_arithmetic() {
    let half = || black_box(1e-40f32) * black_box(0.5) > 0.0;
    let pool = (!cfg!(target_family = "wasm")).then(|| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
        pool.expect("a pool")
    });
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        let (n, t, i, h) = (33, 6, 8, 64);
        let mut case = Case::new(Dims { n, t, i, h }, spec, &["h0", "w_ih"]);
        for name in ["x", "h0", "d_states"] {
            case.tensor(name).iter_mut().for_each(|v| *v *= 1e-39);
        }
        let single = case.cast::<f32>();
        let expected = single.plain();
        for lean in [false, true] {
            let got = match &pool {
                Some(pool) => pool.install(|| single.run(lean)),
                None => single.run(lean),
            };
            for (name, (got, expected)) in RESULTS.iter().zip(got.iter().zip(&expected)) {
                for (got, expected) in got.iter().zip(expected) {
                    // Gates of nothing are one half; all else is next to nothing.
                    let close = (got - expected).abs() <= 1e-7 * expected.abs() + 1e-36;
                    assert!(
                        close,
                        "lean {lean} {spec:?}: {name}: {got}, expected {expected}"
                    );
                }
            }
        }
        assert!(half(), "the caller's denormal numbers are gone");
        let all = pool.iter().flat_map(|pool| pool.broadcast(|_| half()));
        assert!(
            all.into_iter().all(|half| half),
            "a thread's denormal numbers are gone"
        );
    }
}
