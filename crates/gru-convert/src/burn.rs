//! Burn's own `burn::nn::gru::Gru` and `BiGru`, with the parameter names of their records.
//!
//! `reset_gate`, `update_gate` and `new_gate` are r, z and n. Each has `input_transform.weight [I,H]`,
//! `hidden_transform.weight [H,H]`, and both `bias [H]`. A `BiGru` has these names under `forward.` and `reverse.`.
//! Source: `burn-nn` 0.22.1.
//!
//! A record does not contain `reset_after`, activations and `clip`. [`config`] returns Burn's defaults. If the module had
//! other options, pass `GruBlockConfig::try_from(&gru_config)?` to [`import`] instead.
//!
//! Write the whole path, as in `gru_convert::burn::load`. After `use gru_convert::burn`, the name `burn` is this module
//! and no longer the crate.
//!
//! ```no_run
//! # #[cfg(feature = "store")]
//! # fn main() -> Result<(), gru_convert::ConvertError> {
//! use gru_convert::StateDict;
//! # let device = burn::tensor::Device::flex();
//! let dict = StateDict::from_burnpack("model.bpk")?;
//! let config = gru_convert::burn::config(&dict, "encoder.gru.")?;
//! let gru = gru_convert::burn::import(&dict, "encoder.gru.", &config, &device)?;
//! # Ok(()) }
//! # #[cfg(not(feature = "store"))]
//! # fn main() {}
//! ```

use crate::{
    arrays::{self, Array, Form::*, Parameter::*, RZN},
    error::ConvertError,
    model,
    state_dict::StateDict,
    system::{PLAIN, System},
};
use burn::tensor::Device;
use gru_op::{Activation, GruBlock, GruBlockConfig};

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
                     with weight and bias, a BiGru has them under forward. and reverse.";

/// The gates r, z, n.
const GATES: [&str; 3] = ["reset_gate.", "update_gate.", "new_gate."];

/// The configuration of the `Gru` or `BiGru` whose keys start with `prefix`: sizes, directions and biases from names and
/// shapes, everything else as the default of Burn's `GruConfig`.
///
/// # Errors
/// If a key under `prefix` is missing or does not belong to such a module, or if an array is not a matrix.
pub fn config(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
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
/// # let one = |i, prefix| gru_convert::burn::export(&GruBlockConfig::new(i, 16).init(&device), prefix);
/// # let mut dict = one(8, "first.")?;
/// # dict.extend(one(16, "second.")?);
/// let dict = gru_convert::burn::blocks(dict, &device)?.renamed(|key| {
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
    model::blocks(dict, prefix_of, |gru, prefix| {
        import(gru, prefix, &config(gru, prefix)?, device)
    })
}

/// The model with the arrays of a record of Burn, whose modules `Gru` and `BiGru` are blocks in `model`: each array
/// becomes one parameter, and no parameter is left out.
///
/// A record does not contain what a GRU computes, so build `model` with blocks of the same configuration. Parameters
/// become the default float type of the model's device.
///
/// # Errors
/// As [`import`], or if arrays and parameters do not match.
#[cfg(feature = "store")]
pub fn load<M: burn::module::Module>(dict: StateDict, model: M) -> Result<M, ConvertError> {
    model::load(dict, model, blocks, burn_store::IdentityAdapter, false)
}

/// The prefix of the module, if it is an array of a `Gru` or `BiGru`.
fn prefix_of<'a>(dict: &StateDict, key: &'a str) -> Option<&'a str> {
    let (prefix, _) = GATES.iter().find_map(|gate| key.rsplit_once(gate))?;
    let one_of_both = ["forward.", "reverse."].iter().find_map(|direction| {
        let both = prefix.strip_suffix(direction)?;
        let has = |other| dict.get(&format!("{both}{other}.new_gate.hidden_transform.weight"));
        (has("forward").is_some() && has("reverse").is_some()).then_some(both)
    });
    let prefix = one_of_both.unwrap_or(prefix);
    (prefix.is_empty() || prefix.ends_with('.')).then_some(prefix)
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
