//! One direction of one layer: its parameters, its kind of GRU, its noise.

use super::GruLayerOptions;
use crate::{
    backend::LayerMemory,
    op::check::Names,
    op::options::{GruWeights, Padding, SequenceOptions},
    op::padding::Shared,
    op::sequence::layer_as,
};
use burn::{
    module::{Module, Param},
    tensor::{DType, Device, Distribution, Tensor},
};
use gru_spec::{Checkpointing, Direction, GruSpec, Layout, Order};

/// The parameters of one direction of one layer; gates packed `r | z | n` in columns.
#[derive(Module, Debug)]
#[non_exhaustive]
pub struct GruLayer {
    /// Input weight `[I,3H]`.
    pub w_ih: Param<Tensor<2>>,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: Param<Tensor<2>>,
    /// Bias of the input product `[3H]`.
    pub b_ih: Option<Param<Tensor<1>>>,
    /// Bias of the recurrent product `[3H]`, or `[H]` for the candidate alone.
    pub b_hh: Option<Param<Tensor<1>>>,
    /// Probability with which a unit of the state is hidden from the gates, in training. Drawn
    /// once per row and sequence.
    pub recurrent_dropout: f64,
    /// Probability with which a unit keeps its previous state.
    pub zoneout: f64,
    /// What a step computes.
    #[module(skip)]
    pub spec: GruSpec,
    /// The direction in which time is iterated.
    #[module(skip)]
    pub direction: Direction,
    /// What training keeps.
    #[module(skip)]
    pub checkpointing: Checkpointing,
    /// What the layer keeps between calls.
    #[module(skip)]
    pub(super) memory: LayerMemory,
}

/// The call that a layer is a part of.
pub(super) struct Part<'a> {
    pub(super) names: Names<'a>,
    pub(super) padding: Padding,
    pub(super) shared: Shared<'a>,
    pub(super) layout: Layout,
    pub(super) training: bool,
}

fn float<const D: usize>(parameter: &Param<Tensor<D>>) -> Tensor<D> {
    let tensor = parameter.val();
    match tensor.dtype() {
        DType::QFloat(_) => tensor.dequantize(),
        _ => tensor,
    }
}

impl GruLayer {
    /// The parameters as the operator takes them: for [`gru_sequence`](crate::gru_sequence) and
    /// [`gru_cell`](crate::gru_cell), with [`spec`](Self::spec). Quantized parameters are dequantized.
    pub fn weights(&self) -> GruWeights {
        GruWeights {
            w_ih: Some(float(&self.w_ih)),
            w_hh: float(&self.w_hh),
            b_ih: self.b_ih.as_ref().map(float),
            b_hh: self.b_hh.as_ref().map(float),
        }
    }

    /// H, hidden units.
    pub(crate) fn d_hidden(&self) -> usize {
        self.w_hh.dims()[0]
    }

    /// What this layer may have for itself.
    pub(super) fn options(&self) -> GruLayerOptions {
        GruLayerOptions {
            reset: self.spec.reset,
            update: self.spec.update,
            activations: self.spec.activations,
            clip_gates: self.spec.clip_gates,
            clip_state: self.spec.clip_state,
            recurrent_dropout: self.recurrent_dropout,
            zoneout: self.zoneout,
        }
    }

    /// Runs over a sequence as a part of a call.
    pub(super) fn forward(
        &self,
        x: Tensor<3>,
        h0: Option<Tensor<2>>,
        part: Part,
    ) -> (Tensor<3>, Tensor<2>) {
        let Part {
            names,
            padding,
            shared,
            layout,
            training,
        } = part;
        let [first, second, _] = x.dims();
        let mask = training.then(|| self.draw_mask(&x, layout)).flatten();
        let place = (&x.device(), x.dtype());
        let options = SequenceOptions {
            recurrent_mask: mask,
            padding,
            ..self.call_options(h0, [first, second], place, layout, training)
        };
        layer_as(names, x, options, &self.weights(), &self.spec, shared)
    }

    /// The options of a call with these first two dimensions of its sequence.
    pub(super) fn call_options(
        &self,
        state: Option<Tensor<2>>,
        dims: [usize; 2],
        place: (&Device, DType),
        layout: Layout,
        training: bool,
    ) -> SequenceOptions<2> {
        SequenceOptions {
            state,
            zoneout: self.draw_zoneout(dims, place, training),
            order: Order {
                layout,
                direction: self.direction,
            },
            checkpointing: self.checkpointing,
            memory: self.memory.clone(),
            ..SequenceOptions::new()
        }
    }

    /// `[N,H]`: zero where a unit is hidden, else the scale that keeps its expectation.
    fn draw_mask(&self, x: &Tensor<3>, layout: Layout) -> Option<Tensor<2>> {
        if self.recurrent_dropout == 0.0 {
            return None;
        }
        let [first, second, _] = x.dims();
        let [n, _] = layout.split([first, second]);
        let shown = 1.0 - self.recurrent_dropout;
        let draw = Distribution::Bernoulli(shown);
        let mask = Tensor::random([n, self.d_hidden()], draw, (&x.device(), x.dtype()));
        Some(mask * (1.0 / shown))
    }

    /// The share of the previous state that is kept: drawn for every step and unit in training, its
    /// expectation elsewhere.
    fn draw_zoneout(
        &self,
        [first, second]: [usize; 2],
        place: (&Device, DType),
        training: bool,
    ) -> Option<Tensor<3>> {
        if self.zoneout == 0.0 {
            return None;
        }
        Some(if training {
            let shape = [first, second, self.d_hidden()];
            Tensor::random(shape, Distribution::Bernoulli(self.zoneout), place)
        } else {
            Tensor::full([first, second, 1], self.zoneout, place)
        })
    }
}
