//! The function that users call.

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::backend::RecurrenceBackend;

/// `h_t = a ⊙ h_{t−1} + x_t`, from x `[N,T,H]`, a `[H]` and h0 `[N,H]` to the states `[N,T,H]`.
///
/// # Panics
/// If the shapes do not fit together.
pub fn linear_recurrence(x: Tensor<3>, a: Tensor<1>, h0: Tensor<2>) -> Tensor<3> {
    let [n, _, h] = x.dims();
    assert_eq!(a.dims(), [h], "linear_recurrence: a must be [H]");
    assert_eq!(h0.dims(), [n, h], "linear_recurrence: h0 must be [N, H]");
    let (x, a, h0) = (x.into_dispatch(), a.into_dispatch(), h0.into_dispatch());
    Tensor::from_dispatch(Dispatch::recurrence(x, a, h0))
}
