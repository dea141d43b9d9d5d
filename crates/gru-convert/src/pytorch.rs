//! PyTorch's `nn.GRU` and `nn.GRUCell`, with the key names of their state dicts.
//!
//! `weight_ih_l{k} [3H,I]`, `weight_hh_l{k} [3H,H]`, `bias_ih_l{k}`, `bias_hh_l{k} [3H]`, gates as rows
//! r, z, n. The second direction has the suffix `_reverse`. A cell has the same names without `_l{k}`
//! and becomes a block with one layer, which [`GruBlock::step`] runs. Source:
//! <https://docs.pytorch.org/docs/stable/generated/torch.nn.GRU.html>.
//!
//! A matrix of a module with `weight_norm` and `dim=0` is `g·v/‖v‖` for each row, of the arrays
//! `weight_hh_l0_g` and `weight_hh_l0_v`, or `parametrizations.weight_hh_l0.original0` and `.original1`.
//!
//! ```no_run
//! # #[cfg(feature = "store")]
//! # fn main() -> Result<(), gru_convert::ConvertError> {
//! use gru_convert::{StateDict, pytorch};
//! # let device = burn::tensor::Device::flex();
//! let dict = StateDict::from_pytorch("model.pt")?;
//! let config = pytorch::config(&dict, "encoder.gru.")?.with_dropout(0.2);
//! let gru = pytorch::import(&dict, "encoder.gru.", &config, &device)?;
//! # Ok(()) }
//! # #[cfg(not(feature = "store"))]
//! # fn main() {}
//! ```
//!
//! [`export`] writes the names of an `nn.GRU`. A block with one layer becomes a cell by renaming:
//!
//! ```
//! # fn main() -> Result<(), gru_convert::ConvertError> {
//! use gru_convert::pytorch;
//! use gru_op::GruBlockConfig;
//! # let device = burn::tensor::Device::flex();
//! let block = GruBlockConfig::new(8, 16).init(&device);
//! let cell = pytorch::export(&block, "cell.")?.renamed(|key| key.replace("_l0", ""))?;
//! assert_eq!(cell.get("cell.weight_ih").unwrap().shape()[..], [48, 8]);
//! let config = pytorch::config(&cell, "cell.")?;
//! let block = pytorch::import(&cell, "cell.", &config, &device)?;
//! let weights = block.layers[0].weights(); // for `gru_cell`
//! # Ok(()) }
//! ```

mod names;

use self::names::{NAMES, Name, grus, layer_of_name};
use crate::{
    arrays::{self, Array, Form::*, Parameter::*, RZN},
    error::ConvertError,
    looks::{Layer, Names, explained},
    model,
    state_dict::{StateDict, unexpected},
    system::{PLAIN, System},
};
use burn::tensor::{Device, TensorData};
use gru_op::{GruBlock, GruBlockConfig, GruError, Reset};
use std::{borrow::Cow, collections::BTreeSet};

const SYSTEM: System = System {
    name: "PyTorch",
    layers: true,
    bidirectional: true,
    reset: Some(Reset::AfterMatmul),
    ..PLAIN
};

/// The expected keys, for the error about an unexpected key.
const GRU: &str = "an nn.GRU has weight_ih_l{k}, weight_hh_l{k}, bias_ih_l{k}, bias_hh_l{k}, \
                   each also with _reverse; StateDict::retain drops others";
const CELL: &str =
    "an nn.GRUCell has weight_ih, weight_hh, bias_ih and bias_hh; StateDict::retain drops others";

/// The configuration of the `nn.GRU` or `nn.GRUCell` whose keys start with `prefix`: sizes, layers,
/// directions and biases from names and shapes. A state dict does not contain layout and dropout. The
/// layout is time-major, as PyTorch's default, and dropout is zero. Set both as in the original model.
///
/// # Errors
/// If a key under `prefix` is missing or does not belong to such a module, or if shapes do not match.
pub fn config(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    let found = without_weight_norm(dict, prefix).and_then(|plain| {
        let keys = Keys::read(&plain, prefix)?;
        keys.config(&plain, prefix)
    });
    found.map_err(|error| explained(error, dict, prefix, &LOOKS))
}

/// The `nn.GRU` or `nn.GRUCell` whose keys start with `prefix`, as a block with `config`.
///
/// # Errors
/// If a key is missing or unexpected, if a tensor does not have the shape or dtype of such a module, or
/// if `config` does not match.
pub fn import(
    dict: &StateDict,
    prefix: &str,
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    let found = self::config(dict, prefix)?;
    let dict = &*without_weight_norm(dict, prefix)?;
    let keys = Keys::read(dict, prefix)?;
    SYSTEM.check_config(config, &found)?;
    arrays::import(dict, &keys.arrays(prefix, &found), config, device)
}

