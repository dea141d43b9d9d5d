//! A block and its configuration in one file.
//!
//! The file is a burnpack of the parameters, as Burn's `save_file` writes it, with the configuration in its
//! metadata. Burn's `load_file` reads the parameters.

use super::{GruBlock, GruBlockConfig, GruError, GruMismatch};
use crate::{
    files::{self, BURNPACK, CONFIG, Limit},
    op::options::GruWeights,
};
use burn::{
    config::Config,
    module::ParamId,
    tensor::{Bytes, DType, Device, Tensor, TensorData},
};
use burn_store::{
    ModuleSnapshot, bridge,
    burn_pack::{EXTENSION, Reader, Tensor as PackTensor, Writer},
};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    io::{self, Cursor},
    path::{Path, PathBuf},
};

/// The expected names of parameters.
const NAMES: &str = "a block has layers.K.w_ih, w_hh, b_ih and b_hh for K from 0";

/// A block could not be written to a file, or read from one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The texts explain the fields.
pub enum GruFileError {
    /// The file could not be read or written, or is not a burnpack. `path` has its extension.
    #[error("{path}: {error}")]
    File { path: PathBuf, error: io::Error },
    /// The file has parameters, but no configuration. Load it with Burn's `load_file`.
    #[error("{path}: expected a configuration next to the parameters, got none")]
    NoConfig { path: PathBuf },
    /// The configuration is not valid, or does not match the parameters.
    #[error("{path}: {error}")]
    Content { path: PathBuf, error: GruError },
    /// The fields of the block were changed to values that no configuration describes.
    #[error("block cannot be described by a GruBlockConfig: {0}")]
    Block(GruMismatch),
}

impl GruBlock {
    /// Writes parameters and configuration to one file. An existing file is replaced as a whole or not at all.
    /// Without an extension, `path` gets Burn's extension, `.bpk`. If the process is killed, it may leave a
    /// temporary file `….tmp` in the same folder. Its name is up to 30 bytes longer than the name of the file. On Windows,
    /// a file that another program has open may not be replaced, which is an error.
    ///
    /// ```
    /// # fn main() -> Result<(), gru_op::GruFileError> {
    /// use burn::tensor::Device;
    /// use gru_op::{GruBlock, GruBlockConfig, Reset};
    ///
    /// # let path = std::env::temp_dir().join(format!("gru-op-doc-{}.bpk", std::process::id()));
    /// let config = GruBlockConfig::new(8, 16).with_reset(Reset::BeforeMatmul);
    /// config.init(&Device::flex()).save_with_config(&path)?;
    ///
    /// let gru = GruBlock::from_file(&path, &Device::flex())?; // requires only the file
    /// assert_eq!(gru.layers[0].spec.reset, Reset::BeforeMatmul);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the file cannot be written, or the fields of the block were changed so that
    /// [`from_file`](Self::from_file) could not read the file. Also if parameters are quantized, have different types, or
    /// belong to an adapter.
    pub fn save_with_config(&self, path: impl AsRef<Path>) -> Result<(), GruFileError> {
        let path = path.as_ref();
        let config = self.config();
        self.check_config(&config).map_err(GruFileError::Block)?;
        let parameters = self.collect(None, None, false);
        config
            .check_weights(&self.weights())
            .and_then(|()| parameters.iter().try_for_each(check_parameter))
            .and_then(|()| check_dtypes(&parameters))
            .map_err(|e| content(path, e))?;
        let parameters = parameters.into_iter().map(little_endian).collect();
        let writer = Writer::new(parameters).with_metadata(CONFIG, &config.to_string());
        let written = writer.write_to_file(path);
        written.map_err(|e| file(path, files::invalid(e)))
    }

