//! The operator over primitives: what a backend may implement.

use burn::backend::{Backend, ExtensionType, backend_extension, tensor::FloatTensor};

use crate::composed::{gradients, states};

/// A tensor that may be absent.
#[derive(ExtensionType, Debug, Clone)]
pub enum Given<B: Backend> {
    /// The tensor.
    Yes(FloatTensor<B>),
    /// No tensor.
    No,
}

impl<B: Backend> Given<B> {
    pub fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Yes(tensor) => Some(tensor),
            Self::No => None,
        }
    }
}

/// Both passes over primitives of a backend: x `[N,T,H]`, a `[H]`, h0 `[N,H]`.
#[backend_extension(Flex, Autodiff)]
pub trait RecurrenceBackend: Backend {
    /// The states, `[N,T,H]`.
    fn recurrence(
        x: FloatTensor<Self>,
        a: FloatTensor<Self>,
        #[extension_type] h0: Given<Self>,
    ) -> FloatTensor<Self> {
        states::<Self>(x, a, h0)
    }

    /// The gradients of `Σ states ⊙ d` with respect to x, a and h0.
    fn recurrence_gradients(
        a: FloatTensor<Self>,
        #[extension_type] h0: Given<Self>,
        states: FloatTensor<Self>,
        d: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        gradients::<Self>(a, h0, states, d)
    }
}
