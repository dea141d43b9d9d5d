//! What a call on primitives of a backend is given, and what it gives.

// Burn deprecates the ndarray backend as a whole; its users are served until it goes.
#![allow(deprecated)]

use burn::backend::{Backend, ExtensionType, tensor::FloatTensor};

/// A tensor that may be left out of a call.
#[derive(ExtensionType, Debug, Clone)]
pub enum OptionalTensor<B: Backend> {
    /// The tensor.
    Given(FloatTensor<B>),
    /// No tensor.
    Absent,
}

impl<B: Backend> OptionalTensor<B> {
    /// The tensor, if there is one.
    pub fn get(&self) -> Option<&FloatTensor<B>> {
        match self {
            Self::Given(tensor) => Some(tensor),
            Self::Absent => None,
        }
    }

    /// The tensor, if there is one.
    pub fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Given(tensor) => Some(tensor),
            Self::Absent => None,
        }
    }

    /// The tensor that `f` makes of it, if there is one.
    pub(crate) fn map(self, f: impl FnOnce(FloatTensor<B>) -> FloatTensor<B>) -> Self {
        self.into_option().map(f).into()
    }
}

impl<B: Backend> From<Option<FloatTensor<B>>> for OptionalTensor<B> {
    fn from(tensor: Option<FloatTensor<B>>) -> Self {
        tensor.map_or(Self::Absent, Self::Given)
    }
}

/// The tensors that a sequence reads. N rows, T steps, I inputs, H hidden units, gates packed
/// `r | z | n` in columns.
#[derive(ExtensionType, Debug, Clone)]
pub struct GruInputs<B: Backend> {
    /// The sequence, `[N,T,I]` or `[T,N,I]` by the layout of the spec; without `w_ih` already
    /// projected, with `3H` features.
    pub x: FloatTensor<B>,
    /// Initial state `[N,H]`; zeros if absent.
    #[extension_type]
    pub h0: OptionalTensor<B>,
    /// Input weight `[I,3H]`.
    #[extension_type]
    pub w_ih: OptionalTensor<B>,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: FloatTensor<B>,
    /// Bias of the input product `[3H]`.
    #[extension_type]
    pub b_ih: OptionalTensor<B>,
    /// Bias of the recurrent product `[3H]`.
    #[extension_type]
    pub b_hh: OptionalTensor<B>,
    /// Recurrent mask `[N,H]`: multiplies the state on its way into the gates. No gradient.
    #[extension_type]
    pub mask: OptionalTensor<B>,
    /// `[N,T]` or `[T,N]`, zero where a step is skipped and the state carried on. No gradient.
    #[extension_type]
    pub valid: OptionalTensor<B>,
    /// `[…,H]` or `[…,1]`, the share of the new state that is taken: `h = take ⊙ h' + (1 − take)
    /// ⊙ h₋₁` at the steps that are not skipped. No gradient.
    #[extension_type]
    pub take: OptionalTensor<B>,
}

impl<B: Backend> GruInputs<B> {
    /// Each of the tensors made into another one.
    pub(crate) fn map(self, f: impl Fn(FloatTensor<B>) -> FloatTensor<B>) -> Self {
        Self {
            x: f(self.x),
            h0: self.h0.map(&f),
            w_ih: self.w_ih.map(&f),
            w_hh: f(self.w_hh),
            b_ih: self.b_ih.map(&f),
            b_hh: self.b_hh.map(&f),
            mask: self.mask.map(&f),
            valid: self.valid.map(&f),
            take: self.take.map(&f),
        }
    }
}

/// What a forward pass for training returns.
#[derive(ExtensionType, Debug, Clone)]
pub struct GruForward<B: Backend> {
    /// The state after every step, `[N,T,H]` or `[T,N,H]`.
    pub states: FloatTensor<B>,
    /// The gates `r | z | n | q_n`, `[…,4H]`, for reset-after; `r | z | n`, `[…,3H]`, for
    /// reset-before.
    pub gates: FloatTensor<B>,
}

/// The gradients of a sequence: those that were wanted, each in the shape of its input.
#[derive(ExtensionType, Debug, Clone)]
pub struct GruGradients<B: Backend> {
    /// Of the sequence.
    #[extension_type]
    pub x: OptionalTensor<B>,
    /// Of the initial state.
    #[extension_type]
    pub h0: OptionalTensor<B>,
    /// Of the input weight.
    #[extension_type]
    pub w_ih: OptionalTensor<B>,
    /// Of the recurrent weight.
    #[extension_type]
    pub w_hh: OptionalTensor<B>,
    /// Of the input product's bias.
    #[extension_type]
    pub b_ih: OptionalTensor<B>,
    /// Of the recurrent product's bias.
    #[extension_type]
    pub b_hh: OptionalTensor<B>,
}

impl<B: Backend> GruGradients<B> {
    /// Each of the tensors made into another one.
    pub(crate) fn map(self, f: impl Fn(FloatTensor<B>) -> FloatTensor<B>) -> Self {
        Self {
            x: self.x.map(&f),
            h0: self.h0.map(&f),
            w_ih: self.w_ih.map(&f),
            w_hh: self.w_hh.map(&f),
            b_ih: self.b_ih.map(&f),
            b_hh: self.b_hh.map(&f),
        }
    }
}

/// Which gradients to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names are those of the inputs.
pub struct Wanted {
    pub x: bool,
    pub h0: bool,
    pub w_ih: bool,
    pub w_hh: bool,
    pub b_ih: bool,
    pub b_hh: bool,
}
