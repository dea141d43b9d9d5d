//! One direction of one layer: its parameters, its kind of GRU, its noise.

use super::GruLayerOptions;
use crate::{
    GruOptions, GruWeights, Steps,
    api::layer_as,
    shape::Names,
    spec::{GruSpec, Layout},
    steps::Shared,
};
use burn::{
    module::{Module, Param},
    tensor::{DType, Device, Distribution, Tensor},
};

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
    /// Which GRU this is, and in which direction it walks. The layout is the block's affair.
    #[module(skip)]
    pub spec: GruSpec,
}

/// What a layer is told of the call that it is a part of.
pub(super) struct Part<'a> {
    pub(super) names: Names<'a>,
    pub(super) steps: Steps,
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
            steps,
            shared,
            layout,
            training,
        } = part;
        let spec = self.spec.with_layout(layout);
        let options = GruOptions {
            h0,
            mask: training.then(|| self.draw_mask(&x, layout)).flatten(),
            take: self.take(
                [x.dims()[0], x.dims()[1]],
                (&x.device(), x.dtype()),
                training,
            ),
            steps,
        };
        layer_as(names, x, options, &self.weights(), &spec, shared)
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

    /// The share of the new state that zoneout takes: drawn for every step and unit in training,
    /// its expectation elsewhere.
    pub(super) fn take(
        &self,
        [first, second]: [usize; 2],
        place: (&Device, DType),
        training: bool,
    ) -> Option<Tensor<3>> {
        if self.zoneout == 0.0 {
            return None;
        }
        let taken = 1.0 - self.zoneout;
        Some(match training {
            true => {
                let shape = [first, second, self.d_hidden()];
                Tensor::random(shape, Distribution::Bernoulli(taken), place)
            }
            false => Tensor::full([first, second, 1], taken, place),
        })
    }
}
