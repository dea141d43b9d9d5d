//! Sizes that overflow, or that no memory holds, are refused before anything is touched.

use gru_cpu::{
    Gradients, Gru, Inputs, Sequence, Weights,
    spec::{GruSpec, Sizes},
};
use std::panic::catch_unwind;

const HALF: usize = 1 << (usize::BITS - 1);

fn refused(sizes: Sizes, states: usize) {
    let gru = Gru::new(sizes, GruSpec::default());
    let text =
        |refusal: Box<dyn std::any::Any + Send>| *refusal.downcast::<String>().expect("text");
    let inputs = Inputs::<f64> {
        sequence: Sequence::new(&[]),
        weights: Weights::new(None, &[0.0; 3]),
    };
    let ran = catch_unwind(|| {
        let mut states = vec![0.0; states];
        gru.forward(&inputs, &mut states, None);
    });
    let refusal = text(ran.expect_err("these sizes are refused"));
    assert!(
        refusal.contains("gru_cpu::Gru::forward: no memory holds"),
        "{sizes:?}: {refusal}"
    );
    let ran = catch_unwind(|| {
        let states = vec![0.0; states];
        let to = Gradients::default();
        gru.backward(&inputs, &states, None, &states, to);
    });
    let refusal = text(ran.expect_err("these sizes are refused"));
    assert!(
        refusal.contains("gru_cpu::Gru::backward: no memory holds"),
        "{sizes:?}: {refusal}"
    );
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a refusal is a panic")]
fn products_that_wrap_around() {
    // H·3H wraps around to 3, and T·N·H to 4: without a check these slices would do.
    let (n, t, i, h) = (1, 4, 0, HALF + 1);
    refused(Sizes { n, t, i, h }, 4);
    let (n, t, i, h) = (HALF, 2, 1, 1);
    refused(Sizes { n, t, i, h }, 0);
    let (n, t, i, h) = (1, 1, HALF, 1);
    refused(Sizes { n, t, i, h }, 1);
    let (n, t, i, h) = (usize::MAX, usize::MAX, usize::MAX, usize::MAX);
    refused(Sizes { n, t, i, h }, 1);
}
