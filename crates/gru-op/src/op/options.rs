//! The operator's arguments: weights and options.

use crate::backend::LayerMemory;
use burn::{
    backend::DispatchTensor,
    tensor::{Bool, Tensor},
};
use gru_spec::{Checkpointing, Direction, Layout, Lengths, Order, Weights};

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
#[must_use]
#[non_exhaustive]
pub struct GruWeights {
    /// Input weight `[I,3H]`. Without it the sequence is already projected, and `x` has `3H` features.
    pub w_ih: Option<Tensor<2>>,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: Tensor<2>,
    /// Bias of the input product `[3H]`.
    pub b_ih: Option<Tensor<1>>,
    /// Bias of the recurrent product `[3H]`. If the reset gate acts after the product, it also resets the
    /// candidate's part of this bias. The rest could be added to `b_ih`.
    pub b_hh: Option<Tensor<1>>,
}

impl GruWeights {
    /// Weights without biases. The input weight may be `None`.
    pub fn new(w_ih: impl Into<Option<Tensor<2>>>, w_hh: Tensor<2>) -> Self {
        Self {
            w_ih: w_ih.into(),
            w_hh,
            b_ih: None,
            b_hh: None,
        }
    }

    /// Sets the bias of the input product.
    pub fn with_b_ih(mut self, b_ih: impl Into<Option<Tensor<1>>>) -> Self {
        self.b_ih = b_ih.into();
        self
    }

    /// Sets the bias of the recurrent product.
    pub fn with_b_hh(mut self, b_hh: impl Into<Option<Tensor<1>>>) -> Self {
        self.b_hh = b_hh.into();
        self
    }

    /// The weights without autodiff.
    pub(crate) fn inner(self) -> Self {
        Self {
            w_ih: self.w_ih.map(Tensor::inner),
            w_hh: self.w_hh.inner(),
            b_ih: self.b_ih.map(Tensor::inner),
            b_hh: self.b_hh.map(Tensor::inner),
        }
    }

    /// The weights as inputs of a call.
    pub(crate) fn into_dispatch(self) -> Weights<DispatchTensor> {
        Weights {
            w_ih: self.w_ih.map(Tensor::into_dispatch),
            w_hh: self.w_hh.into_dispatch(),
            b_ih: self.b_ih.map(Tensor::into_dispatch),
            b_hh: self.b_hh.map(Tensor::into_dispatch),
        }
    }
}

/// Options of a call. All of them are absent by default.
///
/// D is the rank of the state: 2 for [`gru_sequence_with`](crate::gru_sequence_with), 3 for
/// [`GruBlock::forward_with`](crate::GruBlock::forward_with). A block draws the recurrent mask and zoneout itself, and
/// its configuration sets layout, direction and checkpointing. So these options exist for D = 2 only.
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
#[must_use]
pub struct SequenceOptions<const D: usize> {
    pub(crate) state: Option<Tensor<D>>,
    pub(crate) padding: Padding,
    pub(crate) starts: Starts<D>,
    pub(crate) order: Order,
    pub(crate) checkpointing: Checkpointing,
    pub(crate) recurrent_mask: Option<Tensor<2>>,
    pub(crate) zoneout: Option<Tensor<3>>,
    pub(crate) memory: LayerMemory,
}

impl<const D: usize> SequenceOptions<D> {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the initial state: `[N,H]` for the operator, `[L·D,N,H]` for a block. The default is zeros.
    pub fn state(mut self, state: impl Into<Option<Tensor<D>>>) -> Self {
        self.state = state.into();
        self
    }

    /// Row `n` ends after its first `lengths[n]` steps, like PyTorch's packed sequences and ONNX'
    /// `sequence_lens`. Lengths may be in any order, and may be 0. [`Direction::Reverse`] starts at the end of
    /// each row. The output past the end is zero.
    ///
    /// The CPU backends neither read nor multiply what is past the end of a row. GPU backends leave padding out of the
    /// products over all steps, and of the recurrence in tiles of rows.
    ///
    /// # Panics
    /// If there is a [mask](Self::mask).
    pub fn lengths(mut self, lengths: &[usize]) -> Self {
        let is_mask = matches!(self.padding, Padding::Mask(_));
        assert!(
            !is_mask,
            "SequenceOptions: expected lengths or a mask, got both"
        );
        self.padding = Padding::Lengths(Lengths::Padded(lengths.into()));
        self
    }

