//! Conversions from Burn's `Gru` and `BiGru`, whose three gates have two `Linear` modules each.

use super::{GruBlock, GruBlockConfig, GruError};
use crate::op::options::GruWeights;
use burn::{
    module::Param,
    nn::{
        Linear,
        activation::{Activation as BurnActivation, ActivationConfig},
        gru::{BiGru, BiGruConfig, Gru, GruConfig},
    },
    tensor::Tensor,
};
use gru_spec::Activation;

/// Converts the weights. Use `GruBlock::try_from(gru)?` in place of `gru`, and a state `[1,N,H]` in place of
/// `[N,H]`.
impl TryFrom<Gru> for GruBlock {
    type Error = GruError;

    fn try_from(gru: Gru) -> Result<Self, GruError> {
        let block = config(&gru)?.init_with(vec![weights(&gru, "")?])?;
        Ok(trained_like(block, &[&gru]))
    }
}

/// Converts the weights. Arguments and results of `forward` are the same.
impl TryFrom<BiGru> for GruBlock {
    type Error = GruError;

    fn try_from(gru: BiGru) -> Result<Self, GruError> {
        let (forward, reverse) = (config(&gru.forward)?, config(&gru.reverse)?);
        let options = vec![forward.options_of(0), reverse.options_of(0)];
        let config = forward
            .with_bidirectional(true)
            .with_batch_first(gru.batch_first)
            .with_per_layer(options);
        let block = config.init_with(vec![
            weights(&gru.forward, "forward.")?,
            weights(&gru.reverse, "reverse.")?,
        ])?;
        Ok(trained_like(block, &[&gru.forward, &gru.reverse]))
    }
}

/// The same GRU with the same initializer.
///
/// # Errors
/// If there is no such [`Activation`].
impl TryFrom<&GruConfig> for GruBlockConfig {
    type Error = GruError;

    fn try_from(config: &GruConfig) -> Result<Self, GruError> {
        Ok(Self::new(config.d_input, config.d_hidden)
            .with_bias(config.bias)
            .with_reset_after(config.reset_after)
            .with_gate_activation(of_config(&config.gate_activation, "reset and update")?)
            .with_hidden_activation(of_config(&config.hidden_activation, "candidate")?)
            .with_clip(config.clip)
            .with_initializer(config.initializer.clone().into()))
    }
}

/// The same GRU with the same initializer.
///
/// # Errors
/// If there is no such [`Activation`].
impl TryFrom<&BiGruConfig> for GruBlockConfig {
    type Error = GruError;

    fn try_from(config: &BiGruConfig) -> Result<Self, GruError> {
        let one = GruConfig::new(config.d_input, config.d_hidden, config.bias)
            .with_reset_after(config.reset_after)
            .with_gate_activation(config.gate_activation.clone())
            .with_hidden_activation(config.hidden_activation.clone())
            .with_clip(config.clip)
            .with_initializer(config.initializer.clone());
        let one = Self::try_from(&one)?;
        Ok(one
            .with_bidirectional(true)
            .with_batch_first(config.batch_first))
    }
}

fn config(gru: &Gru) -> Result<GruBlockConfig, GruError> {
    let [d_input, _] = gru.reset_gate.input_transform.weight.dims();
    Ok(GruBlockConfig::new(d_input, gru.d_hidden)
        .with_bias(gru.reset_gate.input_transform.bias.is_some())
        .with_reset_after(gru.reset_after)
        .with_gate_activation(of_module(&gru.gate_activation, "reset and update")?)
        .with_hidden_activation(of_module(&gru.hidden_activation, "candidate")?)
        .with_clip(gru.clip))
}

/// Freezes the parameters that are frozen in all three gates of the module of their direction.
fn trained_like(mut block: GruBlock, modules: &[&Gru]) -> GruBlock {
    fn like<const D: usize>(own: &mut Param<Tensor<D>>, gates: [Option<&Param<Tensor<D>>>; 3]) {
        let is_frozen = |gate: &Param<Tensor<D>>| {
            let gate = gate.val();
            gate.device().is_autodiff() && !gate.is_require_grad()
        };
        if gates.into_iter().flatten().all(is_frozen) {
            *own = own.clone().set_require_grad(false);
        }
    }
    for (layer, module) in block.layers.iter_mut().zip(modules) {
        let [input, hidden] = transforms(module, "").map(|gates| gates.map(|(_, linear)| linear));
        like(&mut layer.w_ih, input.map(|linear| Some(&linear.weight)));
        like(&mut layer.w_hh, hidden.map(|linear| Some(&linear.weight)));
        for (bias, linears) in [(&mut layer.b_ih, input), (&mut layer.b_hh, hidden)] {
            if let Some(bias) = bias {
                like(bias, linears.map(|linear| linear.bias.as_ref()));
            }
        }
    }
    block
}

