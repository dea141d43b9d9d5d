//! The weights of Apple's `MPSGraph.GRU` with the names of its parameters. D is 2 with `bidirectional`,
//! else 1:
//!
//! | name | shape | |
//! |---|---|---|
//! | `recurrentWeight` | `[3H,H]` or `[2,3H,H]` | |
//! | `inputWeight` | `[D·3H,I]` | optional in MPSGraph, required in a block |
//! | `bias` | `[D·3H]` | optional |
//! | `secondaryBias` | `[D·H]`, of the candidate | optional; ignored without `resetAfter` |
//!
//! Gates are rows z, r, o, or r, z, o with `resetGateFirst`. The operator itself is
//! [`gru_op::mps_graph::gru`], which also supports projected sources and masks. Its documentation lists
//! the points that Apple's pages leave open.
//!
//! The descriptor contains the conventions of the GRU, and `resetGateFirst` the order of the rows, which
//! no configuration contains. So [`import`] requires the descriptor too, and [`export`] returns it.
//!
//! ```
//! # fn main() -> Result<(), gru_convert::ConvertError> {
//! use gru_convert::mps_graph;
//! use gru_op::{GruBlockConfig, Update, mps_graph::GruDescriptor};
//! # let device = burn::tensor::Device::flex();
//! # let gru = GruBlockConfig::new(8, 16).with_update(Update::Takes).init(&device);
//! let (dict, descriptor) = mps_graph::export(&gru, "gru.")?;
//! assert!(descriptor.reset_after && descriptor.update == Update::Takes);
//! let config = mps_graph::config(&descriptor, &dict, "gru.")?;
//! let gru = mps_graph::import(&descriptor, &dict, "gru.", &config, &device)?;
//! # Ok(()) }
//! ```

use crate::{
    bias,
    error::ConvertError,
    state_dict::StateDict,
    system::{PLAIN, System, matrices, same},
};
use burn::tensor::{Device, Tensor};
use gru_op::{
    Activation, Direction, GruBlock, GruBlockConfig, GruWeights, Reset,
    mps_graph::{GruDescriptor, RecurrentWeight, weights},
};

const SYSTEM: System = System {
    name: "MPSGraph",
    bidirectional: true,
    reverse: true,
    takes: true,
    activations: |gates| {
        use Activation::{HardSigmoid, Identity, Relu, Sigmoid, Tanh};
        let named = |activation| {
            matches!(
                activation,
                Identity | Relu | Tanh | Sigmoid | HardSigmoid { .. }
            )
        };
        gates.into_array().into_iter().all(named)
    },
    ..PLAIN
};

/// The configuration of the GRU with this descriptor and the arrays under `prefix`. The layout is
/// time-major, as in MPSGraph.
///
/// # Errors
/// If a key is missing or unexpected, or if an array contradicts the descriptor.
pub fn config(
    descriptor: &GruDescriptor,
    dict: &StateDict,
    prefix: &str,
) -> Result<GruBlockConfig, ConvertError> {
    const NAMES: [&str; 4] = ["recurrentWeight", "inputWeight", "bias", "secondaryBias"];
    let expected = "a GRU has recurrentWeight, inputWeight, bias and secondaryBias";
    dict.expect_only(prefix, &NAMES, expected)?;
    let key = |name: &str| format!("{prefix}{name}");
    let (name, two) = (key("recurrentWeight"), descriptor.bidirectional);
    let h = match (two, dict.get(&name).map(|weight| weight.shape().to_vec())) {
        (false, Some(actual)) if actual.len() != 2 => {
            let expected = "[3H, H], as the descriptor is not bidirectional";
            return Err(ConvertError::Form {
                name,
                expected,
                actual,
            });
        }
        (true, Some(actual)) if actual.len() != 3 => {
            let expected = "[2, 3H, H], as the descriptor is bidirectional";
            return Err(ConvertError::Form {
                name,
                expected,
                actual,
            });
        }
        (false, _) => dict.shape::<2>(&name)?[1],
        (true, _) => dict.shape::<3>(&name)?[2],
    };
    let [_, i] = dict.shape(&key("inputWeight"))?;
    // The secondary bias is ignored without resetAfter.
    let read = if descriptor.reset_after { 4 } else { 3 };
    let bias = NAMES[2..read]
        .iter()
        .any(|name| dict.get(&key(name)).is_some());
    let spec = descriptor.spec();
    Ok(GruBlockConfig::new(i, h)
        .with_bidirectional(two)
        .with_reverse(descriptor.reverse && !two)
        .with_bias(bias)
        .with_batch_first(false)
        .with_reset(spec.reset)
        .with_update(spec.update)
        .with_activations(spec.activations))
}

