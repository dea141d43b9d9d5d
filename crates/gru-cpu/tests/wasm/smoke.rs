//! The calls of a web page: both passes, packed weights and a stream, on a target without a clock, threads or a source
//! of random numbers.
//!
//!     cargo build -p gru-cpu --example smoke --target wasm32-unknown-unknown
//!     node crates/gru-cpu/tests/wasm/smoke.mjs \
//!         target/wasm32-unknown-unknown/debug/examples/smoke.wasm

#[path = "../support/mod.rs"]
mod support;

use gru_cpu::{
    PackedWeights, Sequence, Stream, Weights,
    spec::{GruSpec, Reset, Sizes},
};
use std::sync::Arc;
use support::Case;

/// Both sides use float64. They differ in the order of sums of some hundred products of numbers below one, each
/// rounded to 1e-16.
const TOLERANCE: f64 = 1e-12;

/// The count of numbers that agree with the oracle, or the negative count of those that do not. A panic is a trap.
#[unsafe(no_mangle)]
pub extern "C" fn agreeing() -> i32 {
    let (mut good, mut bad) = (0, 0);
    let mut compare = |got: &[f64], expected: &[f64]| {
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            if (got - expected).abs() <= TOLERANCE {
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
                for (got, expected) in case.run(lean).iter().zip(&expected) {
                    compare(got, expected);
                }
            }
            let inputs = case.inputs();
            let (w_ih, w_hh) = (inputs.weights.w_ih, inputs.weights.w_hh);
            let weights = PackedWeights::new(
                &spec,
                i,
                h,
                Weights {
                    b_ih: inputs.weights.b_ih,
                    b_hh: inputs.weights.b_hh,
                    ..Weights::new(w_ih, w_hh)
                },
            );
            let sequence = Sequence {
                h0: inputs.sequence.h0,
                ..Sequence::new(inputs.sequence.x)
            };
            let mut states = vec![f64::NAN; n * t * h];
            weights.forward(n, t, sequence, &mut states);
            compare(&states, &expected[0]);
            if n == 1 {
                let mut stream = Stream::new(Arc::new(weights), n);
                stream
                    .state_mut()
                    .copy_from_slice(inputs.sequence.h0.expect("it is there"));
                for (x, expected) in inputs.sequence.x.chunks(i).zip(expected[0].chunks(h)) {
                    compare(stream.step(x), expected);
                }
            }
        }
    }
    if bad > 0 { -bad } else { good }
}