fn weights(gru: &Gru, prefix: &str) -> Result<GruWeights, GruError> {
    let [i, _] = gru.reset_gate.input_transform.weight.dims();
    let (h, [input, hidden]) = (gru.d_hidden, transforms(gru, prefix));
    let weight = |gates, i| packed(gates, "weight", [i, h], |linear| Some(&linear.weight));
    let bias = |gates| packed(gates, "bias", [h], |linear| linear.bias.as_ref());
    let w_hh = weight(&hidden, h)?.expect("every gate has a weight");
    let weights = GruWeights::new(weight(&input, i)?, w_hh);
    Ok(weights.with_b_ih(bias(&input)?).with_b_hh(bias(&hidden)?))
}

/// The modules of the three gates r, z, n, with their names.
type Gates<'a> = [(String, &'a Linear); 3];

/// The modules of the input and of the state.
fn transforms<'a>(gru: &'a Gru, prefix: &str) -> [Gates<'a>; 2] {
    let gates = [
        ("reset_gate", &gru.reset_gate),
        ("update_gate", &gru.update_gate),
        ("new_gate", &gru.new_gate),
    ];
    let name = |gate, transform| format!("{prefix}{gate}.{transform}");
    [
        gates.map(|(gate, of)| (name(gate, "input_transform"), &of.input_transform)),
        gates.map(|(gate, of)| (name(gate, "hidden_transform"), &of.hidden_transform)),
    ]
}

/// The parameters of the three gates side by side, if they have them.
fn packed<const D: usize>(
    gates: &Gates,
    name: &str,
    shape: [usize; D],
    of: fn(&Linear) -> Option<&Param<Tensor<D>>>,
) -> Result<Option<Tensor<D>>, GruError> {
    if gates.iter().all(|(_, gate)| of(gate).is_none()) {
        return Ok(None);
    }
    let mut parts = Vec::with_capacity(3);
    for (gate, linear) in gates {
        let key = format!("{gate}.{name}");
        let Some(part) = of(linear) else {
            return Err(GruError::MissingKey { key });
        };
        GruError::expect_shape(&key, &shape, &part.dims())?;
        parts.push(part.val());
    }
    Ok(Some(Tensor::cat(parts, D - 1)))
}

/// The activation of one of Burn's modules or configurations. Both enums have the same variants and parameters.
macro_rules! activation {
    ($burns:ident, $of:expr, $gate:expr) => {
        match $of {
            $burns::Identity { .. } => Ok(Activation::Identity),
            $burns::Relu { .. } => Ok(Activation::Relu),
            $burns::LeakyRelu(a) if a.negative_slope >= 0.0 => Ok(Activation::LeakyRelu {
                alpha: a.negative_slope,
            }),
            $burns::Sigmoid { .. } => Ok(Activation::Sigmoid),
            $burns::Tanh { .. } => Ok(Activation::Tanh),
            $burns::HardSigmoid(a) => Ok(Activation::HardSigmoid {
                alpha: a.alpha,
                beta: a.beta,
            }),
            $burns::Softplus(a) if a.beta == 1.0 => Ok(Activation::Softplus),
            $burns::Softsign { .. } => Ok(Activation::Softsign),
            $burns::Elu(a) if a.alpha >= 0.0 => Ok(Activation::Elu { alpha: a.alpha }),
            $burns::ThresholdedRelu(a) if a.alpha >= 0.0 => {
                Ok(Activation::ThresholdedRelu { alpha: a.alpha })
            }
            other => Err(GruError::Activation {
                gate: $gate,
                activation: format!("{other:?}"),
            }),
        }
    };
}

fn of_module(of: &BurnActivation, gate: &'static str) -> Result<Activation, GruError> {
    activation!(BurnActivation, of, gate)
}

fn of_config(of: &ActivationConfig, gate: &'static str) -> Result<Activation, GruError> {
    activation!(ActivationConfig, of, gate)
}
