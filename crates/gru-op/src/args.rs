//! What the operator is given.

#[cfg(doc)]
use crate::spec::Direction;
use burn::tensor::{Bool, Tensor};

/// The weights of one direction of one layer, gates packed `r | z | n` in columns.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use gru_op::GruWeights;
///
/// let (i, h, device) = (3, 4, Device::flex());
/// let (w_ih, w_hh) = (Tensor::zeros([i, 3 * h], &device), Tensor::zeros([h, 3 * h], &device));
/// let weights = GruWeights::new(w_ih, w_hh).with_b_ih(Tensor::zeros([3 * h], &device));
/// assert!(weights.b_hh.is_none());
/// ```
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

impl GruWeights {
    /// Weights without biases. `None` in place of the input weight: the sequence comes already
    /// projected.
    pub fn new(w_ih: impl Into<Option<Tensor<2>>>, w_hh: Tensor<2>) -> Self {
        Self {
            w_ih: w_ih.into(),
            w_hh,
            b_ih: None,
            b_hh: None,
        }
    }

    /// Sets the bias of the input product.
    pub fn with_b_ih(self, b_ih: impl Into<Option<Tensor<1>>>) -> Self {
        let b_ih = b_ih.into();
        Self { b_ih, ..self }
    }

    /// Sets the bias of the recurrent product.
    pub fn with_b_hh(self, b_hh: impl Into<Option<Tensor<1>>>) -> Self {
        let b_hh = b_hh.into();
        Self { b_hh, ..self }
    }
}

/// What a sequence may be given besides its input and weights. Everything is absent by default.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use gru_op::{GruOptions, GruSpec, GruWeights, Steps, gru_sequence_with};
///
/// let (n, t, i, h, device) = (2, 5, 3, 4, Device::flex());
/// let x = Tensor::random([n, t, i], Distribution::Default, &device);
/// let draw = |rows| Tensor::random([rows, 3 * h], Distribution::Default, &device);
/// let weights = GruWeights::new(draw(i), draw(h));
/// let options = GruOptions::default()
///     .with_h0(Tensor::ones([n, h], &device))
///     .with_steps(Steps::Lengths(vec![5, 2]));
/// let (y, state) = gru_sequence_with(x, &weights, &GruSpec::default(), options);
/// assert_eq!((y.dims(), state.dims()), ([n, t, h], [n, h]));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
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

impl GruOptions {
    /// Sets the initial state.
    pub fn with_h0(self, h0: impl Into<Option<Tensor<2>>>) -> Self {
        let h0 = h0.into();
        Self { h0, ..self }
    }

    /// Sets the recurrent mask.
    pub fn with_mask(self, mask: impl Into<Option<Tensor<2>>>) -> Self {
        let mask = mask.into();
        Self { mask, ..self }
    }

    /// Sets the share of the new state that is taken.
    pub fn with_take(self, take: impl Into<Option<Tensor<3>>>) -> Self {
        let take = take.into();
        Self { take, ..self }
    }

    /// Sets which steps of which rows count.
    pub fn with_steps(self, steps: Steps) -> Self {
        Self { steps, ..self }
    }
}

/// Which steps of which rows count.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
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
