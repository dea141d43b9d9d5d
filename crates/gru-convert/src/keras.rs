//! Keras' `layers.GRU`: `kernel [I,3H]`, `recurrent_kernel [H,3H]` and an optional `bias`, which is
//! `[2,3H]` with `reset_after` and `[3H]` without. Gates are columns z, r, n. A `Bidirectional` has two
//! such layers, `forward_…` and `backward_…`, and becomes one block.
//!
//! A key consists of a prefix, names in between (`gru_cell/`, `forward_gru/gru_cell/`), which are
//! ignored, and the array's name. This is the `path` of a Keras variable. Keras 2 ends the name with `:0`.
//! In files of Keras 3, which `StateDict::from_keras` reads, the arrays have the names `0`, `1` and `2`.
//!
//! | Keras | gru-op |
//! |---|---|
//! | `reset_after` | [`Reset`]: [`config`] infers it from the shape of the bias |
//! | `activation`, `recurrent_activation` | `with_activations`, with [`activations`] and [`activation_names`] |
//! | `"hard_sigmoid"` | Keras 3: `clamp(v/6 + 1/2, 0, 1)`, in [`activations`]. Keras 2: `clamp(v/5 + 1/2, 0, 1)`, in [`activations_of_keras_2`] |
//! | `go_backwards` | `with_reverse(true)`. Keras' output is in processing order: flip the block's output along time |
//! | `mask` | the mask of [`GruBlock::forward_with`]. A `Bidirectional` returns zeros where the mask is false |
//! | `merge_mode` of a `Bidirectional` | `"concat"`. Compute others from the two halves of the block's output |
//! | `recurrent_dropout` | `with_recurrent_dropout`: one mask for all gates. Keras draws three |
//! | `return_sequences=False` | the last step of the output. Of a `Bidirectional`: the last step of the first half, and step 0 of the second. With gaps in the mask and no valid step, this is zero and not the state |
//!
//! Source: <https://keras.io/api/layers/recurrent_layers/gru>.
//!
//! ```
//! # fn main() -> Result<(), gru_convert::ConvertError> {
//! use gru_convert::keras;
//! use gru_op::GruBlockConfig;
//! # let device = burn::tensor::Device::flex();
//! # let relu = keras::activations("relu", "sigmoid")?;
//! # let gru = GruBlockConfig::new(8, 16).with_activations(relu).init(&device);
//! let dict = keras::export(&gru, "gru/gru_cell/")?;
//! let config = keras::config(&dict, "gru/")?
//!     .with_activations(keras::activations("relu", "sigmoid")?);
//! let gru = keras::import(&dict, "gru/", &config, &device)?;
//! # Ok(()) }
//! ```

use crate::{
    arrays::{self, Array, Form::*, Parameter::*, ZRN},
    error::ConvertError,
    looks::{Layer, Names, explained},
    state_dict::{StateDict, unexpected},
    system::{PLAIN, System},
};
use burn::tensor::Device;
use gru_op::{Activation, Activations, GruBlock, GruBlockConfig, GruError, Reset};
use std::collections::BTreeMap;

const SYSTEM: System = System {
    name: "Keras",
    bidirectional: true,
    reverse: true,
    activations: |activations| {
        let of_keras_3 = with_hard_sigmoid(*activations, KERAS_2, KERAS_3);
        activation_names(&of_keras_3).is_ok()
    },
    ..PLAIN
};

/// The expected keys, for the error about an unexpected key.
const NAMES: &str = "a GRU has kernel, recurrent_kernel and bias, or 0, 1 and 2, a Bidirectional has \
                     them under forward_… and backward_…; StateDict::retain drops others";

/// The names of a layer's arrays: as variables, which Keras 2 ends with `:0`, and in a file of Keras 3.
const ARRAYS: [[&str; 3]; 2] = [["kernel", "recurrent_kernel", "bias"], ["0", "1", "2"]];

