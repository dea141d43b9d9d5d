//! A block in one file: its parameters, and which GRU they belong to.
//!
//! The file is a burnpack of the parameters under their names in the block, as Burn's own
//! `save_file` writes it, with the configuration among its metadata. Each reads what the other
//! writes; only a file with the configuration can be checked.

use super::{GruBlock, GruBlockConfig, GruError, GruMismatch, error::expect_shape};
use crate::GruWeights;
use burn::{
    config::Config,
    module::{Param, ParamId},
    tensor::{Bytes, DType, Device, Tensor},
};
use burn_store::{
    ModuleSnapshot, bridge,
    burn_pack::{EXTENSION, Reader, Tensor as PackTensor, Writer},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What the parameters are called.
const NAMES: &str = "a block has layers.K.w_ih, w_hh, b_ih and b_hh for K from 0";

/// The configuration's name among the metadata.
const CONFIG: &str = "gru-op.config";

/// Why a block could not be written to a file, or made from one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GruFileError {
    /// The file could not be read or written, or is no burnpack.
    #[error("{path}: {reason}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What was wrong.
        reason: String,
    },
    /// The file holds parameters alone.
    #[error("{path}: expected a configuration beside the parameters, got none")]
    NoConfig {
        /// Which file.
        path: PathBuf,
    },
    /// The configuration in the file makes no block.
    #[error("{path}: {reason}")]
    Config {
        /// Which file.
        path: PathBuf,
        /// What was wrong.
        reason: String,
    },
    /// The parameters in the file are those of another GRU.
    #[error("{path}: {source}")]
    Mismatch {
        /// Which file.
        path: PathBuf,
        /// In what they differ.
        source: GruMismatch,
    },
    /// The configuration makes no block, or the parameters are not those of the configuration.
    #[error("{path}: {source}")]
    Parameters {
        /// Which file.
        path: PathBuf,
        /// What is wrong with them.
        source: GruError,
    },
    /// The layers of the block were changed by hand into what no configuration describes.
    #[error("block cannot be described by a GruBlockConfig: {0}")]
    Block(GruMismatch),
}

impl GruBlock {
    /// Writes parameters and configuration to one file, in place of what is there: the whole of
    /// it, or nothing. Without an extension in `path` it is given Burn's own, `.bpk`.
    ///
    /// A process that is killed meanwhile may leave a file `….tmp` next to it.
    ///
    /// Burn's `load_file` reads the file too, but sees the parameters alone.
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
    /// let gru = GruBlock::from_file(&path, &Device::flex())?; // needs nothing but the file
    /// assert_eq!(gru.layers[0].spec.reset, Reset::BeforeMatmul);
    ///
    /// let other = GruBlockConfig::new(8, 16).init(&Device::flex());
    /// let error = other.load_checked(&path).unwrap_err().to_string();
    /// assert!(error.contains("layers.0.reset must be AfterMatmul"));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the file cannot be written, or the fields of the block were changed by hand into what
    /// [`from_file`](Self::from_file) could not read.
    pub fn save_with_config(&self, path: impl AsRef<Path>) -> Result<(), GruFileError> {
        let config = self.config();
        self.check_config(&config).map_err(GruFileError::Block)?;
        config
            .check_weights(&self.weights())
            .map_err(|source| parameters_of(path.as_ref(), source))?;
        let parameters = self.collect(None, None, false);
        parameters
            .iter()
            .try_for_each(check_parameter)
            .map_err(|source| parameters_of(path.as_ref(), source))?;
        let written = Writer::new(parameters)
            .with_metadata(CONFIG, &config.to_string())
            .write_to_file(path.as_ref());
        written.map_err(|e| unreadable(path.as_ref(), e))
    }