/// The state dict of an `nn.GRU` that computes the same as `block`.
///
/// # Errors
/// If there is no such `nn.GRU`: another reset form, update rule or activation, a clip, zoneout, or only
/// a reverse layer. Also if a tensor cannot be read from its device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<StateDict, ConvertError> {
    SYSTEM.check_block(block)?;
    let keys = Keys {
        layers: Some(block.num_layers),
        bidirectional: block.bidirectional,
        bias: arrays::has_bias(block),
    };
    arrays::export(&block.layers, &keys.arrays(prefix, &block.config()))
}

/// Replaces the arrays of each `nn.GRU` and `nn.GRUCell` by the parameters of a [`GruBlock`], such as
/// `encoder.gru.layers.0.w_ih`. Other arrays stay, also of an `nn.LSTM` or `nn.RNN`: names and shapes show a
/// GRU. [`load`] does this too, so call this function only to rename the result.
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

/// The model with the arrays of a PyTorch model, whose modules `nn.GRU` and `nn.GRUCell` are blocks in `model`: each array
/// becomes one parameter, and no parameter is left out. [`StateDict::renamed`] changes names first, if they differ. Other
/// layers convert as with `burn-store`: `Linear` is transposed, normalization layers have other names, and the numbers in
/// an `nn.Sequential` may have gaps.
///
/// An `nn.LSTM` or `nn.RNN` is not converted: `model` needs parameters with the names and shapes of its arrays, or
/// [`StateDict::retain`] drops them, as it drops the slots of an optimizer.
///
/// The blocks in `model` must have PyTorch's reset and activations, which are the default. Parameters become the
/// default float type of the model's device.
///
/// ```no_run
/// use burn::{module::Module, nn::{Linear, LinearConfig}, tensor::Device};
/// use gru_convert::{StateDict, pytorch};
/// use gru_op::{GruBlock, GruBlockConfig};
///
/// #[derive(Module, Debug)]
/// struct Tagger {
///     gru: GruBlock,
///     head: Linear,
/// }
///
/// # fn main() -> Result<(), gru_convert::ConvertError> {
/// let device = Device::flex();
/// let gru = GruBlockConfig::new(64, 128).init(&device);
/// let head = LinearConfig::new(128, 10).init(&device);
/// let dict = StateDict::from_pytorch("tagger.pt")?;
/// let tagger = pytorch::load(dict, Tagger { gru, head })?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`import`], or if arrays and parameters do not match.
#[cfg(feature = "store")]
pub fn load<M: burn::module::Module>(mut dict: StateDict, model: M) -> Result<M, ConvertError> {
    // Burn's BatchNorm does not count batches.
    dict.retain(|key| !key.ends_with("num_batches_tracked"));
    model::load(
        dict,
        model,
        (grus, block),
        burn_store::PyTorchToBurnAdapter,
        true,
    )
}

/// Modules by their recurrent weights. An `nn.LSTM`, an `nn.RNN` and their cells have the names of a GRU.
pub(crate) const LOOKS: Names = Names {
    module: "pytorch",
    layer: |dict, key| {
        let name = Name::read(dict, key)?;
        match dict.get(key)?.shape()[..] {
            [rows, h] if name.array == 1 && !name.is_norm && rows > 0 && h > 0 => {
                let mut layer = Layer::new(name.prefix, rows, h);
                let projection = format!("{}weight_hr_l0", name.prefix);
                layer.is_lstm = dict.get(&projection).is_some();
                Some(layer)
            }
            _ => None,
        }
    },
    check: |dict, prefix| {
        let dict = &*without_weight_norm(dict, prefix)?;
        let keys = Keys::read(dict, prefix)?;
        arrays::check(dict, &keys.arrays(prefix, &keys.config(dict, prefix)?))
    },
};

