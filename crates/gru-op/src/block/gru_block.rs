//! The module: its forward passes.

use super::{
    GruLayer,
    arguments::{check_sequence, expect_forward},
};
#[cfg(feature = "cpu-kernels")]
use crate::op::infer::{Plain, PlainLayer, infer};
use crate::{
    op::options::{GruWeights, SequenceOptions},
    op::packed,
    op::sequence::{Flags, GruGates, Operation},
    op::shape,
};
use burn::{module::Module, nn::Dropout, tensor::Tensor};
use gru_spec::Layout;
use std::iter::repeat_n;
#[cfg(feature = "autodiff")]
use std::sync::Once;

/// Layers of GRUs in one or both directions, with dropout between layers.
///
/// Create it by [`GruBlockConfig`](crate::GruBlockConfig), from Burn's modules (`GruBlock::try_from(gru)`), or
/// with an importer of the crate [`gru-convert`](https://docs.rs/gru-convert). The [front page](crate) lists
/// the equations.
///
/// # Saving
///
/// A Burn record stores parameters by name, but not which GRU they belong to. Parameters of a reset-before GRU
/// load into a reset-after GRU, which then returns other numbers. So save the configuration too:
/// - With the feature `store`, `save_with_config` writes both to one file, and `from_file` rebuilds the block.
/// - If the block is part of a larger model, save its [`config`](Self::config) next to the record, and pass it
///   to [`check_config`](Self::check_config) when you load the record.
///
/// # Training
///
/// The block draws noise if its input or a recurrent weight is on an autodiff device, and neither `valid` nor `freeze` was
/// called, like Burn's dropout. `no_grad` does not switch it off. There are three kinds: dropout between layers for every
/// element, recurrent dropout once per sequence, zoneout for every step and unit. The returned state stays in the graph of
/// autodiff: `detach` it between the windows of a long sequence.
///
/// # Quantization
///
/// `quantize_weights` makes the stored parameters smaller. There are no kernels for quantized weights. Every
/// call dequantizes them first, which takes longer, and `save_with_config` rejects the block. For inference with
/// small weights, [`prepare`](Self::prepare) a block with its own 8-bit weights instead.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use gru_op::GruBlockConfig;
///
/// let device = Device::flex();
/// let gru = GruBlockConfig::new(8, 16).with_num_layers(2).init(&device);
/// let x = Tensor::<3>::random([4, 10, 8], Distribution::Default, &device); // [N, T, I]
/// let (y, state) = gru.forward(x, None);
/// assert_eq!(y.dims(), [4, 10, 16]); // [N, T, H]
/// assert_eq!(state.dims(), [2, 4, 16]); // [L, N, H]
/// ```
#[derive(Module, Debug)]
#[non_exhaustive]
#[module(custom_display)]
pub struct GruBlock {
    /// Layer `l`, direction `d` is at `l·D + d`. Forward precedes reverse.
    pub layers: Vec<GruLayer>,
    /// Dropout between layers, in training.
    pub dropout: Dropout,
    /// I, features of the input.
    pub d_input: usize,
    /// H, hidden units of every layer and direction.
    pub d_hidden: usize,
    /// L, layers.
    pub num_layers: usize,
    /// Whether every layer has both directions.
    pub bidirectional: bool,
    /// Whether sequences are `[N,T,·]`. Otherwise they are `[T,N,·]`.
    pub batch_first: bool,
}

impl GruBlock {
    /// D, directions: 1 or 2.
    pub fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// Runs every layer over a sequence.
    ///
    /// # Shapes
    /// - `x`: `[N,T,I]`, or `[T,N,I]` without `batch_first`.
    /// - `state`: `[L·D,N,H]`; zeros if absent.
    /// - returns the output of the last layer, `[N,T,D·H]` or `[T,N,D·H]` (forward, then reverse), and the
    ///   final state of every layer and direction, `[L·D,N,H]`.
    ///
    /// On Flex and ndarray a call uses the threads of the rayon pool in which it is made.
    ///
    /// # Panics
    /// If shapes, dtypes, devices (autodiff aside), gradient checkpointing or changed fields do not match.
    ///
    /// ```
    /// # use burn::tensor::{Device, Distribution, Tensor};
    /// # use gru_op::GruBlockConfig;
    /// # let (n, t, i, h, device) = (3, 5, 3, 4, Device::flex());
    /// # let x = Tensor::<3>::random([n, t, i], Distribution::Default, &device);
    /// let gru = GruBlockConfig::new(i, h).with_num_layers(2).with_bidirectional(true).init(&device);
    /// let (y, state) = gru.forward(x, None);
    /// assert_eq!((y.dims(), state.dims()), ([n, t, 2 * h], [4, n, h]));
    /// ```
    pub fn forward(&self, x: Tensor<3>, state: Option<Tensor<3>>) -> (Tensor<3>, Tensor<3>) {
        let options = SequenceOptions::new().state(state);
        self.run("GruBlock::forward", x, self.layout(), options)
    }