/// The GRU with this descriptor and the arrays under `prefix`, as a block with `config`.
///
/// # Errors
/// If a key is missing or unexpected, if an array does not have the shape or dtype of such a GRU, or if
/// `config` does not match.
pub fn import(
    descriptor: &GruDescriptor,
    dict: &StateDict,
    prefix: &str,
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    let found = self::config(descriptor, dict, prefix)?;
    SYSTEM.check_config(config, &found)?;
    let (says, is) = (config.layer_spec(0), found.layer_spec(0));
    same("reset", says.reset, is.reset)?;
    same("update", says.update, is.update)?;
    same("activations", says.activations, is.activations)?;
    same("reverse", config.reverse, found.reverse)?;
    let (d, i, h) = (found.layer_count(), found.d_input, found.d_hidden);
    let key = |name: &str| format!("{prefix}{name}");
    let vector = |name: &str, len: usize| -> Result<Option<Tensor<1>>, ConvertError> {
        let there = dict.get(&key(name)).is_some();
        let vector = there.then(|| dict.tensor(&key(name), [len], device));
        vector.transpose()
    };
    let name = key("recurrentWeight");
    let recurrent: RecurrentWeight = if !found.bidirectional {
        dict.tensor(&name, [3 * h, h], device)?.into()
    } else {
        dict.tensor(&name, [2, 3 * h, h], device)?.into()
    };
    let input = dict.tensor(&key("inputWeight"), [d * 3 * h, i], device)?;
    let bias = vector("bias", d * 3 * h)?;
    let secondary = if descriptor.reset_after {
        vector("secondaryBias", d * h)?
    } else {
        None
    };
    let weights = weights(
        &recurrent,
        Some(&input),
        bias.as_ref(),
        secondary.as_ref(),
        descriptor,
    );
    Ok(config.init_with(weights)?)
}

/// The arrays, in Apple's default gate order, and the descriptor of a GRU that computes the same as
/// `block`. A bias without a counterpart is added to another bias.
///
/// # Errors
/// If there is no such GRU: several layers, a clip, or zoneout. Also if a tensor cannot be read from its
/// device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<(StateDict, GruDescriptor), ConvertError> {
    SYSTEM.check_block(block)?;
    let (first, h) = (block.layers[0].spec, block.d_hidden);
    let mut descriptor = GruDescriptor::new(first.update);
    descriptor.reverse = !block.bidirectional && block.layers[0].direction == Direction::Reverse;
    descriptor.bidirectional = block.bidirectional;
    descriptor.reset_after = first.reset == Reset::AfterMatmul;
    descriptor.update_gate_activation = first.activations.update;
    descriptor.reset_gate_activation = first.activations.reset;
    descriptor.output_gate_activation = first.activations.candidate;
    let order = descriptor.gate_order();
    let rows = |columns: Tensor<2>| order.reorder(columns.transpose(), 0, 1);
    let layers = block.layers.iter();
    let matrices = layers.clone().map(|layer| matrices(layer).map(rows));
    let (input, recurrent): (Vec<_>, Vec<_>) = matrices
        .map(|[input, recurrent]| (input, recurrent))
        .unzip();
    let weights: Vec<GruWeights> = layers.map(|layer| layer.weights()).collect();
    let biases = weights.iter().map(|w| bias::joined(w, first.reset));
    let (bias, secondary): (Vec<_>, Vec<_>) = biases.unzip();
    let bias = bias.into_iter();
    let bias = bias.map(|b: Option<Tensor<1>>| b.map(|b| order.reorder(b, 0, 1)));

    let mut dict = StateDict::new();
    let key = |name: &str| format!("{prefix}{name}");
    if !block.bidirectional {
        dict.put(key("recurrentWeight"), Tensor::cat(recurrent, 0))?
    } else {
        dict.put(key("recurrentWeight"), Tensor::stack::<3>(recurrent, 0))?
    }
    dict.put(key("inputWeight"), Tensor::cat(input, 0))?;
    for (name, parts, len) in [
        ("bias", bias.collect::<Vec<_>>(), 3 * h),
        ("secondaryBias", secondary, h),
    ] {
        if parts.iter().any(Option::is_some) {
            let parts = parts.into_iter().zip(&weights);
            let parts = parts.map(|(part, w)| part.unwrap_or_else(|| bias::zeros(w, len)));
            dict.put(key(name), Tensor::cat(parts.collect(), 0))?;
        }
    }
    Ok((dict, descriptor))
}
