//! Sizes that overflow, or that no memory holds, are refused before anything is touched.

use gru_cpu::{Dims, Gradients, Inputs, Sequence, Weights, backward, forward, spec::GruSpec};
use std::panic::catch_unwind;

const HALF: usize = 1 << (usize::BITS - 1);

fn refused(dims: Dims, states: usize) {
    let text =
        |refusal: Box<dyn std::any::Any + Send>| *refusal.downcast::<String>().expect("text");
    let inputs = Inputs::<f64> {
        sequence: Sequence::new(&[]),
        weights: Weights::new(None, &[0.0; 3]),
    };
    let ran = catch_unwind(|| {
        let mut states = vec![0.0; states];
        forward(&dims, &GruSpec::default(), &inputs, &mut states, None);
    });
    let refusal = text(ran.expect_err("these sizes are refused"));
    assert!(
        refusal.contains("gru_cpu::forward: no memory holds"),
        "{dims:?}: {refusal}"
    );
    let ran = catch_unwind(|| {
        let states = vec![0.0; states];
        let to = Gradients::none();
        backward(
            &dims,
            &GruSpec::default(),
            &inputs,
            &states,
            None,
            &states,
            to,
        );
    });
    let refusal = text(ran.expect_err("these sizes are refused"));
    assert!(
        refusal.contains("gru_cpu::backward: no memory holds"),
        "{dims:?}: {refusal}"
    );
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a refusal is a panic")]
fn products_that_wrap_around() {
    // H·3H wraps around to 3, and T·N·H to 4: without a check these slices would do.
    let (n, t, i, h) = (1, 4, 0, HALF + 1);
    refused(Dims { n, t, i, h }, 4);
    let (n, t, i, h) = (HALF, 2, 1, 1);
    refused(Dims { n, t, i, h }, 0);
    let (n, t, i, h) = (1, 1, HALF, 1);
    refused(Dims { n, t, i, h }, 1);
    let (n, t, i, h) = (usize::MAX, usize::MAX, usize::MAX, usize::MAX);
    refused(Dims { n, t, i, h }, 1);
}
