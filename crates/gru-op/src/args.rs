//! What the operator is given.

#[cfg(doc)]
use crate::spec::Direction;
use burn::tensor::{Bool, Tensor};

/// The weights of one direction of one layer, gates packed `r | z | n` in columns.
#[derive(Debug, Clone)]
pub struct GruWeights {
    /// Input weight `[I,3H]`. Without it the sequence comes already projected: `x` has `3H`
    /// features.
    pub w_ih: Option<Tensor<2>>,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: Tensor<2>,
    /// Bias of the input product `[3H]`.
    pub b_ih: Option<Tensor<1>>,
    /// Bias of the recurrent product: `[3H]`, or `[H]` for the candidate alone (MPSGraph's
    /// secondary bias, the fourth of oneDNN's). Where the reset gate acts after the product, the
    /// candidate's is reset too; all else only adds to `b_ih`.
    pub b_hh: Option<Tensor<1>>,
}

/// What a sequence may be given besides its input and weights. Everything is absent by default.
#[derive(Debug, Clone, Default)]
pub struct GruOptions {
    /// Initial state `[N,H]`; zeros if absent.
    pub h0: Option<Tensor<2>>,
    /// Recurrent mask `[N,H]`, the same at every step: multiplies the state on its way into the
    /// gates, not the state that the update gate keeps. A constant: it gets no gradient.
    pub mask: Option<Tensor<2>>,
    /// Share of the new state that is taken, `[N,T,H]` or `[N,T,1]` (`[T,N,·]`):
    /// `h = take ⊙ h' + (1 − take) ⊙ h₋₁`. Zoneout, for one. A constant: it gets no gradient.
    pub take: Option<Tensor<3>>,
    /// Which steps of which rows count.
    pub steps: Steps,
}

/// Which steps of which rows count.
#[derive(Debug, Clone, Default)]
#[allow(clippy::large_enum_variant)] // One of a call, on the stack; a tensor is what it is.
pub enum Steps {
    /// All of them.
    #[default]
    All,
    /// Row `n` ends after its first `lengths[n]` steps, in any order, 0 included: PyTorch's packed
    /// sequences, ONNX' `sequence_lens`. [`Direction::Reverse`] starts at each row's own end. The
    /// output past the end is zero.
    Lengths(Vec<usize>),
    /// `[N,T]` or `[T,N]`, true where the step counts, with holes anywhere: Keras' mask. At a step
    /// that does not count the output repeats the one before (in the direction of the walk), and
    /// is zero before the first that counts.
    Mask(Tensor<2, Bool>),
}
