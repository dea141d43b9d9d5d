//! The complete state of a training run, for resuming.
//!
//! A checkpoint is a burnpack file with the model's sizes and characters. It is written next to its target and renamed.
//! Even if the process is killed, the old or the new file remains.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::ModuleOptimizer;
use burn::store::burn_pack::{Error as PackError, Reader, Tensor as PackTensor, Writer};
use burn::store::{ModuleRecord, bridge};
use burn::tensor::{Bytes, DType, Device, Shape, Tensor, TensorData};
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

/// Reads a checkpoint into a new `model` and `optimizer` of the same run.
pub fn load(
    path: &Path,
    arguments: &str,
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
    let moments = bytes("optimizer")?;
    if !is_of_model(&moments, &model).map_err(unreadable)? {
        return Err(rejected(&"its optimizer belongs to another model"));
    }
    open_default_device().map_err(|reason| rejected(&reason))?;
    let optimizer = optimizer.from_bytes(moments).map_err(|e| rejected(&e))?;
    let sizes = [model.gru.num_layers, model.gru.d_hidden];
    let state = match content("state")? {
        Some(data) if is_state(&data, sizes) => Some(Tensor::from_data(data, device)),
        Some(_) => return Err(rejected(&"its state belongs to another model")),
        None => None,
    };
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

/// Whether everything in an optimizer's record belongs to a parameter of the model and has its shape.
/// Burn's optimizer does not check this.
fn is_of_model(record: &Bytes, model: &CharGru) -> Result<bool, PackError> {
    let mut shapes = Shapes::default();
    model.visit(&mut shapes);
    let reader = Reader::from_bytes(record.clone())?;
    let of = |name: &str| {
        let (id, field) = name.split_once('.')?;
        Some((id.to_string(), shapes.0.get(id)?, field.to_string()))
    };
    let scalars = reader
        .scalars()
        .iter()
        .all(|(name, &value)| match of(name) {
            Some((_, shape, field)) if field == "__rank" => {
                usize::try_from(value) == Ok(shape.len())
            }
            other => other.is_some(),
        });
    let tensors = reader.into_tensors()?;
    let tensors = tensors.iter().all(|tensor| {
        of(&tensor.name).is_some_and(|(id, shape, _)| {
            let own = tensor.param_id.is_some_and(|own| own.to_string() == id);
            own && tensor.shape[..] == shape[..] && tensor.dtype.is_float()
        })
    });
    Ok(scalars && tensors)
}

/// The shape of each parameter, by its id in records.
#[derive(Default)]
struct Shapes(BTreeMap<String, Vec<usize>>);

impl ModuleVisitor for Shapes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let id = param.id.val().to_string();
        self.0.insert(id, param.val().dims().to_vec());
    }
}

/// Whether the data are states `[L, N, H]` of this number of layers and units.
fn is_state(data: &TensorData, [layers, units]: [usize; 2]) -> bool {
    let right = matches!(data.shape()[..], [l, n, h] if [l, h] == [layers, units] && n > 0);
    right && data.dtype().is_float()
}

fn bytes(name: &str, content: Bytes) -> PackTensor {
    let shape = Shape::new([content.len()]);
    PackTensor::new(name.into(), DType::U8, shape, None, content)
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use char_model::data::Window;
    use char_model::step::{Learner, adam};

    fn vocabulary(characters: &str) -> Vocabulary {
        Vocabulary::new(characters.chars().collect()).unwrap()
    }

    #[test]
    fn checkpoints_load_or_are_rejected() {
        if crate::runs_on_flex("checkpoint::tests::checkpoints_load_or_are_rejected") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let device = Device::flex().autodiff();
        let sizes = CharGruConfig::new(3, 2, 4, 1, 0.0);
        let other = CharGruConfig::new(3, 2, 5, 1, 0.0);
        let read = |path| {
            let model = sizes.init(&device);
            load(path, "run", model, adam(), &device).map(|c| c.progress)
        };
        let learnt = |sizes: &CharGruConfig| {
            let mut learner = Learner::new(sizes.init(&device), 1.0, std::slice::from_ref(&device));
            let window = Window::new(vec![0, 1], vec![1, 2], 1, 2);
            learner.step(&window, 0.1).unwrap();
            learner
        };
        let write = |model: CharGru, optimizer: ModuleOptimizer, units: usize, path| {
            let state = TensorData::zeros::<f32, _>([1, 1, units]);
            let checkpoint = Checkpoint {
                model,
                optimizer,
                state: Some(Tensor::from_data(state, &device)),
                progress: Progress::default(),
            };
            let saved = save(&checkpoint, &sizes, &vocabulary("abc"), "run", path);
            saved.unwrap();
        };
        let (ours, others) = (learnt(&sizes), learnt(&other));
        write(ours.model.clone(), ours.optimizer.clone(), 4, &path);
        assert_eq!(read(&path).unwrap(), Progress::default());
        write(others.model, ours.optimizer.clone(), 4, &path);
        assert!(read(&path).is_err(), "parameters of other sizes");
        write(ours.model.clone(), others.optimizer, 4, &path);
        assert!(read(&path).is_err(), "an optimizer of another model");
        write(ours.model, ours.optimizer, 5, &path);
        assert!(read(&path).is_err(), "a state of other sizes");
    }
}
