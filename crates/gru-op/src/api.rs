//! The operator over Burn's tensors.

use crate::{
    GruBackend, GruInputs, OptionalTensor,
    shape::{self, Sizes},
    spec::{Direction, GruSpec, Layout},
};
use burn::{
    backend::{Dispatch, DispatchTensor},
    tensor::Tensor,
};

/// The weights of one direction of one layer, gates packed `r | z | n` in columns.
#[derive(Debug, Clone)]
pub struct GruWeights {
    /// Input weight `[I,3H]`.
    pub w_ih: Tensor<2>,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: Tensor<2>,
    /// Bias of the input product `[3H]`.
    pub b_ih: Option<Tensor<1>>,
    /// Bias of the recurrent product `[3H]`. Where the reset gate acts after the product, its n
    /// block is reset too; elsewhere it only adds to `b_ih`.
    pub b_hh: Option<Tensor<1>>,
}

/// Runs a GRU over a sequence.
///
/// The equations are those at the [root of the crate](crate). One node of Burn's autodiff graph
/// stands for the whole sequence; its backward is written by hand, computes the gradients of
/// tracked inputs only, and first-order ones only. Nothing is kept when nothing is tracked; what
/// is kept otherwise, [`Memory`](crate::Memory) says.
///
/// # Shapes
/// - `x`: `[N,T,I]`, or `[T,N,I]` by [`GruSpec::layout`]. No layout is copied into the other.
/// - `h0`: `[N,H]`; zeros if absent.
/// - returns the states after every step, `[N,T,H]` or `[T,N,H]`, and the final state `[N,H]`,
///   which in [`Direction::Reverse`] is the one after step 0.
///
/// N and T may be zero; with no step the final state is the initial one.
///
/// # Panics
/// If shapes, devices or dtypes do not fit together, before any work; and if
/// [`GruSpec::check`] does.
pub fn gru_sequence(
    x: Tensor<3>,
    h0: Option<Tensor<2>>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> (Tensor<3>, Tensor<2>) {
    sequence_by("gru_sequence", x, h0, weights, spec, |inputs| {
        Dispatch::gru_states(inputs, *spec)
    })
}

/// Runs one step of a GRU: `x [N,I]` and `h [N,H]` (zeros if absent) to the new state `[N,H]`.
///
/// The layout and direction of `spec` play no part.
///
/// # Panics
/// As [`gru_sequence`].
pub fn gru_cell(
    x: Tensor<2>,
    h: Option<Tensor<2>>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> Tensor<2> {
    let spec = spec.with_layout(Layout::TimeMajor);
    let x = x.unsqueeze_dim(0);
    let run = |inputs| Dispatch::gru_states(inputs, spec);
    sequence_by("gru_cell", x, h, weights, &spec, run).1
}

/// Checks, runs and takes the final state, whatever makes the states.
pub(crate) fn sequence_by(
    op: &str,
    x: Tensor<3>,
    h0: Option<Tensor<2>>,
    weights: &GruWeights,
    spec: &GruSpec,
    run: impl FnOnce(GruInputs<Dispatch>) -> DispatchTensor,
) -> (Tensor<3>, Tensor<2>) {
    let sizes = shape::check_sequence(op, &x, h0.as_ref(), weights, spec);
    let no_steps = (sizes.t == 0).then(|| match &h0 {
        Some(h0) => h0.clone(),
        None => Tensor::zeros([sizes.n, sizes.h], (&x.device(), x.dtype())),
    });
    let option = |tensor: &Option<Tensor<1>>| {
        OptionalTensor::from(tensor.clone().map(Tensor::into_dispatch))
    };
    let states = Tensor::from_dispatch(run(GruInputs {
        x: x.into_dispatch(),
        h0: OptionalTensor::from(h0.map(Tensor::into_dispatch)),
        w_ih: OptionalTensor::Given(weights.w_ih.clone().into_dispatch()),
        w_hh: weights.w_hh.clone().into_dispatch(),
        b_ih: option(&weights.b_ih),
        b_hh: option(&weights.b_hh),
        mask: OptionalTensor::Absent,
        valid: OptionalTensor::Absent,
    }));
    let last = no_steps.unwrap_or_else(|| last_state(&states, &sizes, spec));
    (states, last)
}

/// The state after the last step walked, `[N,H]`.
fn last_state(states: &Tensor<3>, sizes: &Sizes, spec: &GruSpec) -> Tensor<2> {
    let t = match spec.direction {
        Direction::Forward => sizes.t - 1,
        Direction::Reverse => 0,
    };
    let time_dim = match spec.layout {
        Layout::BatchMajor => 1,
        Layout::TimeMajor => 0,
    };
    // Not `reshape`, to which a batch of zero rows means "as before".
    states.clone().narrow(time_dim, t, 1).squeeze_dim(time_dim)
}
