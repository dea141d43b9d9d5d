//! The complete state of a training run, for resuming.
//!
//! A checkpoint is a burnpack file with the model's sizes and characters. It is written next to its target and renamed.
//! Even if the process is killed, the old or the new file remains.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::store::burn_pack::{Reader, Tensor as PackTensor, Writer};
use burn::store::{ModuleRecord, bridge};
use burn::tensor::{Bytes, DType, Device, Shape, Tensor};
use char_model::error::Error;
use char_model::file::{CHARACTERS, SIZES, unreadable};
use char_model::model::{CharGru, CharGruConfig};
use char_model::trainer::Progress;
use char_model::vocabulary::Vocabulary;

/// Names of the metadata in a file.
const PROGRESS: &str = "char-gru.progress";
const ARGUMENTS: &str = "char-gru.run";

/// A training run between two steps.
pub struct Checkpoint {
    pub model: CharGru,
    pub optimizer: ModuleOptimizer,
    /// The recurrent state `[L, N, H]`.
    pub state: Option<Tensor<3>>,
    pub progress: Progress,
}

/// Writes a checkpoint. `arguments` identifies the run.
pub fn save(
    checkpoint: &Checkpoint,
    sizes: &CharGruConfig,
    vocabulary: &Vocabulary,
    arguments: &str,
    path: &Path,
) -> Result<(), Error> {
    let failed = |reason: &dyn std::fmt::Display| Error::write(path, reason);
    let model = checkpoint.model.clone().into_record().into_bytes();
    let optimizer = checkpoint.optimizer.into_bytes();
    let mut parts = vec![
        bytes("model", model.map_err(|e| failed(&e))?),
        bytes("optimizer", optimizer.map_err(|e| failed(&e))?),
    ];
    if let Some(state) = &checkpoint.state {
        let data = state.clone().try_into_data().map_err(Error::device)?;
        let (data, shape, dtype) = data.into_parts();
        parts.push(PackTensor::new("state".into(), dtype, shape, None, data));
    }
    let progress = serde_json::to_string(&checkpoint.progress).map_err(|e| failed(&e))?;
    Writer::new(parts)
        .with_metadata(SIZES, &sizes.to_string())
        .with_metadata(CHARACTERS, &vocabulary.characters())
        .with_metadata(PROGRESS, &progress)
        .with_metadata(ARGUMENTS, arguments)
        .auto_extension(false)
        .overwrite(true)
        .write_to_file(path)
        .map_err(|e| failed(&e))
}

/// Reads a checkpoint into a new `model` and `optimizer` of the same run, whose state has the shape `[L, N, H]`.
pub fn load(
    path: &Path,
    arguments: &str,
    shape: [usize; 3],
    model: CharGru,
    optimizer: ModuleOptimizer,
    device: &Device,
) -> Result<Checkpoint, Error> {
    let rejected = |reason: &dyn std::fmt::Display| Error::load(path, reason);
    let unreadable = |reason| unreadable(path, reason);
    let reader = Reader::from_file_exact(path).map_err(unreadable)?;
    let saved = reader.metadata();
    let other = saved.get(ARGUMENTS).cloned().unwrap_or_default();
    if other != arguments {
        return Err(rejected(&format!(
            "it belongs to a run with other arguments: {other}"
        )));
    }
    let progress = saved.get(PROGRESS);
    let progress: Progress = progress
        .and_then(|json| serde_json::from_str(json).ok())
        .ok_or_else(|| rejected(&"it is not a checkpoint of this program"))?;
    let parts = reader.into_tensors().map_err(unreadable)?;
    let mut parts: BTreeMap<String, PackTensor> = parts
        .into_iter()
        .map(|part| (part.name.clone(), part))
        .collect();
    let mut content = |name: &str| {
        let part = parts.remove(name).map(bridge::into_data).transpose();
        part.map_err(unreadable)
    };
    let mut bytes = |name: &str| -> Result<Bytes, Error> {
        let missing = || rejected(&format!("it has no {name}"));
        Ok(content(name)?.ok_or_else(missing)?.into_bytes())
    };
    let record = ModuleRecord::from_bytes(bytes("model")?).map_err(|e| rejected(&e))?;
    let model = model.try_load_record(record).map_err(|e| rejected(&e))?;
    open_default_device().map_err(|reason| rejected(&reason))?;
    // The same arguments have the same sizes, so moments fit the model.
    let optimizer = optimizer.from_bytes(bytes("optimizer")?);
    let optimizer = optimizer.map_err(|e| rejected(&e))?;
    let state = content("state")?;
    if let Some(data) = &state {
        let found: &[usize] = data.shape();
        if found != shape {
            return Err(rejected(&format!(
                "expected a state of shape {shape:?}, got {found:?}"
            )));
        }
    }
    let state = state.map(|data| Tensor::from_data(data, device));
    Ok(Checkpoint {
        model,
        optimizer,
        state,
        progress,
    })
}

/// Burn loads an optimizer to its default device, whatever the model's device. Burn panics if the
/// default device does not exist.
fn open_default_device() -> Result<(), &'static str> {
    catch_unwind(|| Device::default().settings())
        .map(|_| ())
        .map_err(|_| {
            "Burn loads an optimizer to its default device, which cannot be opened; the variable \
             BURN_DEVICE names another, as in BURN_DEVICE=flex"
        })
}

fn bytes(name: &str, content: Bytes) -> PackTensor {
    let shape = Shape::new([content.len()]);
    PackTensor::new(name.into(), DType::U8, shape, None, content)
}
