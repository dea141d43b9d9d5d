//! What is saved: the model by itself, for use, and the whole of a training run, to go on from.
//!
//! Both are burnpack files, written beside their place and renamed: what stands there is the old
//! file or the new one, whenever the process is killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn::config::Config;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::ModuleOptimizer;
use burn::store::burn_pack::{Error as PackError, Reader, Tensor as PackTensor, Writer};
use burn::store::{BurnpackStore, ModuleRecord, ModuleSnapshot, bridge};
use burn::tensor::{Bytes, DType, Device, Shape, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{CharGru, CharGruConfig};
use crate::vocabulary::Vocabulary;

const SIZES: &str = "char-gru.config";
const CHARACTERS: &str = "char-gru.vocabulary";
const PROGRESS: &str = "char-gru.progress";
const RUN: &str = "char-gru.run";

/// Write a model.
pub fn save(
    model: &CharGru,
    sizes: &CharGruConfig,
    vocabulary: &Vocabulary,
    path: &Path,
) -> Result<(), Error> {
    let mut store = BurnpackStore::from_file(path)
        .auto_extension(false)
        .overwrite(true)
        .metadata(SIZES, sizes.to_string())
        .metadata(CHARACTERS, vocabulary.characters());
    model
        .save_into(&mut store)
        .map_err(|reason| write_error(path, reason))
}

/// Read a model, and the characters that it knows.
pub fn load(path: &Path, device: &Device) -> Result<(CharGru, CharGruConfig, Vocabulary), Error> {
    let reader = Reader::from_file_exact(path).map_err(|e| unreadable(path, e))?;
    let (sizes, vocabulary) = description(&reader, path)?;
    let model = parameters(path, &sizes, device)?;
    Ok((model, sizes, vocabulary))
}

/// Read a model that must have these sizes and characters: parameters to start from.
pub fn load_like(
    path: &Path,
    sizes: &CharGruConfig,
    vocabulary: &Vocabulary,
    device: &Device,
) -> Result<CharGru, Error> {
    let reader = Reader::from_file_exact(path).map_err(|e| unreadable(path, e))?;
    let (saved, characters) = description(&reader, path)?;
    // Dropout has no parameters: it may differ.
    let alike = CharGruConfig {
        dropout: sizes.dropout,
        ..saved.clone()
    };
    if alike != *sizes {
        let tie = if saved.tied { " --tie" } else { "" };
        let reason = format!(
            "it needs --embed {} --hidden {} --layers {}{tie} and a text of {} distinct characters",
            saved.embed, saved.hidden, saved.layers, saved.vocabulary
        );
        return Err(load_error(path, reason));
    }
    if characters != *vocabulary {
        return Err(load_error(path, "its text has other characters"));
    }
    parameters(path, sizes, device)
}

/// A model of these sizes with the parameters in a file.
fn parameters(path: &Path, sizes: &CharGruConfig, device: &Device) -> Result<CharGru, Error> {
    let mut model = sizes.init(device);
    let mut store = BurnpackStore::from_file(path).auto_extension(false);
    model
        .load_from(&mut store)
        .map_err(|e| unreadable(path, e))?;
    Ok(model)
}

/// Where a training run is. The random numbers of a step depend on the seed and the step alone, so
/// these are their state too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Steps made.
    pub step: usize,
    /// Passes over the text that are finished.
    pub epoch: usize,
    /// Windows of this pass that were read.
    pub window: usize,
    /// Nats and characters since the last validation.
    pub loss_sum: f64,
    pub characters: usize,
    /// The best validation so far, and its step.
    pub best: Option<(f64, usize)>,
    /// Validations since then.
    pub since_best: usize,
    /// Step, training loss, validation loss of every validation.
    pub history: Vec<(usize, f64, f64)>,
}

/// A training run between two steps.
pub struct Checkpoint {
    pub model: CharGru,
    pub optimizer: ModuleOptimizer,
    pub state: Option<Tensor<3>>,
    pub progress: Progress,
}

impl Checkpoint {
    /// Write it. `run` tells which arguments it belongs to.
    pub fn save(
        &self,
        sizes: &CharGruConfig,
        vocabulary: &Vocabulary,
        run: &str,
        path: &Path,
    ) -> Result<(), Error> {
        let failed = |reason: &dyn std::fmt::Display| write_error(path, reason);
        let model = self.model.clone().into_record().into_bytes();
        let optimizer = self.optimizer.into_bytes();
        let mut parts = vec![
            bytes("model", model.map_err(|e| failed(&e))?),
            bytes("optimizer", optimizer.map_err(|e| failed(&e))?),
        ];
        if let Some(state) = &self.state {
            let data = state
                .clone()
                .try_into_data()
                .map_err(|reason| Error::Device(reason.to_string()))?;
            let (data, shape, dtype) = data.into_parts();
            parts.push(PackTensor::new("state".into(), dtype, shape, None, data));
        }
        let progress = serde_json::to_string(&self.progress).map_err(|e| failed(&e))?;
        Writer::new(parts)
            .with_metadata(SIZES, &sizes.to_string())
            .with_metadata(CHARACTERS, &vocabulary.characters())
            .with_metadata(PROGRESS, &progress)
            .with_metadata(RUN, run)
            .auto_extension(false)
            .overwrite(true)
            .write_to_file(path)
            .map_err(|e| failed(&e))
    }