    /// [`forward`](Self::forward) with options: the state, lengths or a mask, and starts.
    ///
    /// With lengths, the final state of the forward direction is the state after the last step of each row, and of the
    /// reverse direction after the step at time 0. A row without valid steps keeps its initial state. A skipped step of a
    /// mask keeps the state. There and past the end of a row, `x` is ignored, even NaN, and its gradient is zero. At a start,
    /// every layer and direction restarts with its own start state.
    ///
    /// # Panics
    /// - As [`forward`](Self::forward).
    /// - If there is not one length for every row, or a length is larger than T.
    /// - If there is a start state without starts.
    /// - If the shape or device of the mask or the starts does not match `x`.
    ///
    /// ```
    /// # use burn::tensor::{Device, Distribution, Tensor};
    /// use gru_op::{GruBlockConfig, SequenceOptions};
    ///
    /// # let (n, t, i, h, device) = (3, 5, 3, 4, Device::flex());
    /// # let x = Tensor::<3>::random([n, t, i], Distribution::Default, &device);
    /// let gru = GruBlockConfig::new(i, h).init(&device);
    /// let (y, _) = gru.forward_with(x, SequenceOptions::new().lengths(&[5, 0, 2]));
    /// let past_the_end = y.slice([2..3, 2..5]).abs().sum();
    /// assert_eq!(past_the_end.into_scalar::<f32>(), 0.0);
    ///
    /// let gru = GruBlockConfig::new(1, h).init(&device);
    /// let padding = -1.0;
    /// let x = Tensor::<3>::from_floats([[[0.5], [padding], [0.25]]], &device);
    /// let mask = x.clone().not_equal_elem(padding).squeeze_dim::<2>(2);
    /// let (y, _) = gru.forward_with(x, SequenceOptions::new().mask(mask));
    /// let [first, second] = [0..1, 1..2].map(|t| y.clone().slice([0..1, t]).into_data());
    /// assert_eq!(first, second);
    /// ```
    pub fn forward_with(
        &self,
        x: Tensor<3>,
        options: SequenceOptions<3>,
    ) -> (Tensor<3>, Tensor<3>) {
        self.run("GruBlock::forward_with", x, self.layout(), options)
    }

    /// Runs every layer over a packed batch, whose row `n` has `lengths[n]` steps, without padding. A padded batch with
    /// lengths has the same results, up to rounding. [`pack`](crate::pack) and [`unpack`](crate::unpack) convert batches.
    /// Zoneout and dropout are drawn for the packed steps, recurrent dropout for each row.
    ///
    /// # Shapes
    /// - `x`: `[M,I]`, whether or not the block is `batch_first`. M is the sum of the lengths, N their number.
    /// - `state`: `[L·D,N,H]`; zeros if absent.
    /// - returns the output of the last layer `[M,D·H]`, and the final states `[L·D,N,H]`.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), and if M is not the sum of the lengths.
    ///
    /// ```
    /// # use burn::tensor::{Device, Distribution, Tensor};
    /// # use gru_op::GruBlockConfig;
    /// # let (i, h, device) = (3, 4, Device::flex());
    /// let gru = GruBlockConfig::new(i, h).with_bidirectional(true).init(&device);
    /// let x = Tensor::<2>::random([5 + 2, i], Distribution::Default, &device);
    /// let (y, state) = gru.forward_packed(x, &[5, 2], None);
    /// assert_eq!((y.dims(), state.dims()), ([7, 2 * h], [2, 2, h]));
    /// ```
    pub fn forward_packed(
        &self,
        x: Tensor<2>,
        lengths: &[usize],
        state: Option<Tensor<3>>,
    ) -> (Tensor<2>, Tensor<3>) {
        const OP: &str = "GruBlock::forward_packed";
        let options = SequenceOptions::new().state(state);
        packed::in_sequence(OP, x, lengths, options, |x, options| {
            self.run(OP, x, Layout::BatchMajor, options)
        })
    }

