//! Burn's own `Gru` and `BiGru`: three gate controllers of two `Linear`s each.

use super::{GruBlock, GruBlockConfig, GruError, error::expect_shape};
use crate::{GruWeights, spec::Activation};
use burn::{
    nn::{
        Linear,
        activation::{Activation as BurnActivation, ActivationConfig},
        gru::{BiGru, BiGruConfig, Gru, GruConfig},
    },
    tensor::Tensor,
};

/// Takes over the weights: `GruBlock::try_from(gru)?` in place of `gru`, then
/// `forward(x, state)` with a state of `[1,N,H]` instead of `[N,H]`.
impl TryFrom<Gru> for GruBlock {
    type Error = GruError;

    fn try_from(gru: Gru) -> Result<Self, GruError> {
        let config = config(&gru)?;
        let layers = vec![layer(&gru, "")?];
        config.init_with(layers)
    }
}

/// Takes over the weights: `GruBlock::try_from(bi_gru)?` in place of `bi_gru`, same arguments,
/// same results.
impl TryFrom<BiGru> for GruBlock {
    type Error = GruError;

    fn try_from(gru: BiGru) -> Result<Self, GruError> {
        let (forward, reverse) = (config(&gru.forward)?, config(&gru.reverse)?);
        let same = |same: bool, what| {
            if same {
                Ok(())
            } else {
                Err(GruError::Directions { what })
            }
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

/// The same GRU, drawn in the same way.
///
/// # Errors
/// If an activation is none of [`Activation`].
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

/// The same GRU, drawn in the same way.
///
/// # Errors
/// If an activation is none of [`Activation`].
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

fn layer(gru: &Gru, prefix: &str) -> Result<GruWeights, GruError> {
    let [i, _] = gru.reset_gate.input_transform.weight.dims();
    let h = gru.d_hidden;
    // r | z | n.
    let gates = [&gru.reset_gate, &gru.update_gate, &gru.new_gate];
    let names = ["reset_gate", "update_gate", "new_gate"].map(|gate| {
        [".input_transform", ".hidden_transform"].map(|t| format!("{prefix}{gate}{t}"))
    });
    let input = gates.map(|gate| &gate.input_transform);
    let hidden = gates.map(|gate| &gate.hidden_transform);
    let [input_names, hidden_names] = [0, 1].map(|k| names.each_ref().map(|n| &*n[k]));
    let w_ih = weight(input, input_names, [i, h])?;
    let w_hh = weight(hidden, hidden_names, [h, h])?;
    Ok(GruWeights::new(w_ih, w_hh)
        .with_b_ih(bias(input, input_names, h)?)
        .with_b_hh(bias(hidden, hidden_names, h)?))
}

fn weight(gates: [&Linear; 3], names: [&str; 3], shape: [usize; 2]) -> Result<Tensor<2>, GruError> {
    let mut parts = Vec::with_capacity(3);
    for (gate, name) in gates.iter().zip(names) {
        expect_shape(&format!("{name}.weight"), &shape, &gate.weight.dims())?;
        parts.push(gate.weight.val());
    }
    Ok(Tensor::cat(parts, 1))
}

fn bias(gates: [&Linear; 3], names: [&str; 3], h: usize) -> Result<Option<Tensor<1>>, GruError> {
    if gates.iter().all(|gate| gate.bias.is_none()) {
        return Ok(None);
    }
    let mut parts = Vec::with_capacity(3);
    for (gate, name) in gates.iter().zip(names) {
        let name = format!("{name}.bias");
        let Some(bias) = &gate.bias else {
            return Err(GruError::MissingBias { name });
        };
        expect_shape(&name, &[h], &bias.dims())?;
        parts.push(bias.val());
    }
    Ok(Some(Tensor::cat(parts, 0)))
}

/// The activation that one of Burn's modules or configurations stands for: their variants have the same
/// names and the same parameters.
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

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::{
        nn::{
            EluConfig, HardSigmoidConfig, LeakyReluConfig, SoftplusConfig, ThresholdedReluConfig,
        },
        tensor::Device,
    };

    /// A configuration says of a module what the module says of itself.
    #[test]
    fn configurations_and_modules_agree() {
        let device = Device::flex();
        let all = [
            ActivationConfig::Identity,
            ActivationConfig::Relu,
            ActivationConfig::Sigmoid,
            ActivationConfig::Tanh,
            ActivationConfig::Softsign,
            LeakyReluConfig::new().with_negative_slope(0.2).into(),
            HardSigmoidConfig::new().with_alpha(0.3).into(),
            SoftplusConfig::new().into(),
            EluConfig::new().with_alpha(0.7).into(),
            ThresholdedReluConfig::new().with_alpha(0.3).into(),
        ];
        // Every gate's activation with every combination of the rest.
        for k in 0..all.len() * 16 {
            let (k, options) = (k / 16, [1, 2, 4, 8].map(|bit| k & bit != 0));
            let [bias, reset_after, clip, batch_first] = options;
            let (gate, hidden) = (&all[k], &all[(k + 3) % all.len()]);
            let config = GruConfig::new(3, 5, bias)
                .with_reset_after(reset_after)
                .with_gate_activation(gate.clone())
                .with_hidden_activation(hidden.clone())
                .with_clip(clip.then_some(0.5));
            let block = GruBlock::try_from(config.init(&device)).unwrap();
            let says = GruBlockConfig::try_from(&config).unwrap();
            block.check_config(&says).unwrap();
            assert_eq!(block.config().bias, says.bias);

            let config = BiGruConfig::new(3, 5, bias)
                .with_reset_after(reset_after)
                .with_batch_first(batch_first)
                .with_gate_activation(gate.clone())
                .with_hidden_activation(hidden.clone())
                .with_clip(clip.then_some(0.5));
            let block = GruBlock::try_from(config.init(&device)).unwrap();
            let says = GruBlockConfig::try_from(&config).unwrap();
            block.check_config(&says).unwrap();
            assert_eq!(block.batch_first, says.batch_first);
        }
    }

    #[test]
    fn what_there_is_no_kernel_for_is_refused() {
        let config = GruConfig::new(3, 5, true).with_hidden_activation(ActivationConfig::Gelu);
        let refusal = GruBlockConfig::try_from(&config).unwrap_err().to_string();
        assert_eq!(refusal, "candidate gate: activation Gelu is not supported");
        let slope = LeakyReluConfig::new().with_negative_slope(-0.1);
        let config = GruConfig::new(3, 5, true).with_gate_activation(slope.into());
        assert!(GruBlockConfig::try_from(&config).is_err());
    }
}
