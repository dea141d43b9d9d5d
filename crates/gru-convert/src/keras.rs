//! Keras' `layers.GRU`: `kernel [I,3H]`, `recurrent_kernel [H,3H]` and, if it has one, `bias`,
//! `[2,3H]` with `reset_after`, else `[3H]`; gates in columns z, r, n. A `Bidirectional` has two
//! such layers, `forward_…` and `backward_…`, and is one block here.
//!
//! A key is a prefix, the names of what is inside (`gru_cell/`, `forward_gru/gru_cell/`), which are
//! not looked at, and the array's name: the `path` of a Keras variable. In the files of Keras 3, which
//! `StateDict::from_keras` reads, the arrays are called `0`, `1` and `2`.
//!
//! | Keras | here |
//! |---|---|
//! | `reset_after` | [`Reset`]: [`config`] tells it from the form of the bias |
//! | `activation`, `recurrent_activation` | `with_activations`, by [`activations`] and [`activation_names`] |
//! | `go_backwards` | `with_reverse(true)`; Keras' output is then in processing order: flip ours along time |
//! | `mask` | the mask of [`GruBlock::forward_with`]; a `Bidirectional` puts out zeros where the mask is false |
//! | `merge_mode` of a `Bidirectional` | `"concat"`; any other is made of the two halves of our output |
//! | `recurrent_dropout` | `with_recurrent_dropout`: one mask for all gates, where Keras draws three |
//! | `return_sequences=False` | the last step of the output; with holes in the mask and no valid step, that is zero, not the state |
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
    bias,
    error::ConvertError,
    state_dict::StateDict,
    system::{PLAIN, System},
};
use burn::tensor::{Device, Tensor};
use gru_op::{
    Activation, Activations, GateOrder, GruBlock, GruBlockConfig, GruError, GruWeights, Reset,
};
use std::collections::BTreeMap;

const SYSTEM: System = System {
    name: "Keras",
    bidirectional: true,
    reverse: true,
    activations: |activations| activation_names(activations).is_ok(),
    ..PLAIN
};
const ORDER: GateOrder = GateOrder::UpdateFirst;

/// What an unexpected key should have been.
const NAMES: &str = "a GRU has kernel, recurrent_kernel and bias, or 0, 1 and 2, a Bidirectional has \
                     them under forward_… and backward_…";

/// The names of a layer's arrays: of its variables, and in a file.
const ARRAYS: [[&str; 3]; 2] = [["kernel", "recurrent_kernel", "bias"], ["0", "1", "2"]];

/// The configuration of the layer under `prefix`: sizes, directions and biases, told from names and
/// shapes, and `reset_after` from the form of the bias. Without a bias nothing tells it: then it is
/// Keras' default, and `with_reset` sets it. Activations and `go_backwards`, which are not among
/// the arrays, are Keras' defaults too.
///
/// # Errors
/// If a key under `prefix` is missing or none of such a layer's, or an array has not its shape.
pub fn config(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    let (layers, [kernel, recurrent, bias]) = layers(dict, prefix)?;
    let [i, _] = dict.shape(&format!("{}{kernel}", layers[0]))?;
    let [h, _] = dict.shape(&format!("{}{recurrent}", layers[0]))?;
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

/// The layer under `prefix`, as a block of `config`.
///
/// # Errors
/// If a key is missing or unexpected, an array has not the shape or dtype of such a layer, or
/// `config` is that of another GRU.
pub fn import(
    dict: &StateDict,
    prefix: &str,
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    let found = self::config(dict, prefix)?;
    SYSTEM.check_config(config, &found)?;
    let h = found.d_hidden;
    let (layers, [kernel, recurrent, bias]) = layers(dict, prefix)?;
    let weights = layers.into_iter().map(|layer| {
        let columns = |name: &str, rows: usize| -> Result<Tensor<2>, ConvertError> {
            let matrix = dict.tensor(&format!("{layer}{name}"), [rows, 3 * h], device)?;
            Ok(ORDER.reorder(matrix, 1, 1))
        };
        let (b_ih, b_hh) = match (found.bias, found.reset) {
            (false, _) => (None, None),
            (true, Reset::AfterMatmul) => {
                let both = columns(bias, 2)?;
                let row = |k| both.clone().narrow(0, k, 1).squeeze_dim(0);
                (Some(row(0)), Some(row(1)))
            }
            (true, Reset::BeforeMatmul) => {
                let bias = dict.tensor::<1>(&format!("{layer}{bias}"), [3 * h], device)?;
                (Some(ORDER.reorder(bias, 0, 1)), None)
            }
        };
        Ok(GruWeights {
            w_ih: Some(columns(kernel, found.d_input)?),
            w_hh: columns(recurrent, h)?,
            b_ih,
            b_hh,
        })
    });
    let weights: Vec<GruWeights> = weights.collect::<Result<_, ConvertError>>()?;
    Ok(config.init_with(weights)?)
}

/// The arrays of the layer that computes what `block` does; of a block in both directions under
/// `forward_layer/` and `backward_layer/`. Without `reset_after` Keras has one bias: a second is
/// added to it.
///
/// # Errors
/// If no such layer does: several layers, another update rule, an activation without a name there
/// or different ones of the reset and the update gate, a clip, or zoneout; or if a tensor cannot be
/// read back from its device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<StateDict, ConvertError> {
    SYSTEM.check_block(block)?;
    let mut dict = StateDict::new();
    for (k, layer) in block.layers.iter().enumerate() {
        let place = match (block.bidirectional, k) {
            (false, _) => "",
            (true, 0) => "forward_layer/",
            (true, _) => "backward_layer/",
        };
        let key = |name: &str| format!("{prefix}{place}{name}");
        dict.put(key("kernel"), ORDER.reorder(layer.w_ih.val(), 1, 1))?;
        let recurrent = ORDER.reorder(layer.w_hh.val(), 1, 1);
        dict.put(key("recurrent_kernel"), recurrent)?;
        if !bias::any(block) {
            continue;
        }
        let weights = layer.weights();
        match layer.spec.reset {
            Reset::AfterMatmul => {
                let (b_ih, b_hh) = bias::both(&weights);
                let both: Tensor<2> = Tensor::stack(vec![b_ih, b_hh], 0);
                dict.put(key("bias"), ORDER.reorder(both, 1, 1))?;
            }
            Reset::BeforeMatmul => {
                let (one, _) = bias::joined(&weights, layer.spec.reset);
                let one = one.unwrap_or_else(|| bias::zeros(&weights, 3 * block.d_hidden));
                dict.put(key("bias"), ORDER.reorder(one, 0, 1))?;
            }
        }
    }
    Ok(dict)
}

