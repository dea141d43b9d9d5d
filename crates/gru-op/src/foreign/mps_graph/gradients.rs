//! The results of `GRUGradients`.

use super::RecurrentWeight;
use crate::{backend::GruGradients, foreign::gate_order::GateOrder, op::shape};
use burn::{
    backend::{Dispatch, DispatchTensor},
    tensor::Tensor,
};

/// The results of `GRUGradients`, in Apple's order. Each is present if its input was.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Gradients {
    /// In the shape of `source`.
    pub source: Tensor<3>,
    /// In the shape of `recurrent_weight`.
    pub recurrent_weight: RecurrentWeight,
    /// In the shape of `input_weight`.
    pub input_weight: Option<Tensor<2>>,
    /// In the shape of `bias`.
    pub bias: Option<Tensor<1>>,
    /// In the shape of `init_state`.
    pub init_state: Option<Tensor<2>>,
    /// In the shape of `secondary_bias`.
    pub secondary_bias: Option<Tensor<1>>,
}

impl Gradients {
    /// The gradients of one direction. `projected`: there is no input weight.
    pub(super) fn of_direction(
        GruGradients(d): GruGradients<Dispatch>,
        order: GateOrder,
        h: usize,
        projected: bool,
    ) -> Self {
        fn of<const D: usize>(d: Option<DispatchTensor>) -> Option<Tensor<D>> {
            d.map(Tensor::from_dispatch)
        }
        const ALWAYS: &str = "these inputs are always present";
        let rows = |columns: Tensor<2>| order.reorder(columns.transpose(), 0, 1);
        let source = of::<3>(d.x).expect(ALWAYS);
        Self {
            source: if projected {
                order.reorder(source, 2, 1)
            } else {
                source
            },
            recurrent_weight: rows(of(d.w_hh).expect(ALWAYS)).into(),
            input_weight: of(d.w_ih).map(rows),
            bias: of::<1>(d.b_ih).map(|bias| order.reorder(bias, 0, 1)),
            init_state: of(d.h0),
            secondary_bias: of::<1>(d.b_hh).map(|bias| bias.narrow(0, 2 * h, h)),
        }
    }

    /// The gradients of both directions.
    pub(super) fn join(self, reverse: Self, projected: bool) -> Self {
        fn cat<const D: usize>(
            forward: Option<Tensor<D>>,
            reverse: Option<Tensor<D>>,
            dim: usize,
        ) -> Option<Tensor<D>> {
            Some(shape::cat(vec![forward?, reverse?], dim))
        }
        let recurrent = [self.recurrent_weight, reverse.recurrent_weight];
        let recurrent = recurrent.map(|weight| weight.direction(0));
        Self {
            source: if projected {
                shape::cat(vec![self.source, reverse.source], 2)
            } else {
                self.source + reverse.source
            },
            recurrent_weight: Tensor::stack::<3>(recurrent.into(), 0).into(),
            input_weight: cat(self.input_weight, reverse.input_weight, 0),
            bias: cat(self.bias, reverse.bias, 0),
            init_state: cat(self.init_state, reverse.init_state, 1),
            secondary_bias: cat(self.secondary_bias, reverse.secondary_bias, 0),
        }
    }
}
