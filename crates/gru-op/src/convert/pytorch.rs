//! PyTorch's `nn.GRU` and `nn.GRUCell`, by the key names of their state dicts.
//!
//! `weight_ih_l{k} [3H,I]`, `weight_hh_l{k} [3H,H]`, `bias_ih_l{k}`, `bias_hh_l{k} [3H]`, gates in
//! rows r, z, n; suffix `_reverse` for the second direction; a cell has no `_l{k}`.
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.GRU.html>.
//!
//! ```no_run
//! # #[cfg(feature = "store")]
//! # fn main() -> Result<(), gru_op::convert::ConvertError> {
//! use gru_op::convert::{StateDict, pytorch};
//! # let device = burn::tensor::Device::flex();
//! let dict = StateDict::from_pytorch("model.pt")?;
//! let config = pytorch::config(&dict, "encoder.gru.")?.with_dropout(0.2);
//! let gru = pytorch::import(&dict, "encoder.gru.", &config, &device)?;
//! # Ok(()) }
//! # #[cfg(not(feature = "store"))]
//! # fn main() {}
//! ```

use super::{ConvertError, StateDict, both_biases, expect_plain, w_ih};
use crate::{GruBlock, GruBlockConfig, GruWeights, spec::Reset};
use burn::tensor::{Device, Tensor};

const SYSTEM: &str = "PyTorch";

/// What an unexpected key should have been.
const NAMES: &str = "an nn.GRU has weight_ih_l{k}, weight_hh_l{k}, bias_ih_l{k}, bias_hh_l{k}, \
                     each also with _reverse";

/// The configuration of the `nn.GRU` whose keys start with `prefix`: sizes, layers, directions and
/// biases, told from names and shapes. Time comes first, as in PyTorch, and the dropout, which no
/// state dict holds, is zero: set both as the model did.
///
/// # Errors
/// If a key under `prefix` is none of an `nn.GRU`, or shapes do not fit together.
pub fn config(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    let mut num_layers = 0;
    let mut bidirectional = false;
    let mut bias = false;
    for key in dict.keys() {
        let Some(name) = key.strip_prefix(prefix) else {
            continue;
        };
        let Some(key_of) = Key::parse(name) else {
            return Err(ConvertError::UnexpectedKey {
                key: key.into(),
                expected: NAMES,
            });
        };
        num_layers = num_layers.max(key_of.layer + 1);
        bidirectional |= key_of.reverse;
        bias |= key_of.bias;
    }
    let [_, d_input] = dict.shape(&format!("{prefix}weight_ih_l0"))?;
    let [_, d_hidden] = dict.shape(&format!("{prefix}weight_hh_l0"))?;
    let config = GruBlockConfig::new(d_input, d_hidden)
        .with_num_layers(num_layers)
        .with_bidirectional(bidirectional)
        .with_bias(bias)
        .with_batch_first(false);
    Ok(config)
}

/// The `nn.GRU` whose keys start with `prefix`, as a block of `config`.
///
/// # Errors
/// If a key is missing or unexpected, or a tensor has not the shape or dtype of such a module.
///
/// # Panics
/// As [`GruBlockConfig::init`].
pub fn import(
    dict: &StateDict,
    prefix: &str,
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    let found = self::config(dict, prefix)?;
    let same = |what, expected: usize, actual: usize| match expected == actual {
        true => Ok(()),
        false => Err(ConvertError::Count {
            what,
            expected,
            actual,
        }),
    };
    same("d_input", config.d_input, found.d_input)?;
    same("d_hidden", config.d_hidden, found.d_hidden)?;
    same("num_layers", config.num_layers, found.num_layers)?;
    let directions = |config: &GruBlockConfig| 1 + usize::from(config.bidirectional);
    same("directions", directions(config), directions(&found))?;
    let (h, directions) = (found.d_hidden, directions(&found));
    let mut weights = Vec::with_capacity(found.num_layers * directions);
    for layer in 0..found.num_layers {
        let inputs = match layer {
            0 => found.d_input,
            _ => directions * h,
        };
        for direction in 0..directions {
            let key = |name: &str| format!("{prefix}{name}{}", suffix(layer, direction));
            weights.push(read(dict, key, [inputs, h], found.bias, device)?);
        }
    }
    config.init_with(weights)
}

