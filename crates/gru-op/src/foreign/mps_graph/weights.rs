//! The weights of a call in the terms of the operator.

use super::{GruDescriptor, RecurrentWeight, check::check_weights};
use crate::{GateOrder, GruWeights};
use burn::tensor::Tensor;

/// The weights of each direction, forward before reverse, in the form that
/// [`gru_sequence`](crate::gru_sequence) takes and, with an input weight,
/// [`GruBlockConfig::init_with`](crate::GruBlockConfig::init_with). The secondary bias is their
/// `b_hh`, `[H]`; it is ignored without `reset_after`.
///
/// # Shapes
/// Those of [`gru`](super::gru).
///
/// # Panics
/// If shapes do not fit together.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use gru_op::{Update, mps_graph::{GruDescriptor, weights}};
///
/// let (i, h, device) = (3, 4, Device::flex());
/// let recurrent = Tensor::<2>::zeros([3 * h, h], &device);
/// let input = Tensor::zeros([3 * h, i], &device);
/// let descriptor = GruDescriptor::new(Update::Keeps);
/// let weights = weights(&recurrent.into(), Some(&input), None, None, &descriptor);
/// assert_eq!(weights.len(), 1);
/// assert_eq!(weights[0].w_hh.dims(), [h, 3 * h]);
/// ```
pub fn weights(
    recurrent_weight: &RecurrentWeight,
    input_weight: Option<&Tensor<2>>,
    bias: Option<&Tensor<1>>,
    secondary_bias: Option<&Tensor<1>>,
    descriptor: &GruDescriptor,
) -> Vec<GruWeights> {
    let secondary_bias = secondary_bias.filter(|_| descriptor.reset_after);
    check_weights(
        recurrent_weight,
        input_weight,
        bias,
        secondary_bias,
        descriptor,
    );
    let order = descriptor.gate_order();
    let one = |d| {
        direction_weights(
            order,
            d,
            recurrent_weight,
            input_weight,
            bias,
            secondary_bias,
        )
    };
    (0..descriptor.directions()).map(one).collect()
}

/// The weights of direction `d`, of checked shapes.
pub(super) fn direction_weights(
    order: GateOrder,
    d: usize,
    recurrent: &RecurrentWeight,
    input: Option<&Tensor<2>>,
    bias: Option<&Tensor<1>>,
    secondary: Option<&Tensor<1>>,
) -> GruWeights {
    let r = recurrent.direction(d);
    let [gates, h] = r.dims();
    let columns = |rows: Tensor<2>| order.reorder(rows, 0, 1).transpose();
    GruWeights {
        w_ih: input.map(|w| columns(w.clone().narrow(0, d * gates, gates))),
        w_hh: columns(r),
        b_ih: bias.map(|b| order.reorder(b.clone().narrow(0, d * gates, gates), 0, 1)),
        b_hh: secondary.map(|b| b.clone().narrow(0, d * h, h)),
    }
}
