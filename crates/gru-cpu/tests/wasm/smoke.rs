//! The calls of a web page: both passes, a stack and a stream, on a target without a clock, threads or a source
//! of random numbers.
//!
//!     cargo build -p gru-cpu --example smoke --target wasm32-unknown-unknown
//!     node crates/gru-cpu/tests/wasm/smoke.mjs \
//!         target/wasm32-unknown-unknown/debug/examples/smoke.wasm

#[path = "../support/mod.rs"]
mod support;

use gru_cpu::{
    Stack, StackInputs, StackLayer, StackStream,
    spec::{GruSpec, Layout, Precision, Reset, Sizes},
};
use std::sync::Arc;
use support::Case;

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
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        // A single row, a single row with much work, and a batch.
        for (n, t, i, h) in [(1, 5, 3, 7), (1, 60, 8, 130), (33, 6, 8, 64)] {
            let spec = GruSpec::default().with_reset(reset);
            let present = ["h0", "w_ih", "b_ih", "b_hh"];
            let case = Case::new(Sizes { n, t, i, h }, spec, &present);
            let expected = case.plain();
            for lean in [false, true] {
                for (got, expected) in case.run(lean).0.iter().zip(&expected.0) {
                    compare(got, expected, F64);
                }
            }
            let case = case.cast::<f32>();
            let inputs = case.inputs();
            let layer = StackLayer {
                spec,
                ..StackLayer::new(inputs.weights)
            };
            let stack = Stack::new(Precision::Full, [i, h], 1, &[layer]);
            let sequence = StackInputs {
                state: inputs.sequence.h0,
                ..StackInputs::new(inputs.sequence.x)
            };
            let wide = |v: &[f32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
            let (mut states, mut last) = (vec![f32::NAN; n * t * h], vec![f32::NAN; n * h]);
            stack.forward(Layout::BatchMajor, [n, t], sequence, &mut states, &mut last);
            compare(&wide(&states), &expected["states"], F32);
            if n == 1 {
                let mut stream = StackStream::new(Arc::new(stack), n);
                let h0 = inputs.sequence.h0.expect("it is there");
                stream.state_mut().copy_from_slice(h0);
                for (x, expected) in inputs
                    .sequence
                    .x
                    .chunks(i)
                    .zip(expected["states"].chunks(h))
                {
                    compare(&wide(stream.step(x)), expected, F32);
                }
            }
        }
    }
    if bad > 0 { -bad } else { good }
}
