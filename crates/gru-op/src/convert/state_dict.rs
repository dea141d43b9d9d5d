//! Arrays under the names of another system.

use super::ConvertError;
use burn::tensor::{Device, Tensor, TensorData};
use std::collections::BTreeMap;

/// Arrays by name, as a file of another system holds them.
///
/// Numbers are taken over in the float type of the device (its default dtype).
///
/// ```
/// use burn::tensor::{Device, TensorData};
/// use gru_op::convert::{StateDict, pytorch};
///
/// // An `nn.GRU(3, 4, bias=False)` from arrays that one has.
/// let mut dict = StateDict::new();
/// dict.insert("weight_ih_l0", TensorData::zeros::<f32, _>([12, 3]));
/// dict.insert("weight_hh_l0", TensorData::zeros::<f32, _>([12, 4]));
/// let config = pytorch::config(&dict, "")?;
/// let gru = pytorch::import(&dict, "", &config, &Device::flex())?;
/// # Ok::<_, gru_op::convert::ConvertError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct StateDict {
    tensors: BTreeMap<String, TensorData>,
}

impl StateDict {
    /// No arrays.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an array, in place of one of the same name.
    pub fn insert(&mut self, key: impl Into<String>, data: TensorData) {
        self.tensors.insert(key.into(), data);
    }

    /// An array.
    pub fn get(&self, key: &str) -> Option<&TensorData> {
        self.tensors.get(key)
    }

    /// All names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Adds all arrays of `other`.
    pub fn extend(&mut self, other: Self) {
        self.tensors.extend(other.tensors);
    }

    /// All arrays under new names, as an importer wants them.
    ///
    /// ```
    /// use gru_op::convert::StateDict;
    /// # let data = || burn::tensor::TensorData::from([0.0f32]);
    /// let mut dict = StateDict::new();
    /// dict.insert("enc_w_ih", data());
    /// let dict = dict.renamed(|key| key.replace("enc_w_", "enc.weight_"))?;
    /// assert!(dict.get("enc.weight_ih").is_some());
    /// # Ok::<(), gru_op::convert::ConvertError>(())
    /// ```
    ///
    /// # Errors
    /// If two arrays would have the same name.
    pub fn renamed(self, mut name: impl FnMut(&str) -> String) -> Result<Self, ConvertError> {
        let mut renamed = Self::new();
        for (key, data) in self.tensors {
            let new = name(&key);
            if renamed.get(&new).is_some() {
                return Err(ConvertError::SameKey { key: new });
            }
            renamed.insert(new, data);
        }
        Ok(renamed)
    }

    /// All keys under `prefix`, each whole and without it, if there are any; `expected` says what
    /// they should be.
    pub(super) fn under(
        &self,
        prefix: &str,
        expected: &'static str,
    ) -> Result<Vec<(&str, &str)>, ConvertError> {
        let keys = self
            .keys()
            .filter_map(|key| Some((key, key.strip_prefix(prefix)?)));
        let keys: Vec<_> = keys.collect();
        match keys.is_empty() {
            true => Err(ConvertError::Prefix {
                prefix: prefix.into(),
                expected,
            }),
            false => Ok(keys),
        }
    }

    /// Refuses a key under `prefix` that is none of `names`, and a prefix of no key; `expected`
    /// says what they are.
    pub(super) fn expect_only(
        &self,
        prefix: &str,
        names: &[&str],
        expected: &'static str,
    ) -> Result<(), ConvertError> {
        let keys = self.under(prefix, expected)?;
        match keys.iter().find(|(_, name)| !names.contains(name)) {
            Some((key, _)) => Err(ConvertError::UnexpectedKey {
                key: (*key).into(),
                expected,
            }),
            None => Ok(()),
        }
    }

    /// The shape of an array of `D` dimensions.
    pub(super) fn shape<const D: usize>(&self, key: &str) -> Result<[usize; D], ConvertError> {
        let missing = || ConvertError::MissingKey { key: key.into() };
        let data = self.get(key).ok_or_else(missing)?;
        let shape = data.shape();
        // No GRU has such an array, and beside a zero a size may be any number.
        if shape.contains(&0) {
            return Err(ConvertError::Form {
                name: key.into(),
                expected: "numbers",
                actual: shape.to_vec(),
            });
        }
        <[usize; D]>::try_from(shape.as_slice()).map_err(|_| ConvertError::Rank {
            name: key.into(),
            expected: D,
            actual: shape.to_vec(),
        })
    }

    /// An array of floating-point numbers as a tensor.
    pub(super) fn tensor<const D: usize>(
        &self,
        key: &str,
        expected: [usize; D],
        device: &Device,
    ) -> Result<Tensor<D>, ConvertError> {
        super::expect_shape(key, &expected, &self.shape::<D>(key)?)?;
        let data = &self.tensors[key];
        match data.dtype().is_float() {
            true => Ok(Tensor::from_data(data.clone(), device)),
            false => Err(ConvertError::DType {
                name: key.into(),
                actual: data.dtype(),
            }),
        }
    }

    /// Adds a tensor, read back from its device.
    pub(super) fn put<const D: usize>(
        &mut self,
        key: String,
        tensor: Tensor<D>,
    ) -> Result<(), ConvertError> {
        match tensor.try_into_data() {
            Ok(data) => {
                self.insert(key, data);
                Ok(())
            }
            Err(error) => Err(ConvertError::Read {
                name: key,
                reason: error.to_string(),
            }),
        }
    }
}

