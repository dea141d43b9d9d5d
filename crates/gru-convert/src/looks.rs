//! What the arrays of a file look like: GRUs and other recurrent layers, by names and shapes.

use crate::{
    burn_nn,
    error::ConvertError,
    keras, onednn, onnx, pytorch,
    state_dict::{StateDict, shown},
    tensorflow,
};
use gru_op::GruError;
use std::collections::BTreeMap;

/// The advice at the end of an error about arrays too many.
#[cfg(feature = "store")]
pub(crate) const RETAIN: &str = "StateDict::retain drops arrays that are not used";

/// A system whose names and shapes show recurrent layers.
pub(crate) struct Names {
    /// Its module.
    pub module: &'static str,
    /// The layer of a recurrent weight, by its name.
    pub layer: fn(&StateDict, &str) -> Option<Layer>,
    /// Returns an error if the arrays under a prefix cannot be imported.
    pub check: fn(&StateDict, &str) -> Result<(), ConvertError>,
}

const SYSTEMS: [&Names; 6] = [
    &pytorch::LOOKS,
    &burn_nn::LOOKS,
    &keras::LOOKS,
    &tensorflow::LOOKS,
    &onednn::LOOKS,
    &onnx::LOOKS,
];

/// A recurrent layer.
pub(crate) struct Layer {
    pub prefix: String,
    /// G of its recurrent weight, which has G·H times H numbers, or none if G is no integer.
    pub gates: Option<usize>,
    /// Whether another array shows that it is an LSTM.
    pub is_lstm: bool,
}

impl Layer {
    /// With a recurrent weight of `rows` times `h` numbers.
    pub fn new(prefix: impl Into<String>, rows: usize, h: usize) -> Self {
        let prefix = prefix.into();
        let gates = (h > 0 && rows.is_multiple_of(h)).then(|| rows / h);
        Self {
            prefix,
            gates,
            is_lstm: false,
        }
    }

    /// Its name, if it is not a GRU.
    pub fn other(&self) -> Option<&'static str> {
        match self.gates {
            Some(3) => None,
            _ if self.is_lstm => Some("an LSTM: four gates"),
            Some(1) => Some("an RNN: one gate"),
            Some(4) => Some("an LSTM: four gates"),
            _ => Some("another cell: not three gates"),
        }
    }
}

/// Each recurrent layer of a system, once.
fn layers(dict: &StateDict, of: &Names) -> BTreeMap<String, Layer> {
    let layers = dict.keys().filter_map(|key| (of.layer)(dict, key));
    layers.map(|layer| (layer.prefix.clone(), layer)).collect()
}

/// The recurrent layers of PyTorch and Burn that are no GRUs, each with its name.
#[cfg(feature = "store")]
pub(crate) fn others(dict: &StateDict) -> BTreeMap<String, &'static str> {
    let all = [&pytorch::LOOKS, &burn_nn::LOOKS];
    let all = all.into_iter().flat_map(|of| layers(dict, of));
    all.filter_map(|(prefix, layer)| Some((prefix, layer.other()?)))
        .collect()
}

/// An importer's error with what the file has instead: another layer under this prefix, or GRUs under others.
pub(crate) fn explained(
    error: ConvertError,
    dict: &StateDict,
    prefix: &str,
    of: &Names,
) -> ConvertError {
    let own = layers(dict, of);
    let layer = own.get(prefix);
    // A prefix may end before the name of the only layer.
    let mut below = own.values().filter(|of| of.prefix.starts_with(prefix));
    let only = below.next().filter(|_| below.next().is_none());
    let is_key = matches!(error, ConvertError::Gru(GruError::UnexpectedKey { .. }));
    let named = layer.or(only.filter(|_| !is_key));
    if let Some(other) = named.and_then(Layer::other) {
        let reason = match &error {
            // An array cannot be read, whatever the layer is.
            ConvertError::Tensor { .. } => return error,
            ConvertError::Gru(_) | ConvertError::Form { .. } => {
                format!("{error}; expected a GRU, got {other}")
            }
            _ => format!("{prefix:?}: expected a GRU, got {other}"),
        };
        return ConvertError::Model { reason };
    }
    match error {
        ConvertError::Prefix {
            prefix,
            actual,
            expected,
        } => ConvertError::Prefix {
            prefix,
            actual: listed(dict, own, of).unwrap_or(actual),
            expected,
        },
        ConvertError::Gru(GruError::UnexpectedKey { key, expected }) if layer.is_none() => {
            let Some(listed) = listed(dict, own, of) else {
                return GruError::UnexpectedKey { key, expected }.into();
            };
            ConvertError::Tensor {
                name: key,
                reason: format!(
                    "not expected; {expected}; expected the prefix of a GRU, got {prefix:?}; there are {listed}"
                ),
            }
        }
        other => other,
    }
}

/// Prefixes that can be imported, or else what else the arrays look like.
fn listed(dict: &StateDict, own: BTreeMap<String, Layer>, of: &Names) -> Option<String> {
    let can = |prefix: &str, of: &Names| (of.check)(dict, prefix).is_ok();
    let readable = |layers: &BTreeMap<String, Layer>, of: &Names| {
        let prefixes: Vec<_> = layers.keys().filter(|prefix| can(prefix, of)).collect();
        (!prefixes.is_empty()).then(|| shown(prefixes.into_iter().map(String::as_str)))
    };
    if let Some(prefixes) = readable(&own, of) {
        return Some(prefixes);
    }
    for other in SYSTEMS {
        if let Some(prefixes) = readable(&layers(dict, other), other) {
            return Some(format!("{prefixes} for gru_convert::{}", other.module));
        }
    }
    let mut rest: Vec<(String, Layer)> = own.into_iter().collect();
    rest.extend(SYSTEMS.iter().flat_map(|other| layers(dict, other)));
    let (prefix, layer) = rest.first()?;
    let what = layer.other().unwrap_or("a GRU with other arrays");
    Some(format!("{prefix:?}, {what}"))
}
