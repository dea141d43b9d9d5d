//! The operator over primitives: what a backend may implement.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::composed::{gradients, states};

/// Both passes over primitives of a backend: x `[N,T,H]`, a `[H]`, h0 `[N,H]`.
#[backend_extension(Flex, Autodiff)]
pub trait RecurrenceBackend: Backend {
    /// The states, `[N,T,H]`.
    fn recurrence(
        x: FloatTensor<Self>,
        a: FloatTensor<Self>,
        h0: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        states::<Self>(x, a, h0)
    }

    /// The gradients of `Σ states ⊙ d` with respect to x, a and h0.
    fn recurrence_gradients(
        a: FloatTensor<Self>,
        h0: FloatTensor<Self>,
        states: FloatTensor<Self>,
        d: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        gradients::<Self>(a, h0, states, d)
    }
}
