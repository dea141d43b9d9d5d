//! One direction of a call, as a call of the operator.

use super::{GruDescriptor, arguments::Arguments};
use crate::{backend::GruCall, op::options::GruWeights, op::sequence::optional};
use burn::{backend::Dispatch, tensor::Tensor};
use gru_spec::{Direction, GruSpec, Inputs, Layout, Order, Sequence, Weights};

/// One direction of a call.
pub(super) struct OneDirection {
    pub(super) h: usize,
    x: Tensor<3>,
    h0: Option<Tensor<2>>,
    recurrent_mask: Option<Tensor<2>>,
    weights: GruWeights,
    spec: GruSpec,
    pub(super) direction: Direction,
}

impl OneDirection {
    pub(super) fn call(&self) -> GruCall<Dispatch> {
        let w = self.weights.clone();
        let inputs = Inputs {
            sequence: Sequence {
                h0: optional(self.h0.clone()),
                recurrent_mask: optional(self.recurrent_mask.clone()),
                ..Sequence::new(self.x.clone().into_dispatch())
            },
            weights: Weights {
                b_ih: optional(w.b_ih),
                b_hh: optional(w.b_hh),
                ..Weights::new(optional(w.w_ih), w.w_hh.into_dispatch())
            },
        };
        GruCall {
            order: Order {
                layout: Layout::TimeMajor,
                direction: self.direction,
            },
            ..GruCall::new(inputs, self.spec)
        }
    }

    /// The recurrent product of the candidate before its reset, `[T,N,H]`. The z state does not contain it.
    pub(super) fn q_n(&self, states: &Tensor<3>) -> Tensor<3> {
        let ([t, n, _], h) = (states.dims(), self.h);
        if t == 0 || n == 0 {
            return states.clone(); // empty, too
        }
        let first = match &self.h0 {
            Some(h0) => h0.clone().unsqueeze_dim(0),
            None => Tensor::zeros([1, n, h], (&states.device(), states.dtype())),
        };
        // Burn has no empty `narrow`.
        let all_but_one = |from| (t > 1).then(|| states.clone().narrow(0, from, t - 1));
        let previous: Vec<Tensor<3>> = match self.direction {
            Direction::Forward => [Some(first), all_but_one(0)]
                .into_iter()
                .flatten()
                .collect(),
            Direction::Reverse => [all_but_one(1), Some(first)]
                .into_iter()
                .flatten()
                .collect(),
        };
        let mut g = Tensor::cat(previous, 0);
        if let Some(mask) = &self.recurrent_mask {
            g = g * mask.clone().unsqueeze_dim(0);
        }
        let w_hn = self.weights.w_hh.clone().narrow(1, 2 * h, h);
        let q_n = g.reshape([t * n, h]).matmul(w_hn).reshape([t, n, h]);
        match &self.weights.b_hh {
            Some(b_hh) => q_n + b_hh.clone().narrow(0, 2 * h, h).unsqueeze(),
            None => q_n,
        }
    }
}

/// The directions of a checked call.
pub(super) fn split(arguments: &Arguments, descriptor: &GruDescriptor) -> Vec<OneDirection> {
    let order = descriptor.gate_order();
    let directions: &[Direction] = match (descriptor.bidirectional, descriptor.reverse) {
        (true, _) => &[Direction::Forward, Direction::Reverse],
        (false, false) => &[Direction::Forward],
        (false, true) => &[Direction::Reverse],
    };
    let one = |(d, &direction): (usize, &Direction)| {
        let mut weights = arguments.parameters.weights(order, d);
        let [h, gates] = weights.w_hh.dims();
        let states = |t: &Option<Tensor<2>>| t.clone().map(|t| t.narrow(1, d * h, h));
        let x = arguments.source.clone();
        weights.b_hh = weights.b_hh.map(|of_candidate| {
            let zeros = Tensor::zeros([2 * h], (&x.device(), x.dtype()));
            Tensor::cat(vec![zeros, of_candidate], 0)
        });
        let x = match weights.w_ih {
            Some(_) => x,
            None => order.reorder(x.narrow(2, d * gates, gates), 2, 1),
        };
        OneDirection {
            h,
            x,
            h0: states(&arguments.init_state),
            recurrent_mask: states(&arguments.mask),
            weights,
            spec: descriptor.spec(),
            direction,
        }
    };
    directions.iter().enumerate().map(one).collect()
}
