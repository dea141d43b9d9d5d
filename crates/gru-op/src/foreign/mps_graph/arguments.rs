//! The tensors of a call.

use burn::tensor::Tensor;

/// `recurrentWeight`, or its gradient.
#[derive(Debug, Clone)]
pub enum RecurrentWeight {
    /// `[3H,H]`.
    One(Tensor<2>),
    /// `[2,3H,H]`, with `bidirectional`.
    Two(Tensor<3>),
}

impl From<Tensor<2>> for RecurrentWeight {
    fn from(weight: Tensor<2>) -> Self {
        Self::One(weight)
    }
}

impl From<Tensor<3>> for RecurrentWeight {
    fn from(weight: Tensor<3>) -> Self {
        Self::Two(weight)
    }
}

impl RecurrentWeight {
    /// `[3H,H]` of one direction.
    pub(super) fn direction(&self, d: usize) -> Tensor<2> {
        match self {
            Self::One(weight) => weight.clone(),
            Self::Two(weights) => weights.clone().narrow(0, d, 1).squeeze_dim(0),
        }
    }
}

/// What both operators are given. D is 2 with `bidirectional`, else 1.
pub(super) struct Arguments {
    /// `[T,N,I]`; without `input_weight` already projected, `[T,N,D·3H]`.
    pub(super) source: Tensor<3>,
    /// `[3H,H]` or `[2,3H,H]`.
    pub(super) recurrent_weight: RecurrentWeight,
    /// `[D·3H,I]`.
    pub(super) input_weight: Option<Tensor<2>>,
    /// `[D·3H]`.
    pub(super) bias: Option<Tensor<1>>,
    /// `[N,D·H]`.
    pub(super) init_state: Option<Tensor<2>>,
    /// `[N,D·H]`.
    pub(super) mask: Option<Tensor<2>>,
    /// `[D·H]`; none without `reset_after`, where it plays no part.
    pub(super) secondary_bias: Option<Tensor<1>>,
}
