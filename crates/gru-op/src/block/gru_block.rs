//! The module: layers, forward and streaming.

use super::{GruLayer, layer::Part};
use crate::{
    op::check::{Names, expect, expect_state},
    op::options::{GruWeights, Padding, SequenceOptions},
    op::padding::Shared,
    op::sequence::{GruGates, cell_as, gates_as},
    op::shape,
};
use burn::{module::Module, nn::Dropout, tensor::Tensor};
use gru_spec::{Direction, Layout};

/// Layers of GRUs, in one or both directions, with dropout between them.
///
/// Made by [`GruBlockConfig`](crate::GruBlockConfig), by an importer of
/// [`gru-convert`](https://docs.rs/gru-convert), or from Burn's own modules:
/// `GruBlock::try_from(gru)`. The equations are those at the [root of the crate](crate).
///
/// # Saving
///
/// Burn's records hold parameters by name, and do not say which GRU they belong to: those of a
/// block that resets before the product load into one that resets after it, and give other
/// numbers. Save the configuration with them: with the feature `store`, `save_with_config` writes
/// one file for both, `from_file` makes the block of it, and `load_checked` refuses parameters of
/// another GRU.
///
/// A block inside a larger model is saved by the model: keep its [`config`](Self::config) beside
/// the record, and hand it to [`check_config`](Self::check_config) when that is loaded.
///
/// # Training
///
/// It behaves as in training where its input is on a device with autodiff and the block is not
/// frozen, as Burn's own dropout; then the three kinds of noise are drawn: dropout between layers
/// for every element, recurrent dropout once per sequence, zoneout for every step and unit.
///
/// # Quantization
///
/// `quantize_weights` makes the stored parameters smaller. There are no kernels for quantized weights: every
/// call dequantizes them first, so results are those of the dequantized weights, a call takes longer, and
/// `save_with_config` rejects the block. Quantize for storage, and dequantize before use where speed counts.
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
    /// Layer `l`, direction `d` stands at `l·D + d`, forward before reverse.
    pub layers: Vec<GruLayer>,
    /// Between two layers, in training.
    pub dropout: Dropout,
    /// I, features of the input.
    pub d_input: usize,
    /// H, hidden units of every layer and direction.
    pub d_hidden: usize,
    /// L, layers.
    pub num_layers: usize,
    /// Whether every layer walks time in both directions.
    pub bidirectional: bool,
    /// Whether sequences are `[N,T,·]` or `[T,N,·]`.
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
    /// - returns the last layer's output `[N,T,D·H]` or `[T,N,D·H]`, forward before reverse, and
    ///   the final state of every layer and direction, `[L·D,N,H]`.
    ///
    /// # Panics
    /// If shapes, devices or dtypes do not fit together.
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
        self.run("GruBlock::forward", x, Padding::None, state)
    }

    /// [`forward`](Self::forward) with options: the state, and lengths or a mask.
    ///
    /// Row `n` ends after its first `lengths[n]` steps, as PyTorch's packed sequences do. Lengths have any
    /// order, zero included. What `x` holds past the end has no effect, and the output there is zero. The
    /// final state is the one at each row's own end (the initial one for a length of zero), where the reverse
    /// direction starts.
    ///
    /// A mask, `[N,T]` or `[T,N]`, is true at valid steps, with holes anywhere, as Keras' mask. At a skipped
    /// step the state is kept, and the output of every layer repeats the previous one. It is zero before the
    /// first valid step.
    ///
    /// # Panics
    /// As [`forward`](Self::forward). If there is not one length for every row, or one is larger than T. If the
    /// shape or device of the mask is not that of `x`.
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
    /// let padding = -1.0; // in place of a number
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
        let SequenceOptions { state, padding, .. } = options;
        self.run("GruBlock::forward_with", x, padding, state)
    }

    fn run(
        &self,
        op: &str,
        x: Tensor<3>,
        padding: Padding,
        state: Option<Tensor<3>>,
    ) -> (Tensor<3>, Tensor<3>) {
        let (layout, states) = self.check(op, &x, state);
        let training = self.training(&x);

        let mut x = x;
        let skips = Default::default();
        let mut finals = Vec::with_capacity(self.layers.len());
        for (l, layer) in self.layers.chunks_exact(self.directions()).enumerate() {
            if l > 0 && training {
                x = self.dropout.forward(x);
            }
            let mut outputs = Vec::with_capacity(layer.len());
            for direction in layer {
                let k = finals.len();
                let h0 = states.as_ref().map(|s| s[k].clone());
                let part = Part {
                    names: Self::names(op, k),
                    padding: padding.clone(),
                    shared: Shared {
                        skips: &skips,
                        above: l > 0,
                    },
                    layout,
                    training,
                };
                let (y, last) = direction.forward(x.clone(), h0, part);
                outputs.push(y);
                finals.push(last);
            }
            x = shape::cat(outputs, 2);
        }
        (x, shape::stack(finals))
    }

    /// What happens inside while [`forward`](Self::forward) runs without noise: the states and
    /// gates of every layer and direction, in the order of [`layers`](Self::layers). To look at:
    /// constants to autodiff. The states contain the expectation of zoneout, as those of `forward` do.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    ///
    /// ```
    /// # use burn::tensor::{Device, Distribution, Tensor};
    /// # use gru_op::GruBlockConfig;
    /// # let (n, t, i, h, device) = (3, 5, 3, 4, Device::flex());
    /// # let x = Tensor::<3>::random([n, t, i], Distribution::Default, &device);
    /// let gru = GruBlockConfig::new(i, h).with_num_layers(2).init(&device);
    /// let gates = gru.gates(x, None);
    /// assert_eq!(gates[1].reset.dims(), [n, t, h]); // of the second layer
    /// ```
    pub fn gates(&self, x: Tensor<3>, state: Option<Tensor<3>>) -> Vec<GruGates> {
        const OP: &str = "GruBlock::gates";
        let (layout, states) = self.check(OP, &x, state);
        let mut x = x;
        let mut all = Vec::with_capacity(self.layers.len());
        for layer in self.layers.chunks_exact(self.directions()) {
            let mut outputs = Vec::with_capacity(layer.len());
            for direction in layer {
                let k = all.len();
                let [first, second, _] = x.dims();
                let (state, place) = (
                    states.as_ref().map(|s| s[k].clone()),
                    (&x.device(), x.dtype()),
                );
                let options = direction.call_options(state, [first, second], place, layout, false);
                let (names, weights) = (Self::names(OP, k), direction.weights());
                let gates = gates_as(names, x.clone(), options, &weights, &direction.spec);
                outputs.push(gates.states.clone());
                all.push(gates);
            }
            x = shape::cat(outputs, 2);
        }
        all
    }

    /// Runs every layer over one step, for streaming: as one step of [`forward`](Self::forward),
    /// to the rounding of its dtype.
    ///
    /// # Shapes
    /// - `x`: `[N,I]`.
    /// - `state`: `[L,N,H]`, what the step before returned; zeros if absent.
    /// - returns the last layer's output `[N,H]` and the new state `[L,N,H]`.
    ///
    /// # Panics
    /// If shapes, devices or dtypes do not fit together; if a layer walks time in reverse, which
    /// needs the whole sequence; or in training with recurrent dropout, which is drawn once per
    /// sequence.
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
        let [n, features] = x.dims();
        self.expect_features(OP, features, || format!("x is {:?}", x.dims()));
        let states = self.split_state(OP, &x, n, state);
        let training = self.training(&x);
        let mut x = x;
        let mut new = Vec::with_capacity(self.layers.len());
        for (l, layer) in self.layers.iter().enumerate() {
            assert!(
                layer.direction == Direction::Forward,
                "{OP}: expected layers that walk time forward, got one in reverse, which needs the \
                 whole sequence"
            );
            assert!(
                !training || layer.recurrent_dropout == 0.0,
                "{OP}: recurrent dropout is drawn once per sequence, expected 0 in training, got \
                 {}; run `forward`, or the module's `valid()`",
                layer.recurrent_dropout
            );
            if l > 0 && training {
                x = self.dropout.forward(x);
            }
            let (state, place) = (
                states.as_ref().map(|s| s[l].clone()),
                (&x.device(), x.dtype()),
            );
            let options = layer.call_options(state, [1, n], place, Layout::TimeMajor, training);
            x = cell_as(
                Self::names(OP, l),
                x,
                options,
                &layer.weights(),
                &layer.spec,
            );
            new.push(x.clone());
        }
        (x, shape::stack(new))
    }

    /// The weights of every layer and direction, in the order of [`layers`](Self::layers):
    /// [`GruBlockConfig::init_with`](crate::GruBlockConfig::init_with) makes a block of them.
    pub fn weights(&self) -> Vec<GruWeights> {
        self.layers.iter().map(GruLayer::weights).collect()
    }

    /// What the panics of a layer are to say.
    fn names(op: &str, layer: usize) -> Names<'_> {
        Names {
            op,
            h0: "state",
            layer: Some(layer),
        }
    }

    /// The rule of Burn's dropout: a backward is possible, and this module takes part in it. Where
    /// there is nothing, there is no noise to draw either.
    fn training<const D: usize>(&self, x: &Tensor<D>) -> bool {
        let nothing = x.dims().contains(&0);
        !nothing && self.dropout.training.is_enabled() && x.device().is_autodiff()
    }

    /// Checks the arguments of a sequence; its layout, and the initial state of each layer and
    /// direction.
    fn check(
        &self,
        op: &str,
        x: &Tensor<3>,
        state: Option<Tensor<3>>,
    ) -> (Layout, Option<Vec<Tensor<2>>>) {
        let [first, second, features] = x.dims();
        let layout = if self.batch_first {
            Layout::BatchMajor
        } else {
            Layout::TimeMajor
        };
        let [n, _] = layout.split([first, second]);
        self.expect_features(op, features, || format!("x is {:?}", x.dims()));
        (layout, self.split_state(op, x, n, state))
    }

    fn expect_features(&self, op: &str, features: usize, x: impl Fn() -> String) {
        expect(
            op,
            "the last dimension of x",
            [features],
            [self.d_input],
            || format!("{} and the block reads d_input features", x()),
        );
    }

    /// `[L·D,N,H]` to one `[N,H]` for each layer and direction.
    fn split_state<const X: usize>(
        &self,
        op: &str,
        x: &Tensor<X>,
        n: usize,
        state: Option<Tensor<3>>,
    ) -> Option<Vec<Tensor<2>>> {
        let state = state?;
        let (layers, h) = (self.layers.len(), self.d_hidden);
        expect(
            op,
            "state [L·D, N, H]",
            state.dims(),
            [layers, n, h],
            || format!("N is {n}, the block has {layers} layers times directions and H is {h}"),
        );
        expect_state(op, &state, x);
        let split = |k| shape::at(state.clone(), 0, k);
        Some((0..layers).map(split).collect())
    }
}
