//! Burn's own `Gru` and `BiGru`: three gate controllers of two `Linear`s each.

use super::{ConvertError, expect_shape};
use crate::{
    GruBlock, GruBlockConfig, GruWeights,
    spec::{Activation, Activations, Reset},
};
use burn::{
    nn::{
        Linear,
        activation::Activation as BurnActivation,
        gru::{BiGru, Gru},
    },
    tensor::Tensor,
};

/// Takes over the weights: `GruBlock::try_from(gru)?` in place of `gru`, then
/// `forward(x, state)` with a state of `[1,N,H]` instead of `[N,H]`.
impl TryFrom<Gru> for GruBlock {
    type Error = ConvertError;

    fn try_from(gru: Gru) -> Result<Self, ConvertError> {
        let config = config(&gru)?;
        let layers = vec![layer(&gru, "")?];
        config.init_with(layers)
    }
}

/// Takes over the weights: `GruBlock::try_from(bi_gru)?` in place of `bi_gru`, same arguments,
/// same results.
impl TryFrom<BiGru> for GruBlock {
    type Error = ConvertError;

    fn try_from(gru: BiGru) -> Result<Self, ConvertError> {
        let (forward, reverse) = (config(&gru.forward)?, config(&gru.reverse)?);
        let same = |same: bool, what| match same {
            true => Ok(()),
            false => Err(ConvertError::Directions { what }),
        };
        same(forward.d_input == reverse.d_input, "d_input")?;
        same(forward.d_hidden == reverse.d_hidden, "d_hidden")?;
        same(forward.reset == reverse.reset, "reset_after")?;
        same(forward.activations == reverse.activations, "activations")?;
        same(forward.clip_state == reverse.clip_state, "clip")?;
        let config = forward
            .with_bidirectional(true)
            .with_batch_first(gru.batch_first);
        config.init_with(vec![
            layer(&gru.forward, "forward.")?,
            layer(&gru.reverse, "reverse.")?,
        ])
    }
}

fn config(gru: &Gru) -> Result<GruBlockConfig, ConvertError> {
    let [d_input, _] = gru.reset_gate.input_transform.weight.dims();
    let gates = activation(&gru.gate_activation, "reset and update")?;
    Ok(GruBlockConfig::new(d_input, gru.d_hidden)
        .with_bias(gru.reset_gate.input_transform.bias.is_some())
        .with_reset(match gru.reset_after {
            true => Reset::AfterMatmul,
            false => Reset::BeforeMatmul,
        })
        .with_activations(Activations {
            reset: gates,
            update: gates,
            candidate: activation(&gru.hidden_activation, "candidate")?,
        })
        .with_clip_state(gru.clip))
}

fn layer(gru: &Gru, prefix: &str) -> Result<GruWeights, ConvertError> {
    let [i, _] = gru.reset_gate.input_transform.weight.dims();
    let h = gru.d_hidden;
    // r | z | n.
    let gates = [&gru.reset_gate, &gru.update_gate, &gru.new_gate];
    let names = ["reset_gate", "update_gate", "new_gate"].map(|gate| {
        [".input_transform", ".hidden_transform"].map(|t| format!("{prefix}{gate}{t}"))
    });
    let input = gates.map(|gate| &gate.input_transform);
    let hidden = gates.map(|gate| &gate.hidden_transform);
    Ok(GruWeights {
        w_ih: Some(weight(input, names.each_ref().map(|n| &*n[0]), [i, h])?),
        w_hh: weight(hidden, names.each_ref().map(|n| &*n[1]), [h, h])?,
        b_ih: bias(input, names.each_ref().map(|n| &*n[0]), h)?,
        b_hh: bias(hidden, names.each_ref().map(|n| &*n[1]), h)?,
    })
}

fn weight(
    gates: [&Linear; 3],
    names: [&str; 3],
    shape: [usize; 2],
) -> Result<Tensor<2>, ConvertError> {
    let mut parts = Vec::with_capacity(3);
    for (gate, name) in gates.iter().zip(names) {
        expect_shape(&format!("{name}.weight"), &shape, &gate.weight.dims())?;
        parts.push(gate.weight.val());
    }
    Ok(Tensor::cat(parts, 1))
}

fn bias(
    gates: [&Linear; 3],
    names: [&str; 3],
    h: usize,
) -> Result<Option<Tensor<1>>, ConvertError> {
    if gates.iter().all(|gate| gate.bias.is_none()) {
        return Ok(None);
    }
    let mut parts = Vec::with_capacity(3);
    for (gate, name) in gates.iter().zip(names) {
        let name = format!("{name}.bias");
        let Some(bias) = &gate.bias else {
            return Err(ConvertError::MissingBias { name });
        };
        expect_shape(&name, &[h], &bias.dims())?;
        parts.push(bias.val());
    }
    Ok(Some(Tensor::cat(parts, 0)))
}

fn activation(of: &BurnActivation, gate: &'static str) -> Result<Activation, ConvertError> {
    Ok(match of {
        BurnActivation::Identity(_) => Activation::Identity,
        BurnActivation::Relu(_) => Activation::Relu,
        BurnActivation::LeakyRelu(a) if a.negative_slope >= 0.0 => Activation::LeakyRelu {
            alpha: a.negative_slope,
        },
        BurnActivation::Sigmoid(_) => Activation::Sigmoid,
        BurnActivation::Tanh(_) => Activation::Tanh,
        BurnActivation::HardSigmoid(a) => Activation::HardSigmoid {
            alpha: a.alpha,
            beta: a.beta,
        },
        BurnActivation::Softplus(a) if a.beta == 1.0 => Activation::Softplus,
        BurnActivation::Softsign(_) => Activation::Softsign,
        BurnActivation::Elu(a) if a.alpha >= 0.0 => Activation::Elu { alpha: a.alpha },
        BurnActivation::ThresholdedRelu(a) if a.alpha >= 0.0 => {
            Activation::ThresholdedRelu { alpha: a.alpha }
        }
        other => {
            return Err(ConvertError::Activation {
                gate,
                activation: format!("{other:?}"),
            });
        }
    })
}
