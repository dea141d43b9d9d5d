//! The module: weights, forward and streaming.

use crate::{
    GruWeights, gru_cell, gru_sequence,
    shape::expect,
    spec::{Direction, GruSpec, Layout},
};
use burn::{
    module::{Content, DisplaySettings, Module, ModuleDisplay, Param},
    nn::Dropout,
    tensor::Tensor,
};

/// The parameters of one direction of one layer; gates packed `r | z | n` in columns.
#[derive(Module, Debug)]
pub struct GruLayer {
    /// Input weight `[I,3H]`.
    pub w_ih: Param<Tensor<2>>,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: Param<Tensor<2>>,
    /// Bias of the input product `[3H]`.
    pub b_ih: Option<Param<Tensor<1>>>,
    /// Bias of the recurrent product `[3H]`.
    pub b_hh: Option<Param<Tensor<1>>>,
}

impl GruLayer {
    /// The parameters as the operator takes them.
    pub fn weights(&self) -> GruWeights {
        GruWeights {
            w_ih: self.w_ih.val(),
            w_hh: self.w_hh.val(),
            b_ih: self.b_ih.as_ref().map(Param::val),
            b_hh: self.b_hh.as_ref().map(Param::val),
        }
    }
}

/// Layers of GRUs, in one or both directions, with dropout between them.
///
/// Made by [`GruBlockConfig`](crate::GruBlockConfig), or from Burn's own modules:
/// `GruBlock::try_from(gru)`. The equations are those at the [root of the crate](crate).
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
    /// Which GRU this is.
    #[module(skip)]
    pub spec: GruSpec,
}

impl ModuleDisplay for GruBlock {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new()
            .with_new_line_after_attribute(false)
            .optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let bias = self.layers.iter().any(|layer| layer.b_ih.is_some());
        content
            .add("d_input", &self.d_input)
            .add("d_hidden", &self.d_hidden)
            .add("num_layers", &self.num_layers)
            .add("bidirectional", &self.bidirectional)
            .add("dropout", &self.dropout.prob)
            .add("bias", &bias)
            .add("batch_first", &self.batch_first)
            .add("reset", format!("{:?}", self.spec.reset).as_str())
            .add("update", format!("{:?}", self.spec.update).as_str())
            .optional()
    }
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
    pub fn forward(&self, x: Tensor<3>, state: Option<Tensor<3>>) -> (Tensor<3>, Tensor<3>) {
        const OP: &str = "GruBlock::forward";
        let [first, second, features] = x.dims();
        let n = match self.spec.layout {
            Layout::BatchMajor => first,
            Layout::TimeMajor => second,
        };
        expect(
            OP,
            "the last dimension of x",
            [features],
            [self.d_input],
            || format!("x is {:?} and the block reads d_input features", x.dims()),
        );
        let states = self.split_state(OP, n, state);
        let directions: &[Direction] = match self.bidirectional {
            false => &[Direction::Forward],
            true => &[Direction::Forward, Direction::Reverse],
        };

        let mut x = x;
        let mut finals = Vec::with_capacity(self.layers.len());
        for (l, layer) in self.layers.chunks_exact(directions.len()).enumerate() {
            if l > 0 {
                x = self.dropout.forward(x);
            }
            let mut outputs = Vec::with_capacity(directions.len());
            for (d, (cell, &direction)) in layer.iter().zip(directions).enumerate() {
                let h0 = states.as_ref().map(|s| s[l * directions.len() + d].clone());
                let spec = self.spec.with_direction(direction);
                let (y, last) = gru_sequence(x.clone(), h0, &cell.weights(), &spec);
                outputs.push(y);
                finals.push(last);
            }
            x = match outputs.len() {
                1 => outputs.remove(0),
                _ => Tensor::cat(outputs, 2),
            };
        }
        (x, Tensor::stack(finals, 0))
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
    /// If shapes, devices or dtypes do not fit together, or if the block is bidirectional: its
    /// output needs the whole sequence.
    pub fn step(&self, x: Tensor<2>, state: Option<Tensor<3>>) -> (Tensor<2>, Tensor<3>) {
        const OP: &str = "GruBlock::step";
        assert!(
            !self.bidirectional,
            "{OP}: expected a block of one direction, got a bidirectional one, which needs the \
             whole sequence"
        );
        let [n, features] = x.dims();
        expect(
            OP,
            "the last dimension of x",
            [features],
            [self.d_input],
            || format!("x is {:?} and the block reads d_input features", x.dims()),
        );
        let states = self.split_state(OP, n, state);
        let mut x = x;
        let mut new = Vec::with_capacity(self.layers.len());
        for (l, layer) in self.layers.iter().enumerate() {
            if l > 0 {
                x = self.dropout.forward(x);
            }
            let h = states.as_ref().map(|s| s[l].clone());
            x = gru_cell(x, h, &layer.weights(), &self.spec);
            new.push(x.clone());
        }
        (x, Tensor::stack(new, 0))
    }

    /// `[L·D,N,H]` to one `[N,H]` for each layer and direction.
    fn split_state(&self, op: &str, n: usize, state: Option<Tensor<3>>) -> Option<Vec<Tensor<2>>> {
        let state = state?;
        let (layers, h) = (self.layers.len(), self.d_hidden);
        expect(
            op,
            "state [L·D, N, H]",
            state.dims(),
            [layers, n, h],
            || format!("N is {n}, the block has {layers} layers times directions and H is {h}"),
        );
        let split = |k| state.clone().narrow(0, k, 1).squeeze_dim(0);
        Some((0..layers).map(split).collect())
    }
}