    /// Reads the block that [`save_with_config`](Self::save_with_config) wrote. Parameters keep their type.
    ///
    /// # Errors
    /// - [`GruFileError::File`] if the file cannot be read: the `kind` of its error is `NotFound` if it is missing. Without
    ///   an extension, `path` gets `.bpk`.
    /// - [`GruFileError::NoConfig`] if the file has no configuration.
    /// - [`GruFileError::Content`] if the configuration has an option that this version does not know.
    /// - If the parameters do not match the configuration, have different types, or a type that the device does not support.
    /// - If parameters that share bytes are together much larger than the file.
    pub fn from_file(path: impl AsRef<Path>, device: &Device) -> Result<Self, GruFileError> {
        let path = path.as_ref();
        let path = &match path.extension() {
            Some(_) => path.to_path_buf(),
            None => path.with_extension(EXTENSION),
        };
        // The whole file is read, so that it may be replaced while the parameters are in use.
        let bytes = files::read(path).map_err(|e| file(path, e))?;
        let bytes = Bytes::from_elems(bytes).shared();
        let reader = Reader::from_bytes(bytes.clone()).map_err(|e| {
            let (name, mut start) = (path.to_string_lossy(), Cursor::new(&bytes[..]));
            let reason = files::mismatch(BURNPACK, &name, &mut start, e);
            file(path, files::invalid(reason))
        })?;
        let Some(json) = reader.metadata().get(CONFIG) else {
            return Err(GruFileError::NoConfig { path: path.into() });
        };
        let config = read_config(json).map_err(|e| content(path, e))?;
        let tensors = reader
            .into_tensors()
            .map_err(|e| file(path, files::invalid(e)))?;
        let mut limit = Limit::new(bytes.len() as u64);
        check_dtypes(&tensors)
            .and_then(|()| tensors.iter().try_for_each(|t| check_size(t, &mut limit)))
            .map_err(|e| content(path, e))?;
        let parameters = tensors
            .into_iter()
            .map(|tensor| (tensor.name.clone(), tensor));
        assemble(&config, parameters.collect(), device).map_err(|e| content(path, e))
    }
}

/// Reads a configuration of any version. Options that an earlier version did not have are the default. An option of a
/// later version is an error: without it, the block would compute other numbers.
fn read_config(json: &str) -> Result<GruBlockConfig, GruError> {
    let reason = |reason| GruError::Config { reason };
    let options = |json: &str| {
        let options = serde_json::from_str::<Map<String, Value>>(json);
        options.map_err(|e| reason(e.to_string()))
    };
    // The sizes are required. All other options have a default.
    let mut read = options(&GruBlockConfig::new(0, 0).to_string())?;
    for (name, value) in options(json)? {
        let Some(option) = read.get_mut(&name) else {
            return Err(reason(format!(
                "option {name:?} is unknown, so a later version of gru-op wrote it"
            )));
        };
        *option = value;
    }
    let json = Value::from(read).to_string();
    GruBlockConfig::load_binary(json.as_bytes()).map_err(|e| reason(e.to_string()))
}

/// Returns an error for a parameter that [`assemble`] could not read: of a LoRA adapter, or quantized.
fn check_parameter(parameter: &PackTensor) -> Result<(), GruError> {
    let name = parameter.name.strip_prefix("layers.");
    let name = name.and_then(|name| name.split_once('.'));
    if !matches!(name, Some((_, "w_ih" | "w_hh" | "b_ih" | "b_hh"))) {
        return Err(GruError::UnexpectedKey {
            key: parameter.name.clone(),
            expected: NAMES,
        });
    }
    check_dtype(&parameter.name, parameter.dtype)
}

/// Returns an error if the parameters have different types. No operation reads them.
fn check_dtypes(parameters: &[PackTensor]) -> Result<(), GruError> {
    let mut others = parameters.windows(2);
    match others.find(|pair| pair[0].dtype != pair[1].dtype) {
        None => Ok(()),
        Some(pair) => Err(GruError::Read {
            name: pair[1].name.clone(),
            reason: format!(
                "expected {:?}, the type of {}, got {:?}",
                pair[0].dtype, pair[0].name, pair[1].dtype
            ),
        }),
    }
}

/// Parameters of a file may share bytes, and a device copies each of them.
fn check_size(parameter: &PackTensor, limit: &mut Limit) -> Result<(), GruError> {
    let bytes = parameter.byte_len() as u64;
    let checked = limit.claim_array(parameter.shape.len(), bytes);
    checked.map_err(|reason| GruError::Read {
        name: parameter.name.clone(),
        reason,
    })
}

