//! Arrays with the names of another system.

use crate::error::ConvertError;
use burn::tensor::{Device, Tensor, TensorData};
use gru_op::GruError;
use std::{
    collections::BTreeMap,
    ops::Bound::{Included, Unbounded},
};

/// Arrays by name, as in a file of another system.
///
/// Importers convert the values to the default float type of the device.
///
/// A file's arrays of a type that Burn lacks, such as texts, or of more than 8 dimensions are left out. All arrays
/// together may have 64 MiB plus 16 times the size of the file; what exceeds that is left out too. [`shape`](Self::shape),
/// [`tensor`](Self::tensor) and the importer of its GRU return the reason as an error. A `.pt` file is different: there,
/// one tensor of another type makes the whole file an error.
///
/// ```
/// use burn::tensor::{Device, TensorData};
/// use gru_convert::{StateDict, pytorch};
///
/// // An `nn.GRU(3, 4, bias=False)` from existing arrays.
/// let mut dict = StateDict::new();
/// dict.insert("weight_ih_l0", TensorData::zeros::<f32, _>([12, 3]));
/// dict.insert("weight_hh_l0", TensorData::zeros::<f32, _>([12, 4]));
/// let config = pytorch::config(&dict, "")?;
/// let gru = pytorch::import(&dict, "", &config, &Device::flex())?;
/// # Ok::<_, gru_convert::ConvertError>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct StateDict {
    pub(crate) tensors: BTreeMap<String, TensorData>,
    /// Why an array is left out, by name. A name that ends with a slash is a group.
    pub(crate) left_out: BTreeMap<String, String>,
}

impl StateDict {
    /// No arrays.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an array and replaces an array with the same name.
    pub fn insert(&mut self, key: impl Into<String>, data: TensorData) {
        let key = key.into();
        self.left_out.remove(&key);
        self.tensors.insert(key, data);
    }

    /// Adds an array of a file, or the reason why it is left out.
    #[cfg(any(feature = "store", feature = "npz", feature = "keras"))]
    pub(crate) fn insert_read(&mut self, key: &str, array: Result<TensorData, String>) {
        match array {
            Ok(data) => self.insert(key, data),
            Err(reason) => {
                self.left_out.insert(key.into(), reason);
            }
        }
    }

    /// An array by name, or nothing if it is missing or left out.
    pub fn get(&self, key: &str) -> Option<&TensorData> {
        self.tensors.get(key)
    }

    /// The names of all arrays that are not left out, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Adds all arrays of `other`. They replace arrays with the same names, also if `other` left one out.
    pub fn extend(&mut self, other: Self) {
        for (key, data) in other.tensors {
            self.insert(key, data);
        }
        for key in other.left_out.keys() {
            self.tensors.remove(key);
        }
        self.left_out.extend(other.left_out);
    }

    /// All arrays with new names, as an importer expects them. Arrays and groups that are left out get new names too.
    ///
    /// ```
    /// use gru_convert::StateDict;
    /// # let data = || burn::tensor::TensorData::from([0.0f32]);
    /// let mut dict = StateDict::new();
    /// dict.insert("enc_w_ih", data());
    /// let dict = dict.renamed(|key| key.replace("enc_w_", "enc.weight_"))?;
    /// assert!(dict.get("enc.weight_ih").is_some());
    /// # Ok::<(), gru_convert::ConvertError>(())
    /// ```
    ///
    /// # Errors
    /// If two arrays would have the same name.
    pub fn renamed(self, mut name: impl FnMut(&str) -> String) -> Result<Self, ConvertError> {
        let mut renamed = Self::new();
        let arrays = self.tensors.into_iter().map(|(key, data)| (key, Ok(data)));
        let left_out = self.left_out.into_iter();
        let left_out = left_out.map(|(key, reason)| (key, Err(reason)));
        for (key, array) in arrays.chain(left_out) {
            let new = name(&key);
            if renamed.tensors.contains_key(&new) || renamed.left_out.contains_key(&new) {
                return Err(ConvertError::SameKey { key: new });
            }
            match array {
                Ok(data) => renamed.insert(new, data),
                Err(reason) => drop(renamed.left_out.insert(new, reason)),
            }
        }
        Ok(renamed)
    }

