//! What `GRUGradients` returns, gathered direction by direction.

use super::RecurrentWeight;
use crate::{GateOrder, backend};
use burn::{
    backend::{Dispatch, DispatchTensor},
    tensor::Tensor,
};

/// What `GRUGradients` returns, in its order. Each is there exactly if its input was.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Gradients {
    /// As `source`.
    pub source: Tensor<3>,
    /// As `recurrent_weight`.
    pub recurrent_weight: RecurrentWeight,
    /// As `input_weight`.
    pub input_weight: Option<Tensor<2>>,
    /// As `bias`.
    pub bias: Option<Tensor<1>>,
    /// As `init_state`.
    pub init_state: Option<Tensor<2>>,
    /// As `secondary_bias`.
    pub secondary_bias: Option<Tensor<1>>,
}

/// The gradients of each direction, in Apple's layouts.
#[derive(Default)]
pub(super) struct Collected {
    source: Vec<Tensor<3>>,
    recurrent_weight: Vec<Tensor<2>>,
    input_weight: Vec<Tensor<2>>,
    bias: Vec<Tensor<1>>,
    pub(super) init_state: Vec<Tensor<2>>,
    secondary_bias: Vec<Tensor<1>>,
}

impl Collected {
    /// Adds those of the next direction.
    pub(super) fn take(
        &mut self,
        backend::GruGradients(d): backend::GruGradients<Dispatch>,
        order: GateOrder,
        h: usize,
        projected: bool,
    ) {
        fn of<const D: usize>(d: Option<DispatchTensor>) -> Option<Tensor<D>> {
            d.map(Tensor::from_dispatch)
        }
        let rows = |columns: Tensor<2>| order.reorder(columns.transpose(), 0, 1);
        self.source
            .extend(of::<3>(d.x).map(|x| if projected { order.reorder(x, 2, 1) } else { x }));
        self.recurrent_weight.extend(of(d.w_hh).map(rows));
        self.input_weight.extend(of(d.w_ih).map(rows));
        self.bias
            .extend(of::<1>(d.b_ih).map(|b| order.reorder(b, 0, 1)));
        self.init_state.extend(of::<2>(d.h0));
        let candidate = |b: Tensor<1>| b.narrow(0, 2 * h, h);
        self.secondary_bias.extend(of(d.b_hh).map(candidate));
    }

    /// All of them, one beside the other.
    pub(super) fn finish(self, projected: bool) -> Gradients {
        fn side_by_side<const D: usize>(parts: Vec<Tensor<D>>, dim: usize) -> Option<Tensor<D>> {
            (!parts.is_empty()).then(|| Tensor::cat(parts, dim))
        }
        const ALWAYS: &str = "the source and the recurrent weight are always there";
        let source = if projected {
            side_by_side(self.source, 2)
        } else {
            self.source.into_iter().reduce(|a, b| a + b)
        };
        let mut recurrent = self.recurrent_weight;
        Gradients {
            source: source.expect(ALWAYS),
            recurrent_weight: match recurrent.len() {
                1 => RecurrentWeight::One(recurrent.remove(0)),
                _ => RecurrentWeight::Two(Tensor::stack(recurrent, 0)),
            },
            input_weight: side_by_side(self.input_weight, 0),
            bias: side_by_side(self.bias, 0),
            init_state: side_by_side(self.init_state, 1),
            secondary_bias: side_by_side(self.secondary_bias, 0),
        }
    }
}