fn check_dtype(name: &str, dtype: DType) -> Result<(), GruError> {
    if dtype.is_float() {
        return Ok(());
    }
    let (name, actual) = (name.into(), dtype);
    Err(GruError::DType { name, actual })
}

/// A parameter in the byte order of the format. Burn writes the one of the machine.
fn little_endian(parameter: PackTensor) -> PackTensor {
    let (name, dtype, shape) = (
        parameter.name.clone(),
        parameter.dtype,
        parameter.shape.clone(),
    );
    bridge::map_data(parameter, name, dtype, shape, |data| {
        let (bytes, shape, dtype) = data.into_parts();
        TensorData::from_bytes(files::native(bytes, dtype), shape, dtype)
    })
}

type Parameters = BTreeMap<String, PackTensor>;

/// Builds a block from the parameters of a file, with their ids.
fn assemble(
    config: &GruBlockConfig,
    mut parameters: Parameters,
    device: &Device,
) -> Result<GruBlock, GruError> {
    let ids = parameters.iter();
    let ids = ids.filter_map(|(name, found)| Some((name.clone(), found.param_id?)));
    let ids: BTreeMap<_, _> = ids.collect();
    let mut weights = Vec::new();
    // The file decides how many layers are read, so a wrong configuration allocates nothing.
    while parameters.contains_key(&format!("layers.{}.w_hh", weights.len())) {
        let key = |name: &str| format!("layers.{}.{name}", weights.len());
        weights.push(GruWeights {
            w_ih: tensor(&mut parameters, &key("w_ih"), device)?,
            w_hh: tensor(&mut parameters, &key("w_hh"), device)?.expect("the loop checks its name"),
            b_ih: tensor(&mut parameters, &key("b_ih"), device)?,
            b_hh: tensor(&mut parameters, &key("b_hh"), device)?,
        });
    }
    if let Some(key) = parameters.into_keys().next() {
        return Err(GruError::UnexpectedKey {
            key,
            expected: NAMES,
        });
    }
    let mut block = config.init_with(weights)?;
    for (k, layer) in block.layers.iter_mut().enumerate() {
        for (name, own) in [
            ("w_ih", Some(&mut layer.w_ih.id)),
            ("w_hh", Some(&mut layer.w_hh.id)),
            ("b_ih", layer.b_ih.as_mut().map(|bias| &mut bias.id)),
            ("b_hh", layer.b_hh.as_mut().map(|bias| &mut bias.id)),
        ] {
            if let (Some(own), Some(&id)) = (own, ids.get(&format!("layers.{k}.{name}"))) {
                *own = ParamId::from(id);
            }
        }
    }
    Ok(block)
}

/// A parameter, if the file has it.
fn tensor<const D: usize>(
    parameters: &mut Parameters,
    name: &str,
    device: &Device,
) -> Result<Option<Tensor<D>>, GruError> {
    let Some(found) = parameters.remove(name) else {
        return Ok(None);
    };
    let (dtype, shape) = (found.dtype, found.shape.to_vec());
    check_dtype(name, dtype)?;
    if shape.len() != D {
        return Err(GruError::Rank {
            name: name.into(),
            expected: D,
            actual: shape,
        });
    }
    let data = bridge::into_data(found).map_err(|e| GruError::Read {
        name: name.into(),
        reason: e.to_string(),
    })?;
    if !device.supports_dtype(dtype) {
        return Err(GruError::Unsupported {
            name: name.into(),
            dtype,
            device: format!("{device:?}"),
        });
    }
    let (bytes, shape, _) = data.into_parts();
    let data = TensorData::from_bytes(files::native(bytes, dtype), shape, dtype);
    Ok(Some(Tensor::from_data(data, (device, dtype))))
}

fn file(path: &Path, error: io::Error) -> GruFileError {
    let path = path.into();
    GruFileError::File { path, error }
}

fn content(path: &Path, error: GruError) -> GruFileError {
    let path = path.into();
    GruFileError::Content { path, error }
}