/// Layers by their recurrent kernel `[H,G·H]`. An `LSTM` and a `SimpleRNN` have the names of a GRU.
pub(crate) const LOOKS: Names = Names {
    module: "keras",
    layer: |dict, key| {
        let (group, name) = key.split_at(key.rfind('/').map_or(0, |slash| slash + 1));
        let input = match name.strip_suffix(":0").unwrap_or(name) {
            "recurrent_kernel" => name.strip_prefix("recurrent_")?,
            "1" => "0",
            _ => return None,
        };
        let (&[h, columns], &[_, of_input]) = (
            dict.get(key)?.shape().as_slice(),
            dict.get(&format!("{group}{input}"))?.shape().as_slice(),
        ) else {
            return None;
        };
        if columns != of_input {
            return None;
        }
        let prefix = group.strip_suffix("vars/").unwrap_or(group);
        let layer = prefix.strip_suffix("/cell/").map(str::len);
        let prefix = &prefix[..layer.map_or(prefix.len(), |end| end + 1)];
        let both = both_of(prefix).filter(|both| {
            let layers = layers(dict, both);
            layers.is_ok_and(|(layers, _)| layers.len() == 2)
        });
        Some(Layer::new(both.unwrap_or(prefix), columns, h))
    },
    check: |dict, prefix| {
        let (layers, names) = layers(dict, prefix)?;
        arrays::check(dict, &arrays(&layers, &names, &read(dict, prefix)?))
    },
};

/// The prefix of a `Bidirectional`, if this may be the prefix of one of its layers.
fn both_of(prefix: &str) -> Option<&str> {
    let mut groups = prefix.match_indices('/').map(|(at, _)| at + 1);
    let starts = [0].into_iter().chain(groups.by_ref());
    let of_one = |at: &usize| {
        ["forward_", "backward_"]
            .iter()
            .any(|one| prefix[*at..].starts_with(one))
    };
    starts.into_iter().find(of_one).map(|at| &prefix[..at])
}

/// The configuration of the layer under `prefix`. Sizes, directions and biases follow from names and
/// shapes, and `reset_after` from the shape of the bias. Without a bias `reset_after` is Keras' default.
/// Set it with `with_reset`. The arrays do not contain activations and `go_backwards`, which are Keras'
/// defaults too. Sequences are batch-major, as in Keras. A bias `[3H]` becomes `b_ih`, without `b_hh`.
///
/// # Errors
/// If a key under `prefix` is missing or does not belong to such a layer, or if an array has another
/// shape.
pub fn config(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    read(dict, prefix).map_err(|error| explained(error, dict, prefix, &LOOKS))
}

fn read(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    let (layers, [kernel, recurrent, bias]) = layers(dict, prefix)?;
    let [i, _] = dict.shape(&format!("{}{kernel}", layers[0]))?;
    let recurrent = format!("{}{recurrent}", layers[0]);
    let [h, columns] = dict.shape(&recurrent)?;
    GruError::expect_shape(&recurrent, &[h, h.saturating_mul(3)], &[h, columns])?;
    let keys = layers.iter().map(|layer| format!("{layer}{bias}"));
    let bias = keys
        .filter_map(|key| Some((dict.get(&key)?.shape().to_vec(), key)))
        .next();
    let reset = match &bias {
        None => Reset::AfterMatmul,
        Some((shape, _)) if shape.len() == 2 => Reset::AfterMatmul,
        Some((shape, _)) if shape.len() == 1 => Reset::BeforeMatmul,
        Some((shape, key)) => {
            return Err(ConvertError::Form {
                name: key.clone(),
                expected: "[3H], or [2, 3H] with reset_after",
                actual: shape.clone(),
            });
        }
    };
    Ok(GruBlockConfig::new(i, h)
        .with_bidirectional(layers.len() == 2)
        .with_bias(bias.is_some())
        .with_reset(reset))
}