    /// `x` is a sequence, or a step `[N,I]`, and the output likewise.
    fn run<const D: usize>(
        &self,
        op: &str,
        x: Tensor<D>,
        layout: Layout,
        mut options: SequenceOptions<3>,
    ) -> (Tensor<D>, Tensor<3>) {
        let dims = shape::of_sequence(&x);
        options.order.layout = layout;
        check_sequence(op, &x, dims, &options, self.sizes(op));
        #[cfg(feature = "cpu-kernels")]
        if let Some(layers) = self.plain_layers(&x, dims, &options) {
            let memories = self.layers.iter().filter_map(|layer| layer.memory.as_ref());
            memories.for_each(|memory| memory.infer());
            let (sizes, batch) = ([self.d_input, self.d_hidden], [dims[0], dims[1]]);
            return infer(sizes, self.directions(), &layers, x, batch, options);
        }
        self.run_layers(op, x, &options)
    }

    /// The layers, if their weights and all arguments are plain.
    #[cfg(feature = "cpu-kernels")]
    fn plain_layers<const D: usize>(
        &self,
        x: &Tensor<D>,
        dims: [usize; 3],
        options: &SequenceOptions<3>,
    ) -> Option<Vec<PlainLayer>> {
        let (h, mut layers) = (self.d_hidden, Vec::with_capacity(self.layers.len()));
        let plain = Plain::like(x, dims, h)?;
        if !plain.has(&options.state) || !plain.has(&options.starts.state) {
            return None;
        }
        for (k, layer) in self.layers.iter().enumerate() {
            let d = self.directions();
            let i = if k < d { self.d_input } else { d * h };
            let how = (&layer.spec, layer.direction, layer.zoneout);
            layers.push(plain.layer([i, h], layer.weights(), how)?);
        }
        Some(layers)
    }

    /// [`run`](Self::run) for arguments that were checked, layer by layer.
    pub(super) fn run_layers<const D: usize>(
        &self,
        op: &str,
        x: Tensor<D>,
        options: &SequenceOptions<3>,
    ) -> (Tensor<D>, Tensor<3>) {
        let dims = shape::of_sequence(&x);
        let x = shape::view(x, dims);
        // No panic: if parameters are weights with noise, their originals are trained.
        #[cfg(feature = "autodiff")]
        if self.layers.iter().any(GruLayer::is_derived) {
            static WARNED: Once = Once::new();
            WARNED.call_once(|| {
                log::warn!(
                    "{op}: parameters are results of an operation, such as a cast, so an optimizer has no gradients \
                     for them; change `block.valid()` instead, then call `train()`"
                );
            });
        }
        let (training, mut finals) = (self.training(&x), Vec::with_capacity(self.layers.len()));
        let y = self.each_layer(op, x, options, training, |operation, x| {
            let (y, last) = operation.states(x);
            finals.push(last);
            y
        });
        (shape::of_rank(y), shape::stack(finals))
    }

    /// The states and gates of every layer and direction, in the order of [`layers`](Self::layers), for
    /// inspection. Nothing is recorded for backward: they are on the device without autodiff. Nothing is random: dropout
    /// is off, and zoneout uses its mean, as in inference. Gates may be any value at skipped steps
    /// and past the end of a row, also NaN: replace them with `mask_fill` before a mean.
    ///
    /// # Panics
    /// As [`forward_with`](Self::forward_with).
    ///
    /// ```
    /// # use burn::tensor::{Device, Distribution, Tensor};
    /// use gru_op::{GruBlockConfig, SequenceOptions};
    ///
    /// # let (n, t, i, h, device) = (3, 5, 3, 4, Device::flex());
    /// # let x = Tensor::<3>::random([n, t, i], Distribution::Default, &device);
    /// let gru = GruBlockConfig::new(i, h).with_num_layers(2).init(&device);
    /// let gates = gru.gates(x, SequenceOptions::new());
    /// assert_eq!(gates[1].reset.dims(), [n, t, h]); // of the second layer
    /// ```
    pub fn gates(&self, x: Tensor<3>, options: SequenceOptions<3>) -> Vec<GruGates> {
        const OP: &str = "GruBlock::gates";
        let (block, x, mut options) = (self.valid(), x.inner(), options.inner());
        options.order.layout = self.layout();
        let mut all = Vec::with_capacity(self.layers.len());
        check_sequence(OP, &x, x.dims(), &options, self.sizes(OP));
        block.each_layer(OP, x, &options, false, |operation, x| {
            let gates = operation.gates(x);
            let y = gates.states.clone();
            all.push(gates);
            y
        });
        all
    }

