//! Names and shapes that show a GRU.

use crate::{model::Grus, state_dict::StateDict};
use std::collections::{BTreeMap, BTreeSet};

/// The names of a layer's arrays, without the suffix.
pub const NAMES: [&str; 4] = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"];

/// The layer of an array with this suffix, or none for a cell, if a recurrent layer has such an array.
fn layer_of(suffix: &str) -> Option<Option<usize>> {
    let Some(text) = suffix.strip_prefix("_l") else {
        return suffix.is_empty().then_some(None);
    };
    let text = text.strip_suffix("_reverse").unwrap_or(text);
    let layer = text.parse::<usize>().ok()?;
    (layer.to_string() == text).then_some(Some(layer))
}

/// [`layer_of`] the suffix of a name.
pub fn layer_of_name(name: &str) -> Option<Option<usize>> {
    layer_of(NAMES.iter().find_map(|array| name.strip_prefix(array))?)
}

/// The parts of a name.
pub struct Name<'a> {
    pub prefix: &'a str,
    /// One of [`NAMES`].
    pub array: usize,
    /// None in a cell.
    layer: Option<usize>,
    /// Whether it is the `g` of a `weight_norm`.
    pub is_norm: bool,
}

impl<'a> Name<'a> {
    /// The name of an array of a recurrent layer, if it is one.
    pub fn read(dict: &StateDict, key: &'a str) -> Option<Self> {
        let of_norm = [".original0", ".original1"].map(|end| key.strip_suffix(end));
        let (plain, is_norm) = match of_norm {
            [Some(g), _] => (g, true),
            [_, Some(v)] => (v, false),
            _ => match (key.strip_suffix("_g"), key.strip_suffix("_v")) {
                (Some(g), _) => (g, true),
                (_, Some(v)) if dict.get(&format!("{v}_g")).is_some() => (v, false),
                _ => (key, false),
            },
        };
        let (prefix, name) = plain.split_at(plain.rfind('.').map_or(0, |dot| dot + 1));
        let prefix = if key.len() - plain.len() > 2 {
            prefix.strip_suffix("parametrizations.")?
        } else {
            prefix
        };
        let mut names = NAMES
            .iter()
            .map(|array| layer_of(name.strip_prefix(array)?));
        let array = names.clone().position(|layer| layer.is_some())?;
        let layer = names.nth(array)??;
        Some(Self {
            prefix,
            array,
            layer,
            is_norm,
        })
    }
}

/// The keys of each module. Other modules have arrays of the same names, but not of the same shapes, or `model` has
/// parameters of these names.
pub fn grus(dict: &StateDict, wanted: &BTreeSet<String>) -> Grus {
    let mut modules = BTreeMap::<&str, Vec<(&str, Name)>>::new();
    for key in dict.keys() {
        if let Some(name) = Name::read(dict, key) {
            modules.entry(name.prefix).or_default().push((key, name));
        }
    }
    let mut grus = BTreeMap::new();
    for (prefix, mut own) in modules {
        if own.iter().any(|(_, name)| name.layer.is_some()) {
            own.retain(|(_, name)| name.layer.is_some());
        }
        let is_wanted = own.iter().any(|(key, _)| wanted.contains(*key));
        if !is_wanted && is_gru(dict, &own) {
            let keys = own.into_iter().map(|(key, _)| key.to_owned());
            grus.insert(prefix.to_owned(), keys.collect());
        }
    }
    grus
}

/// Whether these arrays have shapes for three gates of the same H. A module with the names of a cell, which are short,
/// must also have all its arrays.
fn is_gru(dict: &StateDict, own: &[(&str, Name)]) -> bool {
    let shape = |key: &str| dict.get(key).map_or(&[][..], |array| array.shape());
    let plain = own.iter().filter(|(_, name)| !name.is_norm);
    let gates = plain.clone().find_map(|(key, name)| match *shape(key) {
        [rows, h] if name.array == 1 && h > 0 && h.checked_mul(3) == Some(rows) => Some(rows),
        _ => None,
    });
    let Some(gates) = gates else {
        return false;
    };
    let is_cell = own.iter().all(|(_, name)| name.layer.is_none());
    let is_complete = matches!(plain.clone().count(), 2 | 4)
        && [0, 1]
            .iter()
            .all(|&weight| plain.clone().any(|(_, name)| name.array == weight));
    let mut shapes = plain.map(|(key, name)| (name.array, shape(key)));
    (!is_cell || is_complete)
        && shapes.all(|(array, shape)| match *shape {
            [rows, h] => {
                rows == gates && (array == 0 || array == 1 && h.checked_mul(3) == Some(gates))
            }
            [rows] => rows == gates && array > 1,
            _ => false,
        })
}