/// The layer under `prefix` as a block with `config`.
///
/// # Errors
/// If a key is missing or unexpected, if an array does not have the shape or dtype of such a layer, or
/// if `config` does not match.
pub fn import(
    dict: &StateDict,
    prefix: &str,
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    let found = self::config(dict, prefix)?;
    SYSTEM.check_config(config, &found)?;
    let (layers, names) = layers(dict, prefix)?;
    arrays::import(dict, &arrays(&layers, &names, &found), config, device)
}

/// The arrays of a layer that computes the same as `block`. A bidirectional block uses the names
/// `forward_layer/` and `backward_layer/`. Without `reset_after` Keras has one bias, so a second bias is
/// added to it.
///
/// # Errors
/// If there is no such layer: several layers, another update rule, an activation that Keras lacks,
/// different activations of the reset and the update gate, a clip, or zoneout. Also if a tensor cannot
/// be read from its device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<StateDict, ConvertError> {
    SYSTEM.check_block(block)?;
    let layers: &[&str] = if block.bidirectional {
        &["forward_layer/", "backward_layer/"]
    } else {
        &[""]
    };
    let layers: Vec<String> = layers
        .iter()
        .map(|layer| format!("{prefix}{layer}"))
        .collect();
    let arrays = arrays(&layers, &ARRAYS[0].map(String::from), &block.config());
    arrays::export(&block.layers, &arrays)
}

/// The arrays under the prefix of each layer.
fn arrays(layers: &[String], names: &[String; 3], config: &GruBlockConfig) -> Vec<Array> {
    let (i, h) = (config.d_input, config.d_hidden);
    let both = vec![(InputBias, ZRN, Columns), (RecurrentBias, ZRN, Columns)];
    let (shape, parts) = match config.layer_spec(0).reset {
        Reset::AfterMatmul => (vec![2, 3 * h], both),
        Reset::BeforeMatmul => (vec![3 * h], both[..1].to_vec()),
    };
    let of_layer = |(k, layer): (usize, &String)| {
        let array = |name: &str, shape, parts| (format!("{layer}{name}"), shape, k..k + 1, parts);
        let [kernel, recurrent, bias] = names;
        let all = [
            array(kernel, vec![i, 3 * h], vec![(Input, ZRN, Columns)]),
            array(recurrent, vec![h, 3 * h], vec![(Recurrent, ZRN, Columns)]),
            array(bias, shape.clone(), parts.clone()),
        ];
        all.into_iter().take(if config.bias { 3 } else { 2 })
    };
    layers.iter().enumerate().flat_map(of_layer).collect()
}

/// The activations of a layer from Keras' names: `activation` of the candidate, `recurrent_activation`
/// of the two gates.
///
/// `hard_sigmoid` is the function of Keras 3, `clamp(v/6 + 1/2, 0, 1)`. For a model of Keras 2, use
/// [`activations_of_keras_2`].
///
/// # Errors
/// If a name is not one of linear, sigmoid, tanh, relu, hard_sigmoid, elu, leaky_relu, softsign,
/// softplus.
pub fn activations(
    activation: &str,
    recurrent_activation: &str,
) -> Result<Activations, ConvertError> {
    let named = |gate, name: &str| {
        let found = ACTIVATIONS.iter().find(|(known, _)| *known == name);
        let found = found.map(|(_, activation)| *activation);
        found.ok_or_else(|| GruError::Activation {
            gate,
            activation: name.into(),
        })
    };
    let gates = named("reset and update", recurrent_activation)?;
    Ok([gates, gates, named("candidate", activation)?].into())
}

/// [`activations`] for a layer of Keras 2 or `tf.keras` before TensorFlow 2.16, where `hard_sigmoid` is
/// `clamp(v/5 + 1/2, 0, 1)`.
///
/// # Errors
/// As [`activations`].
pub fn activations_of_keras_2(
    activation: &str,
    recurrent_activation: &str,
) -> Result<Activations, ConvertError> {
    let of_keras_3 = activations(activation, recurrent_activation)?;
    Ok(with_hard_sigmoid(of_keras_3, KERAS_3, KERAS_2))
}