/// The state dict of the `nn.GRU` that computes what `block` does.
///
/// # Errors
/// If no `nn.GRU` does: another reset placement, update rule, activation, or a clip; or if a
/// tensor cannot be read back from its device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<StateDict, ConvertError> {
    let mut dict = StateDict::new();
    let directions = block.directions();
    for (k, layer) in block.layers.iter().enumerate() {
        expect_plain(SYSTEM, &layer.spec, Some(Reset::AfterMatmul))?;
        if layer.zoneout != 0.0 {
            return Err(ConvertError::Inexpressible {
                system: SYSTEM,
                what: "zoneout".into(),
            });
        }
        if layer.spec.direction != super::direction_of(k % directions) {
            return Err(ConvertError::Inexpressible {
                system: SYSTEM,
                what: "a layer in reverse only".into(),
            });
        }
        let key = |name: &str| format!("{prefix}{name}{}", suffix(k / directions, k % directions));
        write(&mut dict, key, &layer.weights())?;
    }
    Ok(dict)
}

/// The `nn.GRUCell` whose keys start with `prefix`: `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh`.
///
/// # Errors
/// If a key is missing or unexpected, or a tensor has not the shape or dtype of such a module.
pub fn import_cell(
    dict: &StateDict,
    prefix: &str,
    device: &Device,
) -> Result<GruWeights, ConvertError> {
    dict.expect_only(
        prefix,
        &["weight_ih", "weight_hh", "bias_ih", "bias_hh"],
        "an nn.GRUCell has weight_ih, weight_hh, bias_ih and bias_hh",
    )?;
    let key = |name: &str| format!("{prefix}{name}");
    let [_, i] = dict.shape(&key("weight_ih"))?;
    let [_, h] = dict.shape(&key("weight_hh"))?;
    let bias = ["bias_ih", "bias_hh"]
        .iter()
        .any(|b| dict.get(&key(b)).is_some());
    read(dict, key, [i, h], bias, device)
}

/// The state dict of the `nn.GRUCell` with these weights, which are used with the default
/// [`GruSpec`](crate::GruSpec).
///
/// # Errors
/// If there is no `w_ih`, or a tensor cannot be read back from its device.
pub fn export_cell(weights: &GruWeights, prefix: &str) -> Result<StateDict, ConvertError> {
    let mut dict = StateDict::new();
    write(&mut dict, |name| format!("{prefix}{name}"), weights)?;
    Ok(dict)
}

fn read(
    dict: &StateDict,
    key: impl Fn(&str) -> String,
    [i, h]: [usize; 2],
    bias: bool,
    device: &Device,
) -> Result<GruWeights, ConvertError> {
    let gates = 3 * h;
    let weight = |name: &str, inputs: usize| -> Result<Tensor<2>, ConvertError> {
        Ok(dict
            .tensor(&key(name), [gates, inputs], device)?
            .transpose())
    };
    let bias_of = |name: &str| {
        bias.then(|| dict.tensor(&key(name), [gates], device))
            .transpose()
    };
    Ok(GruWeights {
        w_ih: Some(weight("weight_ih", i)?),
        w_hh: weight("weight_hh", h)?,
        b_ih: bias_of("bias_ih")?,
        b_hh: bias_of("bias_hh")?,
    })
}

fn write(
    dict: &mut StateDict,
    key: impl Fn(&str) -> String,
    weights: &GruWeights,
) -> Result<(), ConvertError> {
    dict.put(key("weight_ih"), w_ih(SYSTEM, weights)?.transpose())?;
    dict.put(key("weight_hh"), weights.w_hh.clone().transpose())?;
    if let Some((b_ih, b_hh)) = both_biases(weights) {
        dict.put(key("bias_ih"), b_ih)?;
        dict.put(key("bias_hh"), b_hh)?;
    }
    Ok(())
}

fn suffix(layer: usize, direction: usize) -> String {
    let reverse = if direction == 1 { "_reverse" } else { "" };
    format!("_l{layer}{reverse}")
}

/// What a key of an `nn.GRU` says.
struct Key {
    layer: usize,
    reverse: bool,
    bias: bool,
}

impl Key {
    /// The most layers that a key may name: a larger number is a broken file, not a model.
    const MAX_LAYERS: usize = 1 << 12;

    fn parse(name: &str) -> Option<Self> {
        let (kind, rest) = name.split_once("_l")?;
        let bias = match kind {
            "weight_ih" | "weight_hh" => false,
            "bias_ih" | "bias_hh" => true,
            _ => return None,
        };
        let (number, reverse) = match rest.strip_suffix("_reverse") {
            Some(number) => (number, true),
            None => (rest, false),
        };
        let layer: usize = number.parse().ok().filter(|&l| l < Self::MAX_LAYERS)?;
        // One way to write a number: `01` or `+1` would name a layer twice.
        (number == layer.to_string()).then_some(Self {
            layer,
            reverse,
            bias,
        })
    }
}