    /// Runs the operation of every direction of every layer, and returns the output of the last layer.
    fn each_layer(
        &self,
        op: &str,
        mut x: Tensor<3>,
        options: &SequenceOptions<3>,
        training: bool,
        mut run: impl FnMut(Operation, Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        let (mut k, flags) = (0, Flags::new(&x, options));
        for layer in self.layers.chunks_exact(self.directions()) {
            if k > 0 && training {
                x = self.dropout.forward(x);
            }
            let mut outputs = Vec::with_capacity(layer.len());
            for (direction, x) in layer.iter().zip(repeat_n(x, layer.len())) {
                let operation = direction.operation((op, k), options, &flags, &x, training);
                outputs.push(run(operation, x));
                k += 1;
            }
            x = shape::cat(outputs, 2);
        }
        x
    }

    /// Runs every layer over one step, for streaming. The result is one step of [`forward`](Self::forward), up
    /// to rounding. For many steps on a CPU, [prepare](Self::prepare) the block: its
    /// [`step`](crate::PreparedGru::step) is faster.
    ///
    /// # Shapes
    /// - `x`: `[N,I]`.
    /// - `state`: `[L,N,H]`, the result of the previous step; zeros if absent.
    /// - returns the output of the last layer `[N,H]` and the new state `[L,N,H]`.
    ///
    /// # Panics
    /// If shapes, devices or dtypes do not match. If a layer has the reverse direction, which requires the whole
    /// sequence. In training with recurrent dropout, which is drawn once per sequence.
    ///
    /// ```
    /// # use burn::tensor::{Device, Distribution, Tensor};
    /// # use gru_op::GruBlockConfig;
    /// # let (n, t, i, h, device) = (3, 5, 3, 4, Device::flex());
    /// # let x = Tensor::<3>::random([n, t, i], Distribution::Default, &device);
    /// let gru = GruBlockConfig::new(i, h).init(&device);
    /// let (y, last) = gru.forward(x.clone(), None);
    /// let mut state = None;
    /// for t in 0..t {
    ///     let x_t = x.clone().narrow(1, t, 1).squeeze_dim::<2>(1);
    ///     let (_, new) = gru.step(x_t, state);
    ///     state = Some(new);
    /// }
    /// let difference = (state.unwrap() - last).abs().max();
    /// assert!(difference.into_scalar::<f32>() < 1e-6);
    /// ```
    pub fn step(&self, x: Tensor<2>, state: Option<Tensor<3>>) -> (Tensor<2>, Tensor<3>) {
        const OP: &str = "GruBlock::step";
        let training = self.training(&x);
        expect_forward(OP, self.layers.iter().map(|layer| layer.direction));
        for layer in &self.layers {
            assert!(
                !training || layer.recurrent_dropout == 0.0,
                "{OP}: recurrent dropout is drawn once per sequence, expected 0 in training, got {}; run \
                 `forward`, or the module's `valid()`",
                layer.recurrent_dropout
            );
        }
        let options = SequenceOptions::new().state(state);
        self.run(OP, x, Layout::TimeMajor, options)
    }

    /// The weights of every layer and direction, in the order of [`layers`](Self::layers).
    /// [`GruBlockConfig::init_with`](crate::GruBlockConfig::init_with) builds a block from them.
    pub fn weights(&self) -> Vec<GruWeights> {
        self.layers.iter().map(GruLayer::weights).collect()
    }

    /// Whether to draw noise, by the rule of Burn's dropout. Not for an empty input.
    fn training<const D: usize>(&self, x: &Tensor<D>) -> bool {
        let is_empty = x.dims().contains(&0);
        !is_empty
            && self.dropout.training.is_enabled()
            && (x.device().is_autodiff()
                || (self.layers.iter()).any(|layer| layer.w_hh.device().is_autodiff()))
    }

    fn layout(&self) -> Layout {
        layout(self.batch_first)
    }

    /// I, H and L·D.
    ///
    /// # Panics
    /// If [`layers`](Self::layers) was changed to another number.
    fn sizes(&self, op: &str) -> [usize; 3] {
        let (expected, actual) = (self.num_layers * self.directions(), self.layers.len());
        assert!(
            actual == expected,
            "{op}: layers must have one entry for each layer and direction, expected {expected}, got {actual}"
        );
        [self.d_input, self.d_hidden, actual]
    }
}

pub(super) fn layout(batch_first: bool) -> Layout {
    if batch_first {
        Layout::BatchMajor
    } else {
        Layout::TimeMajor
    }
}