/// The activations of a layer, by Keras' names: `activation` of the candidate,
/// `recurrent_activation` of the two gates.
///
/// Keras 3's `hard_sigmoid` is `clamp(v/6 + 1/2, 0, 1)`.
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
    Ok(Activations {
        reset: gates,
        update: gates,
        candidate: named("candidate", activation)?,
    })
}

/// Keras' names of these: `(activation, recurrent_activation)`.
///
/// # Errors
/// If one has no name there, or those of the reset and the update gate differ.
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

/// By the names and with the parameters of Keras 3.
const ACTIVATIONS: [(&str, Activation); 9] = [
    ("linear", Activation::Identity),
    ("sigmoid", Activation::Sigmoid),
    ("tanh", Activation::Tanh),
    ("relu", Activation::Relu),
    (
        "hard_sigmoid",
        Activation::HardSigmoid {
            alpha: 1.0 / 6.0,
            beta: 0.5,
        },
    ),
    ("elu", Activation::Elu { alpha: 1.0 }),
    ("leaky_relu", Activation::LeakyRelu { alpha: 0.2 }),
    ("softsign", Activation::Softsign),
    ("softplus", Activation::Softplus),
];

/// All that stands before the arrays' names, of one layer, or of the forward and the backward one; and
/// these names.
fn layers(
    dict: &StateDict,
    prefix: &str,
) -> Result<(Vec<String>, [&'static str; 3]), ConvertError> {
    let unexpected = |key: &str| {
        ConvertError::from(GruError::UnexpectedKey {
            key: key.into(),
            expected: NAMES,
        })
    };
    // Each with a key, to be named if there are too many.
    let mut layers = BTreeMap::new();
    let mut arrays = None;
    for (key, name) in dict.under(prefix, NAMES)? {
        let at = name.rfind('/').map_or(0, |slash| slash + 1);
        let (layer, array) = name.split_at(at);
        let known = ARRAYS.into_iter().find(|names| names.contains(&array));
        // One kind of names for all.
        if known.is_none() || arrays.is_some_and(|arrays| known != Some(arrays)) {
            return Err(unexpected(key));
        }
        arrays = known;
        layers.insert(layer, key);
    }
    let full = |layer: &str| format!("{prefix}{layer}");
    let arrays = arrays.unwrap_or(ARRAYS[0]);
    match &layers.iter().collect::<Vec<_>>()[..] {
        [(layer, _)] => Ok((vec![full(layer)], arrays)),
        [(backward, _), (forward, _)]
            if backward.starts_with("backward_") && forward.starts_with("forward_") =>
        {
            Ok((vec![full(forward), full(backward)], arrays))
        }
        several => Err(unexpected(several[several.len() - 1].1)),
    }
}
