//! The specification: both passes made of Burn's own primitives, for any backend.
//!
//! [`gru_sequence`] here is differentiated by Burn's autodiff step by step. It is slow (dozens of
//! small operations per step) and there to compare with; it is also what the kernels stand for.
//! The crate's root writes out the equations.
//!
//! # NaN and infinities
//!
//! They go where IEEE 754 sends them, in the hand-written gradients as in the states: a NaN
//! pre-activation makes a NaN gate and a NaN slope for every activation, clips hand NaN on, and a loss
//! shows it. What stands at a skipped step reaches nothing. Of Burn's operations this asks that clamp,
//! ReLU and `is_nan` know NaN, as those of its backends do; what a GPU's language promises beyond that
//! is written in `gru-cube`.

use crate::{GruWeights, SequenceOptions, backend::composed, op::sequence};
use burn::{backend::Dispatch, tensor::Tensor};
use gru_spec::GruSpec;

/// [`gru_sequence`](crate::gru_sequence) without kernels and without the hand-written backward:
/// same arguments, same results, same panics.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use gru_op::{GruSpec, GruWeights, composed, gru_sequence};
///
/// let (n, t, i, h, device) = (2, 5, 3, 4, Device::flex());
/// let x = Tensor::<3>::random([n, t, i], Distribution::Default, &device);
/// let draw = |rows| Tensor::random([rows, 3 * h], Distribution::Default, &device);
/// let (weights, spec) = (GruWeights::new(draw(i), draw(h)), GruSpec::default());
/// let (kernels, _) = gru_sequence(x.clone(), None, &weights, &spec);
/// let (composed, _) = composed::gru_sequence(x, None, &weights, &spec);
/// assert!((kernels - composed).abs().max().into_scalar::<f32>() < 1e-5);
/// ```
pub fn gru_sequence(
    x: Tensor<3>,
    h0: Option<Tensor<2>>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> (Tensor<3>, Tensor<2>) {
    let options = SequenceOptions::new().state(h0);
    gru_sequence_with(x, weights, spec, options)
}

/// [`gru_sequence_with`](crate::gru_sequence_with) without kernels and without the hand-written
/// backward: same arguments, same results, same panics.
pub fn gru_sequence_with(
    x: Tensor<3>,
    weights: &GruWeights,
    spec: &GruSpec,
    options: SequenceOptions<2>,
) -> (Tensor<3>, Tensor<2>) {
    let op = "composed::gru_sequence";
    let run = composed::states::<Dispatch>;
    sequence::sequence_by(op.into(), x, options, weights, spec, run)
}
