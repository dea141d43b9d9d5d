//! The tensors of a call, and their checks.

use super::GruDescriptor;
use crate::{
    foreign::gate_order::GateOrder,
    op::{check::Check, options::GruWeights},
};
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
    /// The weight without autodiff.
    pub(super) fn inner(self) -> Self {
        match self {
            Self::One(weight) => Self::One(weight.inner()),
            Self::Two(weights) => Self::Two(weights.inner()),
        }
    }

    /// `[3H,H]` of one direction.
    pub(super) fn direction(&self, d: usize) -> Tensor<2> {
        match self {
            Self::One(weight) => weight.clone(),
            Self::Two(weights) => weights.clone().narrow(0, d, 1).squeeze_dim(0),
        }
    }

    /// Checks the shape and returns H.
    fn check(&self, op: &str, bidirectional: bool) -> usize {
        let dims = match self {
            Self::One(weight) => weight.dims().to_vec(),
            Self::Two(weights) => weights.dims().to_vec(),
        };
        match (&dims[..], bidirectional) {
            (&[gates, h], false) | (&[2, gates, h], true) if h.checked_mul(3) == Some(gates) => h,
            _ => panic!(
                "{op}: recurrent_weight must be [3H, H], or [2, 3H, H] with bidirectional, got {dims:?}"
            ),
        }
    }
}

/// The weights of a call.
pub(super) struct Parameters {
    recurrent: RecurrentWeight,
    /// `[D·3H,I]`.
    pub(super) input: Option<Tensor<2>>,
    /// `[D·3H]`.
    bias: Option<Tensor<1>>,
    /// `[D·H]`. `None` without `reset_after`.
    secondary_bias: Option<Tensor<1>>,
}

impl Parameters {
    pub(super) fn new(
        recurrent: RecurrentWeight,
        input: Option<Tensor<2>>,
        bias: Option<Tensor<1>>,
        secondary_bias: Option<Tensor<1>>,
        descriptor: &GruDescriptor,
    ) -> Self {
        Self {
            recurrent,
            input,
            bias,
            secondary_bias: secondary_bias.filter(|_| descriptor.reset_after),
        }
    }

    /// Checks all of them, for a source of `features`.
    fn check(&self, check: &mut Check, features: usize, directions: usize, h: usize) {
        let recurrent = Some(&self.recurrent.direction(0));
        check.argument("recurrent_weight", "[3H, H]", recurrent, [3 * h, h]);
        let gates = directions * 3 * h;
        let (input, bias) = (self.input.as_ref(), self.bias.as_ref());
        check.argument("input_weight", "[D·3H, I]", input, [gates, features]);
        check.argument("bias", "[D·3H]", bias, [gates]);
        let secondary = self.secondary_bias.as_ref();
        check.argument("secondary_bias", "[D·H]", secondary, [directions * h]);
    }

    /// The weights of direction `d`.
    pub(super) fn weights(&self, order: GateOrder, d: usize) -> GruWeights {
        let recurrent = self.recurrent.direction(d);
        let [gates, h] = recurrent.dims();
        let columns = |rows: Tensor<2>| order.reorder(rows, 0, 1).transpose();
        let (input, bias) = (self.input.clone(), self.bias.clone());
        let secondary = self.secondary_bias.clone();
        let of_candidate = |b: Tensor<1>| {
            let of_gates = Tensor::zeros([2 * h], (&b.device(), b.dtype()));
            Tensor::cat(vec![of_gates, b], 0)
        };
        GruWeights {
            w_ih: input.map(|w| columns(w.narrow(0, d * gates, gates))),
            w_hh: columns(recurrent),
            b_ih: bias.map(|b| order.reorder(b.narrow(0, d * gates, gates), 0, 1)),
            b_hh: secondary.map(|b| of_candidate(b.narrow(0, d * h, h))),
        }
    }
}

/// The arguments of both operators. D is 2 with `bidirectional`, else 1.
pub(super) struct Arguments {
    /// `[T,N,I]`, or already projected `[T,N,D·3H]` without input weight.
    pub(super) source: Tensor<3>,
    pub(super) parameters: Parameters,
    /// `[N,D·H]`.
    pub(super) init_state: Option<Tensor<2>>,
    /// `[N,D·H]`.
    pub(super) mask: Option<Tensor<2>>,
}

/// The arguments of the gradients only.
pub(super) struct Upstream {
    pub(super) source_gradient: Tensor<3>,
    pub(super) z_state: Tensor<3>,
    pub(super) output_fwd: Tensor<3>,
    pub(super) state_gradient: Option<Tensor<2>>,
}

impl Arguments {
    /// Checks a call and returns H.
    pub(super) fn check(
        &self,
        op: &str,
        descriptor: &GruDescriptor,
        upstream: Option<&Upstream>,
    ) -> usize {
        descriptor.spec().check();
        let directions = descriptor.directions();
        let recurrent = &self.parameters.recurrent;
        let h = recurrent.check(op, descriptor.bidirectional);
        let [t, n, features] = self.source.dims();
        let because = || {
            format!(
                "D is {directions}, H is {h}, the source is {:?}",
                [t, n, features]
            )
        };
        let mut check = Check::new(op, ("source", &self.source), &because);
        if self.parameters.input.is_none() {
            let name = "source, D·3H without input_weight,";
            check.features(name, features, directions * 3 * h);
        }
        self.parameters.check(&mut check, features, directions, h);
        let (units, state, mask) = (directions * h, self.init_state.as_ref(), self.mask.as_ref());
        check.argument("init_state", "[N, D·H]", state, [n, units]);
        check.argument("mask", "[N, D·H]", mask, [n, units]);
        if let Some(up) = upstream {
            let (d_source, output) = (Some(&up.source_gradient), Some(&up.output_fwd));
            check.argument("source_gradient", "[T, N, D·H]", d_source, [t, n, units]);
            check.argument(
                "z_state",
                "[T, N, D·3H]",
                Some(&up.z_state),
                [t, n, 3 * units],
            );
            check.argument("output_fwd", "[T, N, D·H]", output, [t, n, units]);
            let d_state = up.state_gradient.as_ref();
            check.argument("state_gradient", "[N, D·H]", d_state, [n, units]);
        }
        #[cfg(feature = "remote")]
        crate::backend::deferred::remote::expect_operator(op, &self.source.device());
        h
    }
}

/// The weights of each direction, forward before reverse, for [`gru_sequence`](crate::gru_sequence) and, if there
/// is an input weight, for [`GruBlockConfig::init_with`](crate::GruBlockConfig::init_with). The secondary bias
/// becomes the candidate's part of `b_hh`. It is ignored without `reset_after`.
///
/// # Shapes
/// As for [`gru`](super::gru).
///
/// # Panics
/// If shapes, devices or dtypes do not match.
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
    const OP: &str = "mps_graph::weights";
    let parameters = Parameters::new(
        recurrent_weight.clone(),
        input_weight.cloned(),
        bias.cloned(),
        secondary_bias.cloned(),
        descriptor,
    );
    let directions = descriptor.directions();
    let h = recurrent_weight.check(OP, descriptor.bidirectional);
    let because = || format!("D is {directions} and H is {h}");
    let first = recurrent_weight.direction(0);
    let mut check = Check::new(OP, ("recurrent_weight", &first), &because);
    let features = input_weight.map_or(0, |weight| weight.dims()[1]);
    parameters.check(&mut check, features, directions, h);
    let order = descriptor.gate_order();
    (0..directions)
        .map(|d| parameters.weights(order, d))
        .collect()
}