#[cfg(feature = "store")]
mod files {
    use super::{super::ConvertError, StateDict};
    use burn::tensor::{DType, TensorData};
    use burn_store::{ModuleStore, PytorchStore, SafetensorsStore, bridge, burn_pack::AtomicFile};
    use safetensors::Dtype;
    use std::{borrow::Cow, fs, io::Write, path::Path};

    /// How many arrays a number of a file may stand in. Tied weights are one array under two names;
    /// one number that claims to fill gigabytes is no model.
    const SHARED: u128 = 16;

    impl StateDict {
        /// Reads the tensors of a PyTorch file: a state dict that `torch.save` wrote.
        ///
        /// # Errors
        /// If the file cannot be read as one.
        pub fn from_pytorch(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
            Self::from_store(pytorch(path.as_ref()), path.as_ref())
        }

        /// Reads the state dict that stands under `key` of a PyTorch checkpoint, as
        /// `"model_state_dict"`.
        ///
        /// # Errors
        /// If the file cannot be read as one, or has no such key.
        pub fn from_pytorch_at(path: impl AsRef<Path>, key: &str) -> Result<Self, ConvertError> {
            let store = pytorch(path.as_ref()).with_top_level_key(key);
            Self::from_store(store, path.as_ref())
        }

        /// Reads the tensors of a safetensors file.
        ///
        /// # Errors
        /// If the file cannot be read as one.
        pub fn from_safetensors(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
            Self::from_store(SafetensorsStore::from_file(path.as_ref()), path.as_ref())
        }

        /// [`from_safetensors`](Self::from_safetensors) from the bytes of a file, which errors call
        /// `name`.
        ///
        /// # Errors
        /// As [`from_safetensors`](Self::from_safetensors).
        pub fn from_safetensors_bytes(
            name: impl AsRef<Path>,
            bytes: Vec<u8>,
        ) -> Result<Self, ConvertError> {
            let held = bytes.len() as u64;
            Self::read(
                SafetensorsStore::from_bytes(Some(bytes)),
                held,
                name.as_ref(),
            )
        }

        /// Writes a safetensors file: the whole of it, or nothing.
        ///
        /// # Errors
        /// If it cannot be written, or holds numbers that are not floating-point ones.
        pub fn to_safetensors(&self, path: impl AsRef<Path>) -> Result<(), ConvertError> {
            let path = path.as_ref();
            let views: Result<Vec<_>, _> = self.tensors.iter().map(View::new).collect();
            let bytes = safetensors::serialize(views?, None).map_err(|e| failed(path, e))?;
            let (guard, mut file) = AtomicFile::create(path).map_err(|e| failed(path, e))?;
            file.write_all(&bytes).map_err(|e| failed(path, e))?;
            // A late write error is told to this handle only.
            file.sync_all().map_err(|e| failed(path, e))?;
            drop(file);
            guard.commit().map_err(|e| failed(path, e))
        }

        fn from_store(store: impl ModuleStore, path: &Path) -> Result<Self, ConvertError> {
            let held = fs::metadata(path).map_err(|e| failed(path, e))?.len();
            Self::read(store, held, path)
        }

        /// The tensors of a file of `held` bytes.
        fn read(mut store: impl ModuleStore, held: u64, path: &Path) -> Result<Self, ConvertError> {
            let tensors = store.get_all_tensors().map_err(|e| failed(path, e))?;
            let claimed: u128 = tensors.values().map(|t| t.byte_len() as u128).sum();
            if claimed > u128::from(held) * SHARED {
                let reason = format!("it holds {held} bytes, but its arrays claim {claimed}");
                return Err(failed(path, reason));
            }
            let mut dict = Self::new();
            for (name, tensor) in tensors {
                let data = bridge::to_data(tensor).map_err(|e| failed(path, e))?;
                dict.insert(name, data);
            }
            Ok(dict)
        }
    }

    /// A file under the names that are in it: Burn would count the layers anew where one is absent.
    fn pytorch(path: &Path) -> PytorchStore {
        PytorchStore::from_file(path).map_indices_contiguous(false)
    }

    fn failed(path: &Path, error: impl std::fmt::Display) -> ConvertError {
        super::super::failed(path.display(), error)
    }

    /// An array as the safetensors writer reads it.
    struct View<'a> {
        dtype: Dtype,
        data: &'a TensorData,
    }

    impl<'a> View<'a> {
        fn new(
            (name, data): (&'a String, &'a TensorData),
        ) -> Result<(&'a str, Self), ConvertError> {
            let dtype = match data.dtype() {
                DType::F64 => Dtype::F64,
                DType::F32 | DType::Flex32 => Dtype::F32,
                DType::F16 => Dtype::F16,
                DType::BF16 => Dtype::BF16,
                actual => {
                    let name = name.clone();
                    return Err(ConvertError::DType { name, actual });
                }
            };
            Ok((name, Self { dtype, data }))
        }
    }

    impl safetensors::View for View<'_> {
        fn dtype(&self) -> Dtype {
            self.dtype
        }

        fn shape(&self) -> &[usize] {
            self.data.shape()
        }

        fn data(&self) -> Cow<'_, [u8]> {
            self.data.as_bytes().into()
        }

        fn data_len(&self) -> usize {
            self.data.as_bytes().len()
        }
    }
}
