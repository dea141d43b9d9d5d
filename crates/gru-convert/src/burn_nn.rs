//! Burn's own `burn::nn::gru::Gru` and `BiGru`, with the parameter names of their records.
//!
//! `reset_gate`, `update_gate` and `new_gate` are r, z and n. Each has `input_transform.weight [I,H]`,
//! `hidden_transform.weight [H,H]`, and both `bias [H]`. A `BiGru` has these names under `forward.` and `reverse.`.
//! Source: `burn-nn` 0.22.1.
//!
//! A record does not contain `reset_after`, activations and `clip`. [`config`] returns Burn's defaults. If the module had
//! other options, pass `GruBlockConfig::try_from(&gru_config)?` to [`import`] instead.
//!
//! ```no_run
//! # #[cfg(feature = "store")]
//! # fn main() -> Result<(), gru_convert::ConvertError> {
//! use gru_convert::StateDict;
//! # let device = burn::tensor::Device::flex();
//! let dict = StateDict::from_burnpack("model.bpk")?;
//! let config = gru_convert::burn_nn::config(&dict, "encoder.gru.")?;
//! let gru = gru_convert::burn_nn::import(&dict, "encoder.gru.", &config, &device)?;
//! # Ok(()) }
//! # #[cfg(not(feature = "store"))]
//! # fn main() {}
//! ```

use crate::{
    arrays::{self, Array, Form::*, Parameter::*, RZN},
    error::ConvertError,
    looks::{Layer, Names, explained},
    model::{self, Grus},
    state_dict::StateDict,
    system::{PLAIN, System},
};
use burn::tensor::Device;
use gru_op::{Activation, GruBlock, GruBlockConfig};
use std::collections::{BTreeMap, BTreeSet};

const SYSTEM: System = System {
    name: "Burn",
    bidirectional: true,
    activations: |activations| {
        let [reset, update, candidate] = activations.into_array();
        let lacks = |gate| {
            use Activation::{Affine, ScaledTanh};
            matches!(gate, Affine { .. } | ScaledTanh { .. })
        };
        reset == update && !lacks(reset) && !lacks(candidate)
    },
    own_activations: true,
    clip_state: true,
    ..PLAIN
};

/// The expected keys, for the error about an unexpected key.
const NAMES: &str = "a Gru has reset_gate, update_gate and new_gate, each with input_transform and hidden_transform, each \
                     with weight and bias, a BiGru has them under forward. and reverse.; \
                     StateDict::retain drops others";

/// The gates r, z, n.
const GATES: [&str; 3] = ["reset_gate.", "update_gate.", "new_gate."];

/// The configuration of the `Gru` or `BiGru` whose keys start with `prefix`: sizes, directions and biases from names and
/// shapes, everything else as the default of Burn's `GruConfig`.
///
/// # Errors
/// If a key under `prefix` is missing or does not belong to such a module, or if an array is not a matrix.
pub fn config(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    read(dict, prefix).map_err(|error| explained(error, dict, prefix, &LOOKS))
}

fn read(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    let keys = dict.under(prefix, NAMES)?;
    let bidirectional = keys.iter().any(|(_, name)| name.starts_with("forward."));
    let first = if bidirectional { "forward." } else { "" };
    let config = |i, h| GruBlockConfig::new(i, h).with_bidirectional(bidirectional);
    let names = arrays("", &config(1, 1)).into_iter().map(|(name, ..)| name);
    let names: Vec<_> = names.collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    dict.expect_only(prefix, &names, NAMES)?;
    let [i, h] = dict.shape(&format!("{prefix}{first}reset_gate.input_transform.weight"))?;
    Ok(config(i, h).with_bias(keys.iter().any(|(_, name)| name.ends_with("bias"))))
}

/// The `Gru` or `BiGru` whose keys start with `prefix`, as a block with `config`. Set `reset_after`, activations and
/// `clip` in `config` as the module had them.
///
/// # Errors
/// If a key is missing or unexpected, if an array does not have the shape or dtype of such a module, or if `config` does
/// not match.
pub fn import(
    dict: &StateDict,
    prefix: &str,
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    let found = self::config(dict, prefix)?.with_reset(config.layer_spec(0).reset);
    SYSTEM.check_config(config, &found)?;
    arrays::import(dict, &arrays(prefix, &found), config, device)
}

