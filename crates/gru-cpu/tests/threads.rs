//! Concurrent calls from many threads, and as tasks of a pool. Each call returns the results of a single call,
//! whichever threads share its work. ThreadSanitizer also requires an instrumented standard library:
//!
//!     RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std \
//!         --target x86_64-unknown-linux-gnu -p gru-cpu --test threads --test bits --lib

mod support;

use gru_cpu::spec::{GruSpec, Reset, Sizes};
use std::thread;
use support::{Case, RESULTS};

/// The number of concurrent calls.
const CALLS: usize = 8;

/// Sizes whose rows are split between threads, whose hidden units are split, and that stay on one thread.
const SIZES: [[usize; 4]; 4] = [
    [33, 6, 8, 64],
    [1, 40, 8, 130],
    [3, 20, 8, 256],
    [2, 3, 2, 5],
];

/// For all sizes and both places of the reset gate. `calls` makes concurrent calls.
fn check(calls: impl Fn(&(dyn Fn() + Sync))) {
    for [n, t, i, h] in SIZES {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            let (sizes, spec) = (Sizes { n, t, i, h }, GruSpec::default().with_reset(reset));
            let case = Case::new(sizes, spec, &["h0", "w_ih", "b_ih", "b_hh"]).cast::<f32>();
            let alone = case.run(false);
            calls(&|| {
                let got = case.run(false);
                for name in RESULTS {
                    assert!(got[name] == alone[name], "{name} of {:?}", case.gru);
                }
            });
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
