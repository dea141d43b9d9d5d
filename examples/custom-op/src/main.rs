//! A custom operator for Burn: a linear recurrence with its own kernels and its own backward pass.
//!
//! README.md explains every part. This program uses the operator: it learns decay factors from sequences.

mod autodiff;
mod backend;
mod composed;
mod flex;
mod operator;
#[cfg(test)]
mod tests;

use burn::tensor::{Device, Distribution, Tensor};

use operator::linear_recurrence;

/// The decay factors of the sequences.
const DECAYS: [f32; 3] = [0.8, 0.5, -0.3];

fn main() {
    println!("expected {DECAYS:?}, learned {:?}", learn(300));
}

/// Learns the decay factors by gradient descent.
fn learn(steps: usize) -> Vec<f32> {
    let device = Device::flex();
    let x = Tensor::<3>::random([16, 50, 3], Distribution::Normal(0.0, 1.0), &device);
    let h0 = Tensor::<2>::zeros([16, 3], &device);
    let expected = Tensor::from_floats(DECAYS, &device);
    let expected = linear_recurrence(x.clone(), expected, h0.clone());
    let mut a = Tensor::<1>::zeros([3], &device.autodiff()).require_grad();
    for _ in 0..steps {
        let states = linear_recurrence(x.clone(), a.clone(), h0.clone());
        let gradients = (states - expected.clone()).square().mean().backward();
        let d_a = a.grad(&gradients).expect("a is tracked");
        a = (a.inner() - d_a * 0.05).autodiff().require_grad();
    }
    a.into_data().iter().collect()
}