/// The arrays under `prefix`, with the product `g·v/‖v‖` in place of `g` and `v`, in float64.
fn without_weight_norm<'a>(
    dict: &'a StateDict,
    prefix: &str,
) -> Result<Cow<'a, StateDict>, ConvertError> {
    // The name of a matrix, and of its `g`.
    let pair = |v: &str| {
        let (name, g) = match v.strip_prefix("parametrizations.") {
            Some(name) => {
                let name = name.strip_suffix(".original1")?;
                (name, format!("parametrizations.{name}.original0"))
            }
            None => (
                v.strip_suffix("_v")?,
                format!("{}_g", v.strip_suffix("_v")?),
            ),
        };
        let g = format!("{prefix}{g}");
        let is_pair = name.starts_with("weight_") && dict.get(&g).is_some();
        is_pair.then(|| (name.to_owned(), g))
    };
    let mut plain = Cow::Borrowed(dict);
    for (v_key, name) in dict.under(prefix, GRU)? {
        let Some((name, g_key)) = pair(name) else {
            continue;
        };
        let [rows, columns] = dict.shape(v_key)?;
        let v = dict.floats(v_key, &[rows, columns])?;
        if dict.get(&g_key).is_some_and(|g| g.shape()[..] != [rows, 1]) {
            return Err(ConvertError::Form {
                expected: "[3H, 1], weight_norm with dim=0; no other dim is read",
                actual: dict.get(&g_key).map_or(vec![], |g| g.shape().to_vec()),
                name: g_key,
            });
        }
        let g = dict.floats(&g_key, &[rows, 1])?;
        let mut weight: Vec<f64> = v.iter().collect();
        for (row, g) in weight.chunks_exact_mut(columns.max(1)).zip(g.iter::<f64>()) {
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            row.iter_mut().for_each(|x| *x *= g / norm);
        }
        let plain = plain.to_mut();
        plain.tensors.remove(v_key);
        plain.tensors.remove(&g_key);
        plain.insert(
            format!("{prefix}{name}"),
            TensorData::new(weight, [rows, columns]),
        );
    }
    Ok(plain)
}

/// The content of a module's keys.
struct Keys {
    /// None for a cell.
    layers: Option<usize>,
    bidirectional: bool,
    bias: bool,
}

impl Keys {
    fn read(dict: &StateDict, prefix: &str) -> Result<Self, ConvertError> {
        let keys = dict.under(prefix, GRU)?;
        let is_cell = NAMES.contains(&keys[0].1);
        let found = keys.iter().map(|(_, name)| layer_of_name(name));
        let is_own = |layer: &Option<Option<usize>>| layer.is_some_and(|l| l.is_none() == is_cell);
        if let Some(at) = found.clone().position(|layer| !is_own(&layer)) {
            return Err(unexpected(keys[at].0, if is_cell { CELL } else { GRU }));
        }
        let found: BTreeSet<_> = found.flatten().flatten().collect();
        let layers = (0..).take_while(|k| found.contains(k)).count();
        if layers < found.len() {
            let key = format!("{prefix}weight_ih_l{layers}");
            return Err(GruError::MissingKey { key }.into());
        }
        let is_weight = |name: &str| {
            let name = name.strip_prefix("parametrizations.").unwrap_or(name);
            NAMES.iter().any(|own| name.starts_with(own))
        };
        dict.expect_read(prefix, is_weight)?;
        Ok(Self {
            layers: (!is_cell).then_some(layers),
            bidirectional: keys.iter().any(|(_, name)| name.ends_with("_reverse")),
            bias: keys.iter().any(|(_, name)| name.starts_with("bias_")),
        })
    }

    fn config(&self, dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
        let key = |name: &str| format!("{prefix}{name}{}", self.suffix(0));
        let [_, d_input] = dict.shape(&key("weight_ih"))?;
        let [gates, d_hidden] = dict.shape(&key("weight_hh"))?;
        GruError::expect_shape(
            &key("weight_hh"),
            &[d_hidden.saturating_mul(3), d_hidden],
            &[gates, d_hidden],
        )?;
        Ok(GruBlockConfig::new(d_input, d_hidden)
            .with_num_layers(self.layers.unwrap_or(1))
            .with_bidirectional(self.bidirectional)
            .with_bias(self.bias)
            .with_batch_first(false))
    }

    fn arrays(&self, prefix: &str, config: &GruBlockConfig) -> Vec<Array> {
        let gates = 3 * config.d_hidden;
        let of_layer = |k: usize| {
            let array = |name, shape, parameter| {
                let key = format!("{prefix}{name}{}", self.suffix(k));
                (key, shape, k..k + 1, vec![(parameter, RZN, Rows)])
            };
            let [w_ih, w_hh, b_ih, b_hh] = NAMES;
            let all = [
                array(w_ih, vec![gates, config.layer_inputs(k)], Input),
                array(w_hh, vec![gates, config.d_hidden], Recurrent),
                array(b_ih, vec![gates], InputBias),
                array(b_hh, vec![gates], RecurrentBias),
            ];
            all.into_iter().take(if self.bias { 4 } else { 2 })
        };
        (0..config.layer_count()).flat_map(of_layer).collect()
    }

    /// The suffix of the tensor names for entry `k` of layers times directions.
    fn suffix(&self, k: usize) -> String {
        let directions = 1 + usize::from(self.bidirectional);
        match (self.layers, k % directions) {
            (None, _) => String::new(),
            (Some(_), 0) => format!("_l{}", k / directions),
            (Some(_), _) => format!("_l{}_reverse", k / directions),
        }
    }
}
