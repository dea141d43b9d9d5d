//! The operator without kernels, for comparison: forward in Burn's operations, on any backend.
//!
//! It has no backward pass of its own. Burn's autodiff differentiates it step by step. It is slow, with dozens of
//! operations per step. The kernels compute the same. The [front page](crate) lists the equations.
//!
//! # NaN and infinities
//!
//! They propagate as IEEE 754 defines. A NaN pre-activation makes the gate and its slope NaN for every activation,
//! and a clip keeps NaN. Skipped steps are ignored. This requires that clamp, ReLU and `is_nan` of the backend handle
//! NaN. Burn's backends do. The front page of `gru-cube` lists what each GPU language guarantees.

use crate::{
    backend::{composed, padded},
    op::{
        check::OpNames,
        options::{GruWeights, SequenceOptions},
        sequence::Operation,
    },
};
use burn::{backend::Dispatch, tensor::Tensor};
use gru_spec::GruSpec;

/// [`gru_sequence_with`](crate::gru_sequence_with) without kernels and without the hand-written backward.
/// Arguments, results and panics are the same.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use gru_op::{GruSpec, GruWeights, SequenceOptions, composed, gru_sequence};
///
/// let (n, t, i, h, device) = (2, 5, 3, 4, Device::flex());
/// let x = Tensor::<3>::random([n, t, i], Distribution::Default, &device);
/// let draw = |rows| Tensor::random([rows, 3 * h], Distribution::Default, &device);
/// let (weights, spec) = (GruWeights::new(draw(i), draw(h)), GruSpec::default());
/// let (kernels, _) = gru_sequence(x.clone(), None, &weights, &spec);
/// let (composed, _) = composed::gru_sequence_with(x, &weights, &spec, SequenceOptions::new());
/// assert!((kernels - composed).abs().max().into_scalar::<f32>() < 1e-5);
/// ```
pub fn gru_sequence_with(
    x: Tensor<3>,
    weights: &GruWeights,
    spec: &GruSpec,
    options: SequenceOptions<2>,
) -> (Tensor<3>, Tensor<2>) {
    let operation = Operation::new(
        OpNames::new("composed::gru_sequence_with"),
        weights,
        spec,
        options,
    );
    operation.run(x, |call| {
        padded::forward(call, |call| composed::forward::<Dispatch>(call, false)).states
    })
}