/// The parameters of a `Gru` or `BiGru` that computes the same as `block`.
///
/// # Errors
/// If there is no such module: several layers, another update rule, an activation that Burn lacks, different activations of
/// the reset and the update gate, clipped gates, zoneout, or only a reverse layer. Also if a tensor cannot be read from its
/// device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<StateDict, ConvertError> {
    SYSTEM.check_block(block)?;
    arrays::export(&block.layers, &arrays(prefix, &block.config()))
}

/// Replaces the arrays of each `Gru` and `BiGru` by the parameters of a [`GruBlock`], such as
/// `encoder.gru.layers.0.w_ih`. Other arrays stay. [`load`] does this too, so call this function only to rename the
/// result: two `Gru` modules may become the layers of one block.
///
/// ```
/// # fn main() -> Result<(), gru_convert::ConvertError> {
/// # use gru_op::GruBlockConfig;
/// # let device = burn::tensor::Device::flex();
/// # let one = |i, prefix| gru_convert::burn_nn::export(&GruBlockConfig::new(i, 16).init(&device), prefix);
/// # let mut dict = one(8, "first.")?;
/// # dict.extend(one(16, "second.")?);
/// let dict = gru_convert::burn_nn::blocks(dict, &device)?.renamed(|key| {
///     let key = key.replace("first.layers.0.", "gru.layers.0.");
///     key.replace("second.layers.0.", "gru.layers.1.")
/// })?;
/// assert!(dict.get("gru.layers.1.w_ih").is_some());
/// # Ok(()) }
/// ```
///
/// # Errors
/// As [`import`].
pub fn blocks(dict: StateDict, device: &Device) -> Result<StateDict, ConvertError> {
    model::blocks(dict, &BTreeSet::new(), grus, |gru, prefix| {
        block(gru, prefix, device)
    })
}

fn block(dict: &StateDict, prefix: &str, device: &Device) -> Result<GruBlock, ConvertError> {
    import(dict, prefix, &config(dict, prefix)?, device)
}

/// The model with the arrays of a record of Burn, whose modules `Gru` and `BiGru` are blocks in `model`: each array
/// becomes one parameter, and no parameter is left out.
///
/// A record does not contain what a GRU computes, so build `model` with blocks of the same configuration. Parameters
/// become the default float type of the model's device. [`pytorch::load`](crate::pytorch::load) has an example.
///
/// # Errors
/// As [`import`], or if arrays and parameters do not match.
#[cfg(feature = "store")]
pub fn load<M: burn::module::Module>(dict: StateDict, model: M) -> Result<M, ConvertError> {
    model::load(
        dict,
        model,
        (grus, block),
        burn_store::IdentityAdapter,
        false,
    )
}

/// Modules by the names of their gates. Burn's `Lstm` and `Rnn` have other gates.
pub(crate) const LOOKS: Names = Names {
    module: "burn_nn",
    layer: |dict, key| {
        let path = key.strip_suffix(".hidden_transform.weight")?;
        let start = path.rfind('.').map_or(0, |dot| dot + 1);
        let (prefix, gate) = path.split_at(start);
        let gates = match gate {
            "reset_gate" => 3,
            "output_gate" => 4,
            "gate" => 1,
            _ => return None,
        };
        let both = both_of(prefix).filter(|both| gates == 3 && are_directions(dict, both));
        Some(Layer::new(both.unwrap_or(prefix), gates, 1))
    },
    check: |dict, prefix| arrays::check(dict, &arrays(prefix, &read(dict, prefix)?)),
};

/// The prefix of a `BiGru`, if this may be the prefix of one of its directions.
fn both_of(prefix: &str) -> Option<&str> {
    let both = ["forward.", "reverse."].map(|direction| prefix.strip_suffix(direction));
    let both = both.into_iter().flatten().next()?;
    (both.is_empty() || both.ends_with('.')).then_some(both)
}