fn with_hard_sigmoid(all: Activations, old: Activation, new: Activation) -> Activations {
    let replaced = |activation| if activation == old { new } else { activation };
    all.into_array().map(replaced).into()
}

/// Keras 3's names of the activations: `(activation, recurrent_activation)`.
///
/// # Errors
/// If Keras 3 lacks an activation, or if the reset and the update gate have different activations.
pub fn activation_names(
    activations: &Activations,
) -> Result<(&'static str, &'static str), ConvertError> {
    let name = |gate, activation| {
        let found = ACTIVATIONS.iter().find(|(_, known)| *known == activation);
        let found = found.map(|(name, _)| *name);
        found.ok_or_else(|| GruError::Activation {
            gate,
            activation: format!("{activation:?}"),
        })
    };
    if activations.reset != activations.update {
        return Err(SYSTEM.lacks("different activations of the reset and the update gate"));
    }
    Ok((
        name("candidate", activations.candidate)?,
        name("reset and update", activations.reset)?,
    ))
}

/// `hard_sigmoid` of Keras 2 and of Keras 3.
const KERAS_2: Activation = Activation::HardSigmoid {
    alpha: 0.2,
    beta: 0.5,
};
const KERAS_3: Activation = Activation::HardSigmoid {
    alpha: 1.0 / 6.0,
    beta: 0.5,
};

/// Names and parameters of Keras 3.
const ACTIVATIONS: &[(&str, Activation)] = &[
    ("linear", Activation::Identity),
    ("sigmoid", Activation::Sigmoid),
    ("tanh", Activation::Tanh),
    ("relu", Activation::Relu),
    ("hard_sigmoid", KERAS_3),
    ("elu", Activation::Elu { alpha: 1.0 }),
    ("leaky_relu", Activation::LeakyRelu { alpha: 0.2 }),
    ("softsign", Activation::Softsign),
    ("softplus", Activation::Softplus),
];

/// The prefixes of the arrays' names, for one layer, or for the forward and the backward layer, and
/// these names.
fn layers(dict: &StateDict, prefix: &str) -> Result<(Vec<String>, [String; 3]), ConvertError> {
    let end = dict.end(prefix);
    let all = ARRAYS.map(|names| names.map(|name| format!("{name}{end}")));
    let is_array = |name: &str| {
        let array = name.rsplit('/').next().unwrap_or_default();
        let array = array.strip_suffix(":0").unwrap_or(array);
        ARRAYS.iter().any(|names| names.contains(&array))
    };
    dict.expect_read(prefix, is_array)?;
    // Each prefix has a key, for the error if there are too many.
    let mut layers = BTreeMap::new();
    let mut arrays = None;
    for (key, name) in dict.under(prefix, NAMES)? {
        let at = name.rfind('/').map_or(0, |slash| slash + 1);
        let (layer, array) = name.split_at(at);
        let known = all
            .iter()
            .find(|names| names.iter().any(|name| name == array));
        // All layers must use the same kind of names.
        if known.is_none() || arrays.is_some_and(|arrays| known != Some(arrays)) {
            return Err(unexpected(key, NAMES));
        }
        arrays = known;
        layers.insert(layer, key);
    }
    let full = |layer: &str| format!("{prefix}{layer}");
    let arrays = arrays.unwrap_or(&all[0]).clone();
    match &layers.iter().collect::<Vec<_>>()[..] {
        [(layer, _)] => Ok((vec![full(layer)], arrays)),
        [(backward, _), (forward, _)] if are_directions(backward, forward) => {
            Ok((vec![full(forward), full(backward)], arrays))
        }
        several => Err(unexpected(several[several.len() - 1].1, NAMES)),
    }
}

/// Whether the first difference of two paths is a group `backward_…` in place of `forward_…`.
fn are_directions(backward: &str, forward: &str) -> bool {
    let mut groups = backward.split('/').zip(forward.split('/'));
    let first = groups.find(|(backward, forward)| backward != forward);
    first.is_some_and(|(b, f)| b.starts_with("backward_") && f.starts_with("forward_"))
}
