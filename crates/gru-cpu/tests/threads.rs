//! Concurrent calls from many threads, and as tasks of a pool. Each call returns the results of a single call,
//! whichever threads share its work. ThreadSanitizer also requires an instrumented standard library:
//!
//!     RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std \
//!         --target x86_64-unknown-linux-gnu -p gru-cpu --test threads --test bits --lib

mod support;

use std::{cell::RefCell, thread};
use support::Problem;

/// The number of concurrent calls.
const CALLS: usize = 8;

/// Sizes whose rows are split between threads, whose hidden units are split, and that stay on one thread.
const SIZES: [&str; 4] = [
    "N33 T6 I8 H64",
    "N1 T40 I8 H130",
    "N3 T20 I8 H256",
    "N2 T3 I2 H5",
];

/// For all sizes and both places of the reset gate. `calls` makes concurrent calls.
fn check(calls: impl Fn(&(dyn Fn() + Sync))) {
    for sizes in SIZES {
        for rule in ["", "before"] {
            let problem = Problem::<f32>::of(&format!("{sizes} {rule}"));
            let alone = problem.run(false).bits();
            calls(&|| assert!(problem.run(false).bits() == alone, "{:?}", problem.gru));
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

/// A call in the destructor of a thread-local, when the thread-locals of this crate are gone. A panic there aborts.
#[test]
#[cfg_attr(target_family = "wasm", ignore = "no threads")]
fn a_thread_that_ends() {
    struct Last(Problem<f32>);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.run(false);
        }
    }
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });
    for sizes in SIZES {
        let thread = thread::spawn(move || {
            let problem = || Problem::<f32>::of(sizes);
            // Destructors run in the order of the first use.
            LAST.set(Some(Last(problem())));
            problem().run(false);
        });
        thread.join().expect("the call returns");
    }
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