/// Whether two modules with equal shapes are in the fields of a `BiGru`.
fn are_directions(dict: &StateDict, both: &str) -> bool {
    let [forward, reverse] = ["forward.", "reverse."].map(|direction| {
        let prefix = format!("{both}{direction}");
        let own = dict.under(&prefix, NAMES).unwrap_or_default();
        let own = own.into_iter().filter(|(_, name)| is_own(name));
        own.filter_map(|(key, name)| Some((name, dict.get(key)?.shape())))
            .collect::<Vec<_>>()
    });
    forward == reverse && !forward.is_empty()
}

/// Whether an array of a `Gru` may have this name.
fn is_own(name: &str) -> bool {
    let gate = GATES.iter().find_map(|gate| name.strip_prefix(gate));
    let array = gate.and_then(|rest| rest.split_once("_transform."));
    matches!(array, Some(("input" | "hidden", "weight" | "bias")))
}

/// The keys of each module. A module of the user may have gates of the same names, but its arrays have other names or
/// shapes, or the model has parameters of these names.
fn grus(dict: &StateDict, wanted: &BTreeSet<String>) -> Grus {
    let mut grus = BTreeMap::new();
    for key in dict.keys() {
        let Some(prefix) = key.strip_suffix("reset_gate.hidden_transform.weight") else {
            continue;
        };
        let is_path = prefix.is_empty() || prefix.ends_with('.');
        let own = dict.under(prefix, NAMES).unwrap_or_default();
        let own: Vec<_> = own.into_iter().filter(|(_, name)| is_own(name)).collect();
        if is_path && is_gru(dict, &own) && !own.iter().any(|(key, _)| wanted.contains(*key)) {
            let both = both_of(prefix).filter(|both| {
                let first = format!("{both}forward.layers.0.w_hh");
                are_directions(dict, both) && !wanted.contains(&first)
            });
            let keys = own.into_iter().map(|(key, _)| key.to_owned());
            let gru: &mut Vec<_> = grus.entry(both.unwrap_or(prefix).to_owned()).or_default();
            gru.extend(keys);
        }
    }
    grus
}

/// Whether these arrays are square recurrent matrices of all gates, and have shapes for the same H.
fn is_gru(dict: &StateDict, own: &[(&str, &str)]) -> bool {
    let mut recurrent = own
        .iter()
        .filter(|(_, name)| name.ends_with("hidden_transform.weight"));
    let shape = |key: &str| dict.get(key).map_or(&[][..], |array| array.shape());
    let Some(&[h, _]) = recurrent.clone().next().map(|(key, _)| shape(key)) else {
        return false;
    };
    let has_gates = recurrent.clone().count() == GATES.len();
    has_gates
        && recurrent.all(|(key, _)| shape(key) == [h, h])
        && own.iter().all(|(key, name)| match shape(key) {
            [_, width] => name.ends_with("weight") && *width == h,
            [width] => name.ends_with("bias") && *width == h,
            _ => false,
        })
}

/// One array for each gate.
fn arrays(prefix: &str, config: &GruBlockConfig) -> Vec<Array> {
    let (i, h) = (config.d_input, config.d_hidden);
    let mut arrays = Vec::new();
    for k in 0..config.layer_count() {
        let direction = match k {
            _ if !config.bidirectional => "",
            0 => "forward.",
            _ => "reverse.",
        };
        for (gate, gates) in GATES.iter().zip(RZN.chunks(1)) {
            let transforms = [
                ("input_transform", i, Input, InputBias),
                ("hidden_transform", h, Recurrent, RecurrentBias),
            ];
            for (transform, inputs, weight, bias) in transforms {
                let key = |name| format!("{prefix}{direction}{gate}{transform}.{name}");
                let part = |parameter| vec![(parameter, gates, Columns)];
                arrays.push((key("weight"), vec![inputs, h], k..k + 1, part(weight)));
                if config.bias {
                    arrays.push((key("bias"), vec![h], k..k + 1, part(bias)));
                }
            }
        }
    }
    arrays
}
