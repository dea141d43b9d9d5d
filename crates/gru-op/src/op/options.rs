//! The operator's arguments: weights and options.

use burn::tensor::{Bool, Tensor};
use gru_spec::{Checkpointing, Direction, Layout, Order};

use crate::backend::LayerMemory;

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

/// What a sequence may have besides its input and weights. Everything is absent by default.
///
/// D is the rank of the state: 2 for [`gru_sequence_with`](crate::gru_sequence_with), 3 for
/// [`GruBlock::forward_with`](crate::GruBlock::forward_with). A block draws its own masks and has an order of
/// its own, so only the operator has options for them.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use gru_op::{GruSpec, GruWeights, SequenceOptions, gru_sequence_with};
///
/// let (n, t, i, h, device) = (2, 5, 3, 4, Device::flex());
/// let x = Tensor::random([n, t, i], Distribution::Default, &device);
/// let draw = |rows| Tensor::random([rows, 3 * h], Distribution::Default, &device);
/// let weights = GruWeights::new(draw(i), draw(h));
/// let options = SequenceOptions::new().state(Tensor::ones([n, h], &device)).lengths(&[5, 2]);
/// let (y, state) = gru_sequence_with(x, &weights, &GruSpec::default(), options);
/// assert_eq!((y.dims(), state.dims()), ([n, t, h], [n, h]));
/// ```
#[derive(Debug, Clone, Default)]
pub struct SequenceOptions<const D: usize> {
    pub(crate) state: Option<Tensor<D>>,
    pub(crate) padding: Padding,
    pub(crate) order: Order,
    pub(crate) checkpointing: Checkpointing,
    pub(crate) recurrent_mask: Option<Tensor<2>>,
    pub(crate) zoneout: Option<Tensor<3>>,
    pub(crate) memory: LayerMemory,
}

impl<const D: usize> SequenceOptions<D> {
    /// Nothing but the input and the weights.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the initial state: `[N,H]` for the operator, `[L·D,N,H]` for a block. Zeros if absent.
    pub fn state(self, state: impl Into<Option<Tensor<D>>>) -> Self {
        let state = state.into();
        Self { state, ..self }
    }

    /// Row `n` ends after its first `lengths[n]` steps, in any order, 0 included: PyTorch's packed
    /// sequences, ONNX' `sequence_lens`. [`Direction::Reverse`](crate::Direction::Reverse) starts at each
    /// row's own end. The output past the end is zero. Replaces a mask.
    pub fn lengths(self, lengths: &[usize]) -> Self {
        let padding = Padding::Lengths(lengths.to_vec());
        Self { padding, ..self }
    }

    /// `[N,T]` or `[T,N]`, true at valid steps, with holes anywhere: Keras' mask. At a skipped step the
    /// output repeats the previous one (in the direction of time), and is zero before the first valid step.
    /// Replaces lengths.
    pub fn mask(self, mask: Tensor<2, Bool>) -> Self {
        let padding = Padding::Mask(mask);
        Self { padding, ..self }
    }
}

impl SequenceOptions<2> {
    /// Sets the memory layout of the sequence.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.order.layout = layout;
        self
    }

    /// Sets the time direction.
    pub fn direction(mut self, direction: Direction) -> Self {
        self.order.direction = direction;
        self
    }

    /// Sets what training keeps.
    pub fn checkpointing(self, checkpointing: Checkpointing) -> Self {
        Self {
            checkpointing,
            ..self
        }
    }

    /// Sets the recurrent mask `[N,H]`, the same at every step: multiplies the state on its way into the
    /// gates, not the state that the update gate keeps. A constant without a gradient.
    pub fn recurrent_mask(self, mask: impl Into<Option<Tensor<2>>>) -> Self {
        let recurrent_mask = mask.into();
        Self {
            recurrent_mask,
            ..self
        }
    }

    /// Sets the share of the previous state that is kept, `[N,T,H]` or `[N,T,1]` (`[T,N,·]`):
    /// `h = zoneout ⊙ h₋₁ + (1 − zoneout) ⊙ h'`. A constant without a gradient.
    pub fn zoneout(self, zoneout: impl Into<Option<Tensor<3>>>) -> Self {
        let zoneout = zoneout.into();
        Self { zoneout, ..self }
    }
}

/// Which steps of which rows are skipped.
#[derive(Debug, Clone, Default)]
#[allow(clippy::large_enum_variant)] // One of a call, on the stack; a tensor is what it is.
pub(crate) enum Padding {
    /// None.
    #[default]
    None,
    /// Steps past each row's length.
    Lengths(Vec<usize>),
    /// Steps that are false.
    Mask(Tensor<2, Bool>),
}
