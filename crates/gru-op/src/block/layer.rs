//! One direction of one layer.

use super::GruLayerOptions;
use crate::{
    backend::LayerMemory,
    op::check::OpNames,
    op::options::{GruWeights, SequenceOptions, Starts},
    op::sequence::{Flags, Operation},
    op::shape,
};
use burn::{
    module::{Module, Param},
    tensor::{DType, Distribution, Tensor},
};
use gru_spec::{Checkpointing, Direction, GruSpec, Order};

/// One direction of one layer: its parameters, with gates packed `r | z | n` in columns, and its options.
#[derive(Module, Debug)]
#[non_exhaustive]
pub struct GruLayer {
    /// Input weight `[I,3H]`.
    pub w_ih: Param<Tensor<2>>,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: Param<Tensor<2>>,
    /// Bias of the input product `[3H]`.
    pub b_ih: Option<Param<Tensor<1>>>,
    /// Bias of the recurrent product `[3H]`.
    pub b_hh: Option<Param<Tensor<1>>>,
    /// Probability that the gates do not see a unit of the state, in training. Drawn once per row and
    /// sequence.
    pub recurrent_dropout: f64,
    /// Probability that a unit keeps its previous state.
    pub zoneout: f64,
    /// What a step computes.
    #[module(skip)]
    pub spec: GruSpec,
    /// The direction of time.
    #[module(skip)]
    pub direction: Direction,
    /// What training keeps.
    #[module(skip)]
    pub checkpointing: Checkpointing,
    /// What the layer keeps between calls.
    #[module(skip)]
    pub(super) memory: LayerMemory,
}

fn float<const D: usize>(parameter: &Param<Tensor<D>>) -> Tensor<D> {
    let tensor = parameter.val();
    match tensor.dtype() {
        DType::QFloat(_) => tensor.dequantize(),
        _ => tensor,
    }
}

impl GruLayer {
    /// The parameters as arguments of [`gru_sequence`](crate::gru_sequence) and
    /// [`gru_cell`](crate::gru_cell), for use with [`spec`](Self::spec). Quantized parameters are dequantized.
    pub fn weights(&self) -> GruWeights {
        GruWeights {
            w_ih: Some(float(&self.w_ih)),
            w_hh: float(&self.w_hh),
            b_ih: self.b_ih.as_ref().map(float),
            b_hh: self.b_hh.as_ref().map(float),
        }
    }

    /// Whether a parameter is the result of an operation under autodiff. Then it is no leaf, and its gradient is not kept.
    #[cfg(feature = "autodiff")]
    pub(super) fn is_derived(&self) -> bool {
        fn is_result<const D: usize>(parameter: &Param<Tensor<D>>) -> bool {
            parameter.is_tracked() && !parameter.is_require_grad()
        }
        let mut biases = self.b_ih.iter().chain(&self.b_hh);
        is_result(&self.w_ih) || is_result(&self.w_hh) || biases.any(is_result)
    }

    pub(super) fn options(&self) -> GruLayerOptions {
        GruLayerOptions {
            spec: self.spec,
            recurrent_dropout: self.recurrent_dropout,
            zoneout: self.zoneout,
        }
    }

    /// The operation of this layer, the `k`-th of a block, on `x`. Draws its noise. `options` has the states of all
    /// layers, the lengths and the starts.
    pub(super) fn operation<'a>(
        &'a self,
        (op, k): (&'a str, usize),
        options: &SequenceOptions<3>,
        flags: &Flags,
        x: &Tensor<3>,
        training: bool,
    ) -> Operation<'a> {
        let ([first, second, _], layout) = (x.dims(), options.order.layout);
        let [n, _] = options.padding.batch(layout, [first, second]);
        let of_layer = |states: &Option<Tensor<3>>| Some(shape::at(states.clone()?, 0, k));
        Operation {
            names: OpNames {
                op,
                h0: "state",
                layer: Some(k),
            },
            weights: self.weights(),
            spec: &self.spec,
            options: SequenceOptions {
                state: of_layer(&options.state),
                padding: options.padding.clone(),
                starts: Starts {
                    flags: options.starts.flags.clone(),
                    state: of_layer(&options.starts.state),
                },
                order: Order {
                    layout,
                    direction: self.direction,
                },
                checkpointing: self.checkpointing,
                recurrent_mask: training.then(|| self.draw_mask(x, n)).flatten(),
                zoneout: self.draw_zoneout(x, training),
                memory: self.memory.clone(),
            },
            flags: Some(flags.clone()),
        }
    }

    /// The recurrent mask `[N,H]` of training: zero for a dropped unit, else the scale that keeps the mean.
    fn draw_mask(&self, x: &Tensor<3>, n: usize) -> Option<Tensor<2>> {
        if self.recurrent_dropout == 0.0 {
            return None;
        }
        let [h, _] = self.w_hh.dims();
        let kept = 1.0 - self.recurrent_dropout;
        let draw = Distribution::Bernoulli(kept);
        Some(Tensor::random([n, h], draw, (&x.device(), x.dtype())) * (1.0 / kept))
    }

    /// The share of the previous state that is kept: drawn for every step and unit in training, the mean
    /// otherwise.
    fn draw_zoneout(&self, x: &Tensor<3>, training: bool) -> Option<Tensor<3>> {
        if self.zoneout == 0.0 {
            return None;
        }
        let ([first, second, _], [h, _]) = (x.dims(), self.w_hh.dims());
        let place = (&x.device(), x.dtype());
        Some(if training {
            let draw = Distribution::Bernoulli(self.zoneout);
            Tensor::random([first, second, h], draw, place)
        } else {
            Tensor::full([first, second, 1], self.zoneout, place)
        })
    }
}
