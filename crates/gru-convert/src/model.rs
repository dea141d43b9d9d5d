//! Whole models: their GRUs become blocks, and their arrays parameters.

use crate::{
    arrays::{self, Form::*, Parameter::*, RZN},
    error::ConvertError,
    state_dict::StateDict,
};
use gru_op::GruBlock;
use std::collections::{BTreeMap, BTreeSet};

#[cfg(feature = "store")]
use crate::looks::{self, RETAIN};
#[cfg(feature = "store")]
use burn::{module::Module, tensor::Device};
#[cfg(feature = "store")]
use burn_store::{FloatCastAdapter, ModuleAdapter, ModuleSnapshot, bridge, map_indices_contiguous};

/// The keys of each GRU, by its prefix.
pub(crate) type Grus = BTreeMap<String, Vec<String>>;
/// Finds the GRUs of a system, except arrays of names that are wanted unchanged.
pub(crate) type Find = fn(&StateDict, &BTreeSet<String>) -> Grus;
/// The GRU with a prefix, as a block.
#[cfg(feature = "store")]
pub(crate) type Import = fn(&StateDict, &str, &Device) -> Result<GruBlock, ConvertError>;

/// Replaces the arrays of each GRU by the parameters of a block.
pub(crate) fn blocks(
    mut dict: StateDict,
    wanted: &BTreeSet<String>,
    find: Find,
    import: impl Fn(&StateDict, &str) -> Result<GruBlock, ConvertError>,
) -> Result<StateDict, ConvertError> {
    for (prefix, keys) in find(&dict, wanted) {
        let arrays = keys.into_iter().map(|key| dict.tensors.remove_entry(&key));
        let gru = StateDict {
            tensors: arrays.flatten().collect(),
            left_out: dict.left_out.clone(),
        };
        dict.extend(parameters(&import(&gru, &prefix)?, &prefix)?);
    }
    Ok(dict)
}

/// The parameters of a block with their names in a record.
fn parameters(block: &GruBlock, prefix: &str) -> Result<StateDict, ConvertError> {
    let (config, h) = (block.config(), block.d_hidden);
    let of_layer = |k: usize| {
        let array = |name, shape, parameter| {
            let key = format!("{prefix}layers.{k}.{name}");
            (key, shape, k..k + 1, vec![(parameter, RZN, Columns)])
        };
        let all = [
            array("w_ih", vec![config.layer_inputs(k), 3 * h], Input),
            array("w_hh", vec![h, 3 * h], Recurrent),
            array("b_ih", vec![3 * h], InputBias),
            array("b_hh", vec![3 * h], RecurrentBias),
        ];
        all.into_iter().take(if config.bias { 4 } else { 2 })
    };
    let arrays: Vec<_> = (0..block.layers.len()).flat_map(of_layer).collect();
    arrays::export(&block.layers, &arrays)
}

/// The model with these arrays as parameters, each of them used, after `blocks`. In PyTorch, paths have no names of enum
/// variants, and the numbers in an `nn.Sequential` have gaps.
#[cfg(feature = "store")]
pub(crate) fn load<M: Module>(
    dict: StateDict,
    mut model: M,
    (find, import): (Find, Import),
    adapter: impl ModuleAdapter + 'static,
    pytorch: bool,
) -> Result<M, ConvertError> {
    let device = model.devices().into_iter().next().unwrap_or_default();
    let float = device.settings().float_dtype.into();
    let adapter: Box<dyn ModuleAdapter> = Box::new(adapter.chain(FloatCastAdapter::to(float)));
    let wanted = model.collect(None, None, false).into_iter();
    let wanted = wanted.map(|parameter| parameter.name).collect();
    let dict = blocks(dict, &wanted, find, |gru, prefix| {
        import(gru, prefix, &device)
    })?;
    let others = looks::others(&dict);
    let arrays = dict.tensors.into_iter();
    let arrays: Vec<_> = arrays
        .map(|(name, data)| bridge::from_data(data, name, None))
        .collect();
    let mut apply = |arrays| model.apply(arrays, None, Some(adapter.clone()), pytorch);
    let mut result = apply(arrays.clone());
    if pytorch && !result.missing.is_empty() {
        let again = apply(map_indices_contiguous(arrays).0);
        if again.missing.len() < result.missing.len() {
            result = again;
        }
    }
    let lacking = |of: &String, what| format!("{of}: expected {what} of this name, got none");
    let missing = result.missing.iter();
    let missing = missing.map(|(name, _)| lacking(name, "an array"));
    let unused = result.unused.iter();
    let unused = unused.map(|name| {
        let of = others
            .iter()
            .rev()
            .find(|(prefix, _)| name.starts_with(*prefix));
        let of = of.map_or(String::new(), |(_, other)| format!(", of {other}"));
        lacking(name, "a parameter of the model") + &of
    });
    let advice = (!result.unused.is_empty()).then(|| RETAIN.to_owned());
    let errors = result.errors.iter().map(ToString::to_string);
    let left_out = dict.left_out.iter();
    let left_out = left_out.map(|(name, reason)| format!("{name}: {reason}"));
    let differences = missing
        .chain(unused)
        .chain(errors)
        .chain(left_out)
        .chain(advice);
    let differences: Vec<_> = differences.collect();
    if differences.is_empty() {
        Ok(model)
    } else {
        Err(ConvertError::Unmatched { differences })
    }
}