    /// Makes the block that [`save_with_config`](Self::save_with_config) wrote.
    ///
    /// # Errors
    /// If the file cannot be read, has no configuration (then
    /// [`load_checked`](Self::load_checked) reads its parameters into a block), or one that its
    /// parameters do not fit.
    pub fn from_file(path: impl AsRef<Path>, device: &Device) -> Result<Self, GruFileError> {
        let path = path.as_ref();
        let (config, parameters) = read(path)?;
        let no_config = || GruFileError::NoConfig { path: path.into() };
        assemble(&config.ok_or_else(no_config)?, parameters, device)
            .map_err(|source| parameters_of(path, source))
    }

    /// Reads the parameters of a file into this block, which must be of the same GRU
    /// ([`check_config`](Self::check_config)).
    ///
    /// A file that holds no configuration, such as Burn's `save_file` writes, is read as this
    /// block's: nothing in it says otherwise.
    ///
    /// # Errors
    /// If the file cannot be read, is of another GRU, or its parameters are not those of this
    /// block.
    pub fn load_checked(mut self, path: impl AsRef<Path>) -> Result<Self, GruFileError> {
        let path = path.as_ref();
        let (config, parameters) = read(path)?;
        if let Some(config) = &config {
            let mismatch = |source| GruFileError::Mismatch {
                path: path.into(),
                source,
            };
            self.check_config(config).map_err(mismatch)?;
        }
        let device = self.layers.first().map(|layer| layer.w_hh.lazy_device());
        let device = device.unwrap_or_default();
        let saved = assemble(&self.config(), parameters, &device)
            .map_err(|source| parameters_of(path, source))?;
        if self.layers.len() != saved.layers.len() {
            let source = GruError::Count {
                what: "layers times directions of the block",
                expected: saved.layers.len(),
                actual: self.layers.len(),
            };
            return Err(parameters_of(path, source));
        }
        for (k, (ours, saved)) in self.layers.iter_mut().zip(saved.layers).enumerate() {
            take(&mut ours.w_ih, saved.w_ih);
            take(&mut ours.w_hh, saved.w_hh);
            for (name, ours, saved) in [
                ("b_ih", &mut ours.b_ih, saved.b_ih),
                ("b_hh", &mut ours.b_hh, saved.b_hh),
            ] {
                take_bias(&format!("layers.{k}.{name}"), ours, saved)
                    .map_err(|source| parameters_of(path, source))?;
            }
        }
        Ok(self)
    }
}

/// Rejects a parameter that [`assemble`] would not read: of an adapter, or quantized.
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

fn check_dtype(name: &str, dtype: DType) -> Result<(), GruError> {
    if dtype.is_float() {
        Ok(())
    } else {
        let (name, actual) = (name.into(), dtype);
        Err(GruError::DType { name, actual })
    }
}

type Parameters = BTreeMap<String, PackTensor>;

/// The configuration and the parameters of a file. It is read as a whole, so that it may be
/// replaced while they are in use.
fn read(path: &Path) -> Result<(Option<GruBlockConfig>, Parameters), GruFileError> {
    let found = if path.extension().is_none() && !path.exists() {
        path.with_extension(EXTENSION)
    } else {
        path.into()
    };
    let bytes = std::fs::read(&found).map_err(|e| unreadable(path, e))?;
    let reader =
        Reader::from_bytes(Bytes::from_bytes_vec(bytes)).map_err(|e| unreadable(path, e))?;
    let config = reader.metadata().get(CONFIG);
    let config = config.map(|json| {
        parse(json).map_err(|reason| GruFileError::Config {
            path: path.into(),
            reason,
        })
    });
    let config = config.transpose()?;
    let tensors = reader.into_tensors().map_err(|e| unreadable(path, e))?;
    let parameters = tensors
        .into_iter()
        .map(|tensor| (tensor.name.clone(), tensor));
    Ok((config, parameters.collect()))
}

fn parse(json: &str) -> Result<GruBlockConfig, String> {
    let config = GruBlockConfig::load_binary(json.as_bytes()).map_err(|e| e.to_string())?;
    config.validate().map_err(|e| e.to_string())?;
    Ok(config)
}