    /// Keeps the arrays whose names fulfil a condition, for example without buffers or the slots of an optimizer.
    /// The condition also decides about arrays and groups that are left out.
    ///
    /// ```
    /// # let mut dict = gru_convert::StateDict::new();
    /// # dict.insert("gates/kernel/Adam", burn::tensor::TensorData::from([0.0f32]));
    /// dict.retain(|name| !name.contains("/Adam"));
    /// # assert_eq!(dict.keys().count(), 0);
    /// ```
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.tensors.retain(|name, _| keep(name));
        self.left_out.retain(|name, _| keep(name));
    }

    /// All keys under `prefix`, each with and without the prefix. Returns an error if there are none.
    /// `expected` describes the expected keys for the error.
    pub(crate) fn under(
        &self,
        prefix: &str,
        expected: &'static str,
    ) -> Result<Vec<(&str, &str)>, ConvertError> {
        let from = self.tensors.range::<str, _>((Included(prefix), Unbounded));
        let keys = from.map_while(|(key, _)| Some((key.as_str(), key.strip_prefix(prefix)?)));
        let keys: Vec<_> = keys.collect();
        if !keys.is_empty() {
            return Ok(keys);
        }
        Err(self
            .why_left_out(prefix)
            .unwrap_or_else(|| ConvertError::Prefix {
                prefix: prefix.into(),
                actual: shown(self.tensors.keys().map(String::as_str)),
                expected,
            }))
    }

    /// The end of the names under `prefix`: `:0` if they are TensorFlow's and Keras 2's names of variables.
    pub(crate) fn end(&self, prefix: &str) -> &'static str {
        const END: &str = ":0";
        let is_variable = |(_, name): &(&str, &str)| name.ends_with(END);
        let keys = self.under(prefix, "").unwrap_or_default();
        if keys.iter().any(is_variable) {
            END
        } else {
            ""
        }
    }

    /// Returns an error if an array of the GRU under `prefix` is left out.
    pub(crate) fn expect_read(
        &self,
        prefix: &str,
        is_own: impl Fn(&str) -> bool,
    ) -> Result<(), ConvertError> {
        let own = |key: &&String| {
            key.strip_prefix(prefix)
                .is_some_and(|name| name.ends_with('/') || is_own(name))
        };
        let key = self.left_out.keys().find(own);
        key.and_then(|key| self.why_left_out(key))
            .map_or(Ok(()), Err)
    }

    /// Returns an error if a key under `prefix` is not in `names`, or if there is no key. `expected`
    /// describes the expected keys for the error.
    pub(crate) fn expect_only(
        &self,
        prefix: &str,
        names: &[&str],
        expected: &'static str,
    ) -> Result<(), ConvertError> {
        let keys = self.under(prefix, expected)?;
        match keys.iter().find(|(_, name)| !names.contains(name)) {
            Some((key, _)) => Err(unexpected(key, expected)),
            None => self.expect_read(prefix, |name| names.contains(&name)),
        }
    }

    /// The shape of an array with `D` dimensions.
    ///
    /// # Errors
    /// If the array is missing or empty, or has another number of dimensions.
    pub fn shape<const D: usize>(&self, key: &str) -> Result<[usize; D], ConvertError> {
        let shape = self.numbers(key, D)?.shape();
        Ok(std::array::from_fn(|dim| shape[dim]))
    }

    /// An array of floating-point numbers as a tensor of the device's default float type.
    ///
    /// # Errors
    /// As [`shape`](Self::shape), or if the array has another shape or type.
    pub fn tensor<const D: usize>(
        &self,
        key: &str,
        expected: [usize; D],
        device: &Device,
    ) -> Result<Tensor<D>, ConvertError> {
        let data = self.floats(key, &expected)?;
        Ok(Tensor::from_data(data.clone(), device))
    }

    /// An array of floating-point numbers with the expected shape.
    pub(crate) fn floats(
        &self,
        key: &str,
        expected: &[usize],
    ) -> Result<&TensorData, ConvertError> {
        let data = self.numbers(key, expected.len())?;
        GruError::expect_shape(key, expected, data.shape())?;
        if data.dtype().is_float() {
            Ok(data)
        } else {
            let (name, actual) = (key.into(), data.dtype());
            Err(GruError::DType { name, actual }.into())
        }
    }

    /// The error for an array that is left out, or whose group is.
    pub(crate) fn why_left_out(&self, key: &str) -> Option<ConvertError> {
        let groups = key.match_indices('/').map(|(at, _)| &key[..=at]);
        let reason = groups.chain([key]).find_map(|name| self.left_out.get(name));
        reason.map(|reason| ConvertError::Tensor {
            name: key.into(),
            reason: reason.clone(),
        })
    }

    /// An array that is not empty, with this number of dimensions.
    fn numbers(&self, key: &str, rank: usize) -> Result<&TensorData, ConvertError> {
        let missing = || match self.why_left_out(key) {
            Some(error) => error,
            None => GruError::MissingKey { key: key.into() }.into(),
        };
        let data = self.get(key).ok_or_else(missing)?;
        let (name, actual) = (key.to_owned(), data.shape().to_vec());
        // No GRU has an empty array, and next to a zero another size may be any number.
        if actual.contains(&0) {
            return Err(ConvertError::Form {
                name,
                expected: "numbers",
                actual,
            });
        }
        if actual.len() != rank {
            let expected = rank;
            let error = GruError::Rank {
                name,
                expected,
                actual,
            };
            return Err(error.into());
        }
        Ok(data)
    }

    /// Adds the values of a tensor after reading it from its device.
    pub(crate) fn put(
        &mut self,
        key: &str,
        values: Tensor<1>,
        shape: &[usize],
    ) -> Result<(), ConvertError> {
        let data = values.try_into_data().map_err(|error| GruError::Read {
            name: key.into(),
            reason: error.to_string(),
        })?;
        let (bytes, _, dtype) = data.into_parts();
        self.insert(key, TensorData::from_bytes(bytes, shape, dtype));
        Ok(())
    }
}

/// The error for a key that a GRU does not have.
pub(crate) fn unexpected(key: &str, expected: &'static str) -> ConvertError {
    let key = key.to_owned();
    GruError::UnexpectedKey { key, expected }.into()
}

/// The first of these names, for an error.
pub(crate) fn shown<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 3;
    let count = names.len();
    let shown = names.take(SHOWN).map(|name| format!("{name:?}"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match count {
        0 => "none".into(),
        1..=SHOWN => shown,
        count => format!("{shown} and {} more", count - SHOWN),
    }
}
