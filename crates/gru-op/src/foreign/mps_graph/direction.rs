//! The directions of a call, as calls of the operator.

use super::{GruDescriptor, arguments::Arguments};
use crate::{backend::GruCall, op::sequence::optional};
use burn::{backend::Dispatch, tensor::Tensor};
use gru_spec::{Direction, Inputs, Layout, Order, Sequence};

/// A call of the operator for each direction. The arguments were checked.
pub(super) fn calls(arguments: &Arguments, descriptor: &GruDescriptor) -> Vec<GruCall<Dispatch>> {
    let order = descriptor.gate_order();
    let directions: &[Direction] = match (descriptor.bidirectional, descriptor.reverse) {
        (true, _) => &[Direction::Forward, Direction::Reverse],
        (false, false) => &[Direction::Forward],
        (false, true) => &[Direction::Reverse],
    };
    let call = |(d, &direction): (usize, &Direction)| {
        let weights = arguments.parameters.weights(order, d);
        let [h, gates] = weights.w_hh.dims();
        let x = arguments.source.clone();
        let x = match weights.w_ih {
            Some(_) => x,
            None => order.reorder(x.narrow(2, d * gates, gates), 2, 1),
        };
        let rows = |t: &Option<Tensor<2>>| optional(t.clone().map(|t| t.narrow(1, d * h, h)));
        let inputs = Inputs {
            sequence: Sequence {
                h0: rows(&arguments.init_state),
                recurrent_mask: rows(&arguments.mask),
                ..Sequence::new(x.into_dispatch())
            },
            weights: weights.into_dispatch(),
        };
        GruCall {
            order: Order {
                layout: Layout::TimeMajor,
                direction,
            },
            ..GruCall::new(inputs, descriptor.spec())
        }
    };
    directions.iter().enumerate().map(call).collect()
}
