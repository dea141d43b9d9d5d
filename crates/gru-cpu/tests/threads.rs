//! Concurrent calls from many threads, and as tasks of a pool. Each call returns the results of a single call,
//! whichever threads share its work. ThreadSanitizer also requires an instrumented standard library:
//!
//!     RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std \
//!         --target x86_64-unknown-linux-gnu -p gru-cpu --test threads --test bits --lib

use gru_cpu::{
    Gradients, Gru, Inputs, Sequence, Weights,
    spec::{GruSpec, Reset, Sizes},
};
use std::thread;

/// The number of concurrent calls.
const CALLS: usize = 8;

/// Sizes whose rows are split between threads, whose hidden units are split, and that stay on one thread.
const SIZES: [[usize; 4]; 4] = [
    [33, 6, 8, 64],
    [1, 40, 8, 130],
    [3, 20, 8, 256],
    [2, 3, 2, 5],
];

/// States and the six gradients.
type Results = [Vec<f32>; 7];

fn run(gru: &Gru) -> Results {
    let (Sizes { n, t, i, h }, spec) = (gru.sizes, gru.spec);
    let some = |len: usize, scale: f32| -> Vec<f32> {
        let value = |k: usize| scale * ((k * 2_654_435_761 % 1000) as f32 / 500.0 - 1.0);
        (0..len).map(value).collect()
    };
    let scale = 1.0 / (h as f32).sqrt();
    let (x, h0, up) = (some(n * t * i, 1.0), some(n * h, 0.5), some(n * t * h, 1.0));
    let (w_ih, w_hh) = (some(i * 3 * h, scale), some(h * 3 * h, scale));
    let (b_ih, b_hh) = (some(3 * h, scale), some(3 * h, scale));
    let inputs = Inputs {
        sequence: Sequence {
            h0: Some(&h0),
            ..Sequence::new(&x)
        },
        weights: Weights {
            b_ih: Some(&b_ih),
            b_hh: Some(&b_hh),
            ..Weights::new(Some(&w_ih), &w_hh)
        },
    };
    let nan = |len: usize| vec![f32::NAN; len];
    let mut states = nan(n * t * h);
    let mut saved = nan(n * t * h * spec.saved_per_unit());
    gru.forward(&inputs, &mut states, Some(&mut saved));
    let mut d = [&x, &h0, &w_ih, &w_hh, &b_ih, &b_hh].map(|of| nan(of.len()));
    let [x, h0, w_ih, w_hh, b_ih, b_hh] = &mut d;
    let to = Gradients {
        x: Some(x),
        h0: Some(h0),
        w_ih: Some(w_ih),
        w_hh: Some(w_hh),
        b_ih: Some(b_ih),
        b_hh: Some(b_hh),
        start_state: None,
    };
    gru.backward(&inputs, &states, Some(&saved), &up, to);
    let [x, h0, w_ih, w_hh, b_ih, b_hh] = d;
    [states, x, h0, w_ih, w_hh, b_ih, b_hh]
}

/// Equal to the bit.
fn agree(got: &Results, alone: &Results) {
    for (k, (got, alone)) in got.iter().zip(alone).enumerate() {
        assert!(got == alone, "result {k}");
    }
}

/// For all sizes and both places of the reset gate. `calls` makes concurrent calls.
fn check(calls: impl Fn(&(dyn Fn() + Sync))) {
    for [n, t, i, h] in SIZES {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            let gru = Gru::new(Sizes { n, t, i, h }, GruSpec::default().with_reset(reset));
            let alone = run(&gru);
            calls(&|| agree(&run(&gru), &alone));
        }
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "no threads")]
fn threads_of_their_own() {
    check(|call| {
        thread::scope(|scope| {
            for _ in 0..CALLS {
                scope.spawn(|| (0..5).for_each(|_| call()));
            }
        });
    });
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "no threads")]
fn tasks_of_a_pool() {
    for threads in [1, 2, 3, CALLS] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.expect("a pool");
        check(|call| {
            pool.scope(|scope| {
                for _ in 0..CALLS {
                    scope.spawn(|_| (0..5).for_each(|_| call()));
                }
            });
        });
    }
}

/// Calls from separate threads, and from tasks of the pool that also provides their helpers.
#[test]
#[cfg_attr(target_family = "wasm", ignore = "no threads")]
fn both_at_once() {
    check(|call| {
        thread::scope(|scope| {
            for _ in 0..CALLS / 2 {
                scope.spawn(|| (0..5).for_each(|_| call()));
            }
            rayon::scope(|scope| {
                for _ in 0..CALLS / 2 {
                    scope.spawn(|_| (0..5).for_each(|_| call()));
                }
            });
        });
    });
}