    /// Read it into a fresh `model` and `optimizer` of the same run.
    pub fn load(
        path: &Path,
        run: &str,
        model: CharGru,
        optimizer: ModuleOptimizer,
        device: &Device,
    ) -> Result<Self, Error> {
        let refuse = |reason: &dyn std::fmt::Display| load_error(path, reason);
        let reader = Reader::from_file_exact(path).map_err(|e| unreadable(path, e))?;
        let other = reader.metadata().get(RUN).cloned().unwrap_or_default();
        if other != run {
            return Err(refuse(&format!(
                "it belongs to a run of other arguments: {other}"
            )));
        }
        let progress = reader.metadata().get(PROGRESS);
        let progress: Progress = progress
            .and_then(|json| serde_json::from_str(json).ok())
            .ok_or_else(|| refuse(&"it is no checkpoint of this program"))?;
        let parts = reader.into_tensors().map_err(|e| unreadable(path, e))?;
        let mut parts: BTreeMap<String, PackTensor> = parts
            .into_iter()
            .map(|part| (part.name.clone(), part))
            .collect();
        let mut content = |name: &str| {
            let part = parts.remove(name).map(bridge::into_data).transpose();
            part.map_err(|e| unreadable(path, e))
        };
        let mut bytes = |name: &str| -> Result<Bytes, Error> {
            let missing = || refuse(&format!("it has no {name}"));
            Ok(content(name)?.ok_or_else(missing)?.into_bytes())
        };
        let record = ModuleRecord::from_bytes(bytes("model")?).map_err(|e| refuse(&e))?;
        let model = model.try_load_record(record).map_err(|e| refuse(&e))?;
        let moments = bytes("optimizer")?;
        if !is_of_model(&moments, &model).map_err(|e| unreadable(path, e))? {
            return Err(refuse(&"its optimizer is of another model"));
        }
        let optimizer = optimizer.from_bytes(moments).map_err(|e| refuse(&e))?;
        let state = match content("state")? {
            Some(data) if is_state(&data, &model) => Some(Tensor::from_data(data, device)),
            Some(_) => return Err(refuse(&"its state is of another model")),
            None => None,
        };
        Ok(Self {
            model,
            optimizer,
            state,
            progress,
        })
    }
}

/// Whether everything in an optimizer's record is of a parameter of the model, and of its shape:
/// Burn's optimizer takes for granted that it is.
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

/// The shape of each parameter, by its id as a record writes it.
#[derive(Default)]
struct Shapes(BTreeMap<String, Vec<usize>>);

impl ModuleVisitor for Shapes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let id = param.id.val().to_string();
        self.0.insert(id, param.val().dims().to_vec());
    }
}

/// Whether these are the states `[L, N, H]` of a model.
fn is_state(data: &TensorData, model: &CharGru) -> bool {
    let [layers, units] = [model.gru.num_layers, model.gru.d_hidden];
    let right = matches!(data.shape()[..], [l, n, h] if [l, h] == [layers, units] && n > 0);
    right && data.dtype().is_float()
}

fn bytes(name: &str, content: Bytes) -> PackTensor {
    let shape = Shape::new([content.len()]);
    PackTensor::new(name.into(), DType::U8, shape, None, content)
}

fn description(reader: &Reader, path: &Path) -> Result<(CharGruConfig, Vocabulary), Error> {
    let foreign = || load_error(path, "it was not saved by this program");
    let saved = reader.metadata();
    let sizes = saved
        .get(SIZES)
        .and_then(|json| CharGruConfig::load_binary(json.as_bytes()).ok())
        .ok_or_else(foreign)?;
    let characters = saved.get(CHARACTERS).ok_or_else(foreign)?;
    let vocabulary = Vocabulary::new(characters.chars().collect()).map_err(|_| foreign())?;
    let bytes = fs::metadata(path).map_err(|e| load_error(path, e))?.len();
    if vocabulary.len() != sizes.vocabulary || !is_possible(&sizes, bytes) {
        return Err(foreign());
    }
    Ok((sizes, vocabulary))
}

/// Whether there are models of these sizes, and a file of so many bytes can hold one: a small file
/// may claim a model that no memory holds.
fn is_possible(sizes: &CharGruConfig, bytes: u64) -> bool {
    let counts = [sizes.vocabulary, sizes.embed, sizes.hidden, sizes.layers];
    let [v, e, h, l] = counts.map(|count| count as f64);
    // Of the weights alone, each of a byte at least.
    let head = if sizes.tied { 0.0 } else { h * v };
    let weights = v * e + 3.0 * h * (e + (2.0 * l - 1.0) * h) + head;
    counts.iter().all(|&count| count > 0)
        && weights <= bytes as f64
        && (0.0..1.0).contains(&sizes.dropout)
        && (!sizes.tied || sizes.embed == sizes.hidden)
}