    /// A mask `[N,T]`, or `[T,N]` if `x` is time-major, true at valid steps, like Keras' mask. Skipped steps may be anywhere. The
    /// output of a skipped step repeats the previous output (in the direction of time). Before the first valid step it is
    /// zero, also after each of the [starts](Self::starts).
    ///
    /// # Panics
    /// If there are [lengths](Self::lengths).
    pub fn mask(mut self, mask: Tensor<2, Bool>) -> Self {
        let has_lengths = matches!(self.padding, Padding::Lengths(_));
        assert!(
            !has_lengths,
            "SequenceOptions: expected lengths or a mask, got both"
        );
        self.padding = Padding::Mask(mask);
        self
    }

    /// Starts of new sequences, `[N,T]`, or `[T,N]` if `x` is time-major: true if row `n` starts a new sequence at time `t`, for
    /// example a new episode. The row then forgets its state: the step at `t` begins with the
    /// [start state](Self::start_state). In reverse, the step at `t − 1` does. Gradients do not cross a start.
    /// A start at time 0 hides the initial state, and in reverse it has no effect. Starts past the end of a row have none.
    ///
    /// [`starts_after`](crate::starts_after) converts flags that mark the ends of sequences.
    pub fn starts(mut self, starts: impl Into<Option<Tensor<2, Bool>>>) -> Self {
        self.starts.flags = starts.into();
        self
    }

    /// Sets the state with which a row starts, for example a learned one: `[N,H]` or `[1,H]` for the operator,
    /// `[L·D,N,H]` or `[L·D,1,H]` for a block. The default is zeros. A call with a start state and without
    /// [`starts`](Self::starts) panics.
    pub fn start_state(mut self, state: impl Into<Option<Tensor<D>>>) -> Self {
        self.starts.state = state.into();
        self
    }

    /// The options without autodiff.
    pub(crate) fn inner(self) -> Self {
        Self {
            state: self.state.map(Tensor::inner),
            padding: match self.padding {
                Padding::Mask(mask) => Padding::Mask(mask.inner()),
                other => other,
            },
            starts: Starts {
                flags: self.starts.flags.map(Tensor::inner),
                state: self.starts.state.map(Tensor::inner),
            },
            recurrent_mask: self.recurrent_mask.map(Tensor::inner),
            zoneout: self.zoneout.map(Tensor::inner),
            ..self
        }
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
    pub fn checkpointing(mut self, checkpointing: Checkpointing) -> Self {
        self.checkpointing = checkpointing;
        self
    }

    /// Sets the recurrent mask `[N,H]`, the same at every step. The gates read the state times this mask. The
    /// update gate keeps the state itself. The mask has no gradient.
    pub fn recurrent_mask(mut self, mask: impl Into<Option<Tensor<2>>>) -> Self {
        self.recurrent_mask = mask.into();
        self
    }

    /// Sets the share of the previous state that is kept, `[N,T,H]` or `[N,T,1]` (`[T,N,·]`):
    /// `h = zoneout ⊙ h₋₁ + (1 − zoneout) ⊙ h'`. It has no gradient.
    pub fn zoneout(mut self, zoneout: impl Into<Option<Tensor<3>>>) -> Self {
        self.zoneout = zoneout.into();
        self
    }
}

impl Padding {
    /// The lengths of rows of at most `t` steps.
    pub(crate) fn lengths(&self, t: usize) -> Lengths {
        match self {
            Self::Lengths(Lengths::Padded(lengths)) if lengths.iter().all(|&len| len == t) => {
                Lengths::All
            }
            Self::Lengths(lengths) => lengths.clone(),
            Self::None | Self::Mask(_) => Lengths::All,
        }
    }

    /// N and T of a sequence with these first two dimensions.
    pub(crate) fn batch(&self, layout: Layout, dims: [usize; 2]) -> [usize; 2] {
        match self {
            Self::Lengths(lengths) => lengths.batch(layout, dims),
            Self::None | Self::Mask(_) => layout.split(dims),
        }
    }
}

/// Where rows start new sequences, and with which state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Starts<const D: usize> {
    pub(crate) flags: Option<Tensor<2, Bool>>,
    pub(crate) state: Option<Tensor<D>>,
}

/// Which steps of which rows are skipped.
#[derive(Debug, Clone, Default)]
#[allow(clippy::large_enum_variant)] // There is one in a call, on the stack.
pub(crate) enum Padding {
    #[default]
    None,
    /// Steps past the length of each row, or rows without padding.
    Lengths(Lengths),
    /// Steps whose mask is false.
    Mask(Tensor<2, Bool>),
}
