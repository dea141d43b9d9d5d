//! The checks of the operator, and of the README's excerpts.

use burn::backend::{Dispatch, DispatchTensor};
use burn::tensor::{Device, Distribution, Tensor, Tolerance};
use burn_gradcheck::{Finding, GradCheck};

use crate::backend::RecurrenceBackend;
use crate::composed::{gradients, states};
use crate::flex::CALLS;
use crate::operator::linear_recurrence;
use crate::{DECAYS, learn};

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &Device::flex())
}

/// Views: none of these is in row-major order.
fn inputs() -> (Tensor<3>, Tensor<1>, Tensor<2>) {
    let x = random([4, 3, 5]).swap_dims(0, 2).narrow(1, 1, 2);
    let a = random([4, 2]).narrow(1, 1, 1).squeeze_dim::<1>(1);
    let h0 = random([4, 5]).transpose();
    (x, a, h0)
}

fn assert_same<const D: usize>(actual: DispatchTensor, expected: DispatchTensor) {
    let [actual, expected] =
        [actual, expected].map(|raw| Tensor::<D>::from_dispatch(raw).into_data());
    // Sums of ten values with a magnitude near 1, in float32.
    actual.assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
}

#[test]
fn kernels_agree_with_the_specification() {
    let (x, a, h0) = inputs();
    let d = random([2, 5, 4]).swap_dims(0, 1).into_dispatch();
    let (x, a, h0) = (x.into_dispatch(), a.into_dispatch(), h0.into_dispatch());
    let expected = states::<Dispatch>(x.clone(), a.clone(), h0.clone());
    CALLS.set(0);
    let actual = Dispatch::recurrence(x, a.clone(), h0.clone());
    assert_eq!(CALLS.get(), 1, "the kernel of the forward pass");
    assert_same::<3>(actual, expected.clone());
    let (of_a, of_h0, of_d) = (a.clone(), h0.clone(), d.clone());
    let of_default = gradients::<Dispatch>(of_a, of_h0, expected.clone(), of_d);
    let of_kernel = Dispatch::recurrence_gradients(a, h0, expected, d);
    assert_eq!(CALLS.get(), 2, "the kernel of the backward pass");
    assert_same::<3>(of_kernel.0, of_default.0);
    assert_same::<1>(of_kernel.1, of_default.1);
    assert_same::<2>(of_kernel.2, of_default.2);
}

#[test]
fn gradients_agree_with_finite_differences() {
    let (x, a, h0) = inputs();
    GradCheck::new()
        .input("x", x.clone())
        .input("a", a.clone())
        .input("h0", h0.clone())
        .check(|at| linear_recurrence(at.get("x"), at.get("a"), at.get("h0")))
        .assert();

    // A constant must get no gradient.
    let report = GradCheck::new()
        .input("x", x)
        .constant("a", a)
        .input("h0", h0)
        .check(|at| linear_recurrence(at.get("x"), at.get("a"), at.get("h0")));
    report.assert();
    assert_eq!(report.input("a").unwrap().finding, Finding::Constant);
}

#[test]
fn empty_inputs_do_not_panic() {
    for shape in [[0, 4, 3], [2, 0, 3], [2, 4, 0]] {
        let [n, _, h] = shape;
        let y = linear_recurrence(random(shape), random([h]), random([n, h]));
        assert_eq!(y.dims(), shape);
    }
}

#[test]
fn the_program_learns_the_decay_factors() {
    for (learned, expected) in learn(300).into_iter().zip(DECAYS) {
        assert!((learned - expected).abs() < 0.01, "{learned}, {expected}");
    }
}

/// Every Rust excerpt in the README is in the source, character by character.
#[test]
fn excerpts_are_in_the_source() {
    let guide = include_str!("../README.md");
    let sources = [
        include_str!("autodiff.rs"),
        include_str!("backend.rs"),
        include_str!("flex.rs"),
        include_str!("operator.rs"),
        include_str!("tests.rs"),
    ];
    let mut count = 0;
    for rest in guide.split("```rust\n").skip(1) {
        let (excerpt, _) = rest.split_once("```").expect("a block ends");
        let found = sources.iter().any(|source| source.contains(excerpt));
        assert!(found, "expected in the source:\n{excerpt}");
        count += 1;
    }
    assert_eq!(count, 6, "excerpts in the README");
}
