//! Sizes that overflow or exceed the address space cause a panic before anything is written.

use gru_cpu::{
    Gradients, Gru, Inputs, Sequence, Weights,
    spec::{GruSpec, Sizes},
};
use gru_testkit::panics::panics;

const HALF: usize = 1 << (usize::BITS - 1);

fn refused(sizes: Sizes, states: usize) {
    let gru = Gru::new(sizes, GruSpec::default());
    let inputs = Inputs::<f64> {
        sequence: Sequence::new(&[]),
        weights: Weights::new(None, &[0.0; 3]),
    };
    let forward = || {
        let mut states = vec![0.0; states];
        gru.forward(&inputs, &mut states, None);
    };
    let says = "gru_cpu::Gru::forward: the sizes exceed the address space";
    assert_eq!(panics(forward, says), Ok(()), "{sizes:?}");
    let backward = || {
        let states = vec![0.0; states];
        let to = Gradients::default();
        gru.backward(&inputs, &states, None, &states, to);
    };
    let says = "gru_cpu::Gru::backward: the sizes exceed the address space";
    assert_eq!(panics(backward, says), Ok(()), "{sizes:?}");
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a message is a panic")]
fn products_that_wrap_around() {
    // H·3H wraps around to 3, and T·N·H to 4. Without a check these slices would be accepted.
    let (n, t, i, h) = (1, 4, 0, HALF + 1);
    refused(Sizes { n, t, i, h }, 4);
    let (n, t, i, h) = (HALF, 2, 1, 1);
    refused(Sizes { n, t, i, h }, 0);
    let (n, t, i, h) = (1, 1, HALF, 1);
    refused(Sizes { n, t, i, h }, 1);
    let (n, t, i, h) = (usize::MAX, usize::MAX, usize::MAX, usize::MAX);
    refused(Sizes { n, t, i, h }, 1);
}
