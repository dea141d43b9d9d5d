//! The calls of a web page: both passes, a stack and a stream, on a target without a clock, threads or a source
//! of random numbers.
//!
//!     cargo build -p gru-cpu --example smoke --target wasm32-unknown-unknown
//!     node crates/gru-cpu/tests/wasm/smoke.mjs \
//!         target/wasm32-unknown-unknown/debug/examples/smoke.wasm

#[path = "../support/mod.rs"]
mod support;

use gru_cpu::{
    StackStream,
    spec::{Precision, Sizes},
};
use std::sync::Arc;
use support::Problem;

/// Both sides use float64. They differ in the order of sums of some hundred products of numbers below one, each
/// rounded to 1e-16.
const F64: f64 = 1e-12;
/// The same for a stack, which rounds to 6e-8.
const F32: f64 = 1e-5;

/// The count of numbers that agree with the oracle, or the negative count of those that do not. A panic is a trap.
#[unsafe(no_mangle)]
pub extern "C" fn agreeing() -> i32 {
    let (mut good, mut bad) = (0, 0);
    let mut compare = |got: &[f64], expected: &[f64], tolerance: f64| {
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            if (got - expected).abs() <= tolerance {
                good += 1
            } else {
                bad += 1
            }
        }
    };
    for rule in ["", "before"] {
        // A single row, a single row with much work, and a batch.
        for sizes in ["N1 T5 I3 H7", "N1 T60 I8 H130", "N33 T6 I8 H64"] {
            let problem = Problem::<f64>::of(&format!("{sizes} {rule}"));
            let expected = problem.plain(None);
            for is_lean in [false, true] {
                let got = problem.outcome(&problem.run(is_lean));
                let got = got.outputs.values().chain(got.gradients.values());
                let expected = expected.outputs.values().chain(expected.gradients.values());
                got.zip(expected)
                    .for_each(|(got, expected)| compare(got, expected, F64));
            }
            let Sizes { n, i, h, .. } = problem.gru.sizes;
            let problem = problem.cast::<f32>();
            let inputs = problem.inputs();
            let stack = problem.stack(Precision::Full);
            let wide = |v: &[f32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
            let states = problem.stack_states(&stack, problem.stack_inputs());
            compare(&wide(&states), &expected.outputs["states"], F32);
            if n == 1 {
                let mut stream = StackStream::new(Arc::new(stack), n);
                let h0 = inputs.sequence.h0.expect("it is there");
                stream.state_mut().copy_from_slice(h0);
                for (x, expected) in inputs
                    .sequence
                    .x
                    .chunks(i)
                    .zip(expected.outputs["states"].chunks(h))
                {
                    compare(&wide(stream.step(x)), expected, F32);
                }
            }
        }
    }
    if bad > 0 { -bad } else { good }
}