fn unreadable(path: &Path, error: PackError) -> Error {
    match error {
        PackError::IoError(reason) | PackError::ValidationError(reason) => load_error(path, reason),
        other => load_error(path, format!("it is no model file ({other})")),
    }
}

fn load_error(path: &Path, reason: impl ToString) -> Error {
    Error::Load {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}

pub fn write_error(path: &Path, reason: impl ToString) -> Error {
    Error::Write {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::data::Window;
    use crate::step::{Learner, adam};

    fn vocabulary(characters: &str) -> Vocabulary {
        Vocabulary::new(characters.chars().collect()).unwrap()
    }

    #[test]
    fn a_model_comes_back_or_is_refused() {
        let _alone = crate::drawing();
        let folder = std::env::temp_dir().join(format!("char-gru-save-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("model");
        let device = Device::flex();
        let abc = vocabulary("abc");
        let sizes = CharGruConfig::new(3, 2, 4, 1, 0.0);
        let model = sizes.init(&device);
        save(&model, &sizes, &abc, &path).unwrap();
        save(&model, &sizes, &abc, &path).unwrap(); // replaces

        let (loaded, read, characters) = load(&path, &device).unwrap();
        assert_eq!((read, characters), (sizes.clone(), abc.clone()));
        let parameters = |model: CharGru| model.into_record().into_bytes().unwrap();
        assert_eq!(parameters(loaded)[..], parameters(model)[..]);

        let wider = CharGruConfig::new(3, 2, 5, 1, 0.0);
        let error = load_like(&path, &wider, &abc, &device).unwrap_err();
        assert!(error.to_string().contains("--hidden 4"), "{error}");
        assert!(load_like(&path, &sizes, &vocabulary("abd"), &device).is_err());
        assert!(load_like(&path, &sizes, &abc, &device).is_ok());

        fs::write(&path, b"no model at all").unwrap();
        assert!(load(&path, &device).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "a file is left");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn sizes_that_no_model_has_are_refused() {
        let _alone = crate::drawing();
        let path = std::env::temp_dir().join(format!("char-gru-sizes-{}", std::process::id()));
        let usual = CharGruConfig::new(3, 2, 4, 1, 0.0);
        let claims = [
            CharGruConfig::new(3, 2, 1 << 20, 1, 0.0),
            CharGruConfig::new(3, 2, usize::MAX / 2, 1, 0.0),
            CharGruConfig::new(3, 2, 4, 1 << 40, 0.0),
            CharGruConfig::new(3, 0, 4, 1, 0.0),
            CharGruConfig::new(3, 2, 0, 1, 0.0),
            CharGruConfig::new(3, 2, 4, 0, 0.0),
            CharGruConfig::new(3, 2, 4, 1, 1.0),
            CharGruConfig::new(3, 2, 4, 1, f64::NAN),
            usual.clone().with_tied(true),
        ];
        let abc = vocabulary("abc");
        for sizes in claims {
            save(&usual.init(&Device::flex()), &sizes, &abc, &path).unwrap();
            assert!(load(&path, &Device::flex()).is_err(), "{sizes}");
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_checkpoint_comes_back_or_is_refused() {
        let _alone = crate::drawing();
        let path = std::env::temp_dir().join(format!("char-gru-run-{}", std::process::id()));
        let device = Device::flex().autodiff();
        let sizes = CharGruConfig::new(3, 2, 4, 1, 0.0);
        let other = CharGruConfig::new(3, 2, 5, 1, 0.0);
        let load = |path| {
            let model = sizes.init(&device);
            Checkpoint::load(path, "run", model, adam(), &device).map(|c| c.progress)
        };
        let learnt = |sizes: &CharGruConfig| {
            let mut learner = Learner::new(sizes.init(&device), 1.0, std::slice::from_ref(&device));
            let window = Window::new(vec![0, 1], vec![1, 2], 1, 2);
            learner.step(&window, 0.1).unwrap();
            learner
        };
        let save = |model: CharGru, optimizer: ModuleOptimizer, units: usize, path| {
            let state = TensorData::zeros::<f32, _>([1, 1, units]);
            let checkpoint = Checkpoint {
                model,
                optimizer,
                state: Some(Tensor::from_data(state, &device)),
                progress: Progress::default(),
            };
            let saved = checkpoint.save(&sizes, &vocabulary("abc"), "run", path);
            saved.unwrap();
        };
        let (ours, others) = (learnt(&sizes), learnt(&other));
        save(ours.model.clone(), ours.optimizer.clone(), 4, &path);
        assert_eq!(load(&path).unwrap(), Progress::default());
        save(others.model, ours.optimizer.clone(), 4, &path);
        assert!(load(&path).is_err(), "parameters of other sizes");
        save(ours.model.clone(), others.optimizer, 4, &path);
        assert!(load(&path).is_err(), "an optimizer of another model");
        save(ours.model, ours.optimizer, 5, &path);
        assert!(load(&path).is_err(), "a state of other sizes");
        fs::remove_file(&path).unwrap();
    }
}
