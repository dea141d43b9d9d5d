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
//! let config = mps_graph::config(&dict, "gru.", &descriptor)?;
//! let gru = mps_graph::import(&dict, "gru.", &descriptor, &config, &device)?;
//! # Ok(()) }
//! ```

use crate::{
    arrays::{self, Array, Form::*, N, Parameter::*, RZN, ZRN},
    error::ConvertError,
    state_dict::StateDict,
    system::{PLAIN, System, same},
};
use burn::tensor::Device;
use gru_op::{
    Activation, Direction, GateOrder, GruBlock, GruBlockConfig, Reset, mps_graph::GruDescriptor,
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

const NAMES: [&str; 4] = ["recurrentWeight", "inputWeight", "bias", "secondaryBias"];

/// The configuration of the GRU with this descriptor and the arrays under `prefix`. The layout is
/// time-major, as in MPSGraph.
///
/// # Errors
/// If a key is missing or unexpected, or if an array contradicts the descriptor.
pub fn config(
    dict: &StateDict,
    prefix: &str,
    descriptor: &GruDescriptor,
) -> Result<GruBlockConfig, ConvertError> {
    let expected = "a GRU has recurrentWeight, inputWeight, bias and secondaryBias";
    dict.expect_only(prefix, &NAMES, expected)?;
    let key = |name: &str| format!("{prefix}{name}");
    let (name, two) = (key("recurrentWeight"), descriptor.bidirectional);
    let (rank, expected) = if two {
        (3, "[2, 3H, H], as the descriptor is bidirectional")
    } else {
        (2, "[3H, H], as the descriptor is not bidirectional")
    };
    if let Some(weight) = dict.get(&name)
        && weight.rank() != rank
    {
        let actual = weight.shape().to_vec();
        return Err(ConvertError::Form {
            name,
            expected,
            actual,
        });
    }
    let h = if two {
        dict.shape::<3>(&name)?[2]
    } else {
        dict.shape::<2>(&name)?[1]
    };
    let [_, i] = dict.shape(&key("inputWeight"))?;
    let [bias, secondary] = biases(descriptor, dict, prefix);
    Ok(GruBlockConfig::new(i, h)
        .with_bidirectional(two)
        .with_reverse(descriptor.reverse && !two)
        .with_bias(bias || secondary)
        .with_batch_first(false)
        .with_spec(descriptor.spec()))
}

/// Whether there is a bias and a secondary bias. The secondary bias is ignored without `resetAfter`.
fn biases(descriptor: &GruDescriptor, dict: &StateDict, prefix: &str) -> [bool; 2] {
    let has = |name| dict.get(&format!("{prefix}{name}")).is_some();
    [has(NAMES[2]), descriptor.reset_after && has(NAMES[3])]
}

/// The GRU with this descriptor and the arrays under `prefix`, as a block with `config`.
///
/// # Errors
/// If a key is missing or unexpected, if an array does not have the shape or dtype of such a GRU, or if
/// `config` does not match.
pub fn import(
    dict: &StateDict,
    prefix: &str,
    descriptor: &GruDescriptor,
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    let found = self::config(dict, prefix, descriptor)?;
    SYSTEM.check_config(config, &found)?;
    let (says, is) = (config.layer_spec(0), found.layer_spec(0));
    same("reset", says.reset, is.reset)?;
    same("update", says.update, is.update)?;
    same("activations", says.activations, is.activations)?;
    same("reverse", config.reverse, found.reverse)?;
    let biases = biases(descriptor, dict, prefix);
    let arrays = arrays(descriptor, prefix, &found, biases);
    arrays::import(dict, &arrays, config, device)
}

/// The arrays, in Apple's default gate order, and the descriptor of a GRU that computes the same as
/// `block`. A bias without a counterpart is added to another bias.
///
/// # Errors
/// If there is no such GRU: several layers, a clip, or zoneout. Also if a tensor cannot be read from its
/// device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<(StateDict, GruDescriptor), ConvertError> {
    SYSTEM.check_block(block)?;
    let first = block.layers[0].spec;
    let mut descriptor = GruDescriptor::new(first.update);
    descriptor.reverse = !block.bidirectional && block.layers[0].direction == Direction::Reverse;
    descriptor.bidirectional = block.bidirectional;
    descriptor.reset_after = first.reset == Reset::AfterMatmul;
    descriptor.update_gate_activation = first.activations.update;
    descriptor.reset_gate_activation = first.activations.reset;
    descriptor.output_gate_activation = first.activations.candidate;
    let has_second = block.layers.iter().any(|layer| layer.b_hh.is_some());
    let biases = [
        arrays::has_bias(block),
        descriptor.reset_after && has_second,
    ];
    let arrays = arrays(&descriptor, prefix, &block.config(), biases);
    Ok((arrays::export(&block.layers, &arrays)?, descriptor))
}

/// Rows of gates, both directions in each array.
fn arrays(
    descriptor: &GruDescriptor,
    prefix: &str,
    config: &GruBlockConfig,
    [has_bias, has_second]: [bool; 2],
) -> Vec<Array> {
    let (d, i, h) = (config.layer_count(), config.d_input, config.d_hidden);
    let order = match descriptor.gate_order() {
        GateOrder::ResetFirst => RZN,
        GateOrder::UpdateFirst => ZRN,
    };
    let [recurrent, input, bias, second] = NAMES.map(|name| format!("{prefix}{name}"));
    let shape = if config.bidirectional {
        vec![2, 3 * h, h]
    } else {
        vec![3 * h, h]
    };
    let bias = (bias, vec![d * 3 * h], 0..d, vec![(InputBias, order, Rows)]);
    let second = (second, vec![d * h], 0..d, vec![(RecurrentBias, N, Rows)]);
    let mut arrays = vec![
        (recurrent, shape, 0..d, vec![(Recurrent, order, Rows)]),
        (input, vec![d * 3 * h, i], 0..d, vec![(Input, order, Rows)]),
    ];
    arrays.extend(has_bias.then_some(bias));
    arrays.extend(has_second.then_some(second));
    arrays
}