/// A block around the parameters of a file, under the ids that they have there.
fn assemble(
    config: &GruBlockConfig,
    mut parameters: Parameters,
    device: &Device,
) -> Result<GruBlock, GruError> {
    let (mut weights, mut ids) = (Vec::new(), Vec::new());
    // As many layers as there are in the file, whatever the configuration says.
    while parameters.contains_key(&format!("layers.{}.w_hh", weights.len())) {
        let key = |name: &str| format!("layers.{}.{name}", weights.len());
        let w_ih = tensor::<2>(&mut parameters, &key("w_ih"), device)?;
        let w_hh = tensor::<2>(&mut parameters, &key("w_hh"), device)?;
        let b_ih = tensor::<1>(&mut parameters, &key("b_ih"), device)?;
        let b_hh = tensor::<1>(&mut parameters, &key("b_hh"), device)?;
        let (w_hh, id) = w_hh.expect("its name was just seen");
        let (w_ih, of_w_ih) = w_ih.unzip();
        let (b_ih, of_b_ih) = b_ih.unzip();
        let (b_hh, of_b_hh) = b_hh.unzip();
        ids.push((of_w_ih, id, of_b_ih, of_b_hh));
        weights.push(GruWeights {
            w_ih,
            w_hh,
            b_ih,
            b_hh,
        });
    }
    if let Some(key) = parameters.into_keys().next() {
        return Err(GruError::UnexpectedKey {
            key,
            expected: NAMES,
        });
    }
    let mut block = config.init_with(weights)?;
    for (layer, (w_ih, w_hh, b_ih, b_hh)) in block.layers.iter_mut().zip(ids) {
        layer.w_ih.id = w_ih.unwrap_or(layer.w_ih.id);
        layer.w_hh.id = w_hh;
        for (bias, id) in [(&mut layer.b_ih, b_ih), (&mut layer.b_hh, b_hh)] {
            if let (Some(bias), Some(id)) = (bias, id) {
                bias.id = id;
            }
        }
    }
    Ok(block)
}

/// A parameter and its id, if the file has it.
fn tensor<const D: usize>(
    parameters: &mut Parameters,
    name: &str,
    device: &Device,
) -> Result<Option<(Tensor<D>, ParamId)>, GruError> {
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
    let id = found.param_id.map_or_else(ParamId::new, ParamId::from);
    let data = bridge::into_data(found).map_err(|e| GruError::Read {
        name: name.into(),
        reason: e.to_string(),
    })?;
    Ok(Some((Tensor::from_data(data, (device, dtype)), id)))
}

/// Puts a saved parameter in the place of ours, as Burn's records do.
fn take<const D: usize>(ours: &mut Param<Tensor<D>>, saved: Param<Tensor<D>>) {
    let id = saved.id;
    *ours = ours.clone().transform_for_load(saved.into_value(), id);
}

fn take_bias(
    name: &str,
    ours: &mut Option<Param<Tensor<1>>>,
    saved: Option<Param<Tensor<1>>>,
) -> Result<(), GruError> {
    match (ours, saved) {
        (None, None) => Ok(()),
        (Some(ours), Some(saved)) => {
            expect_shape(name, &ours.lazy_shape(), &saved.dims())?;
            take(ours, saved);
            Ok(())
        }
        (Some(_), None) => Err(GruError::MissingKey { key: name.into() }),
        (None, Some(_)) => Err(GruError::UnexpectedKey {
            key: name.into(),
            expected: "this block has no such bias",
        }),
    }
}

fn unreadable(path: &Path, error: impl std::fmt::Display) -> GruFileError {
    GruFileError::File {
        path: path.into(),
        reason: error.to_string(),
    }
}

fn parameters_of(path: &Path, source: GruError) -> GruFileError {
    GruFileError::Parameters {
        path: path.into(),
        source,
    }
}
