//! The complete state of a training run, for resuming.
//!
//! A checkpoint is a burnpack file. It is written next to its target and renamed. Even if the process is
//! killed, the old or the new file remains.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::ModuleOptimizer;
use burn::store::burn_pack::{Error as PackError, Reader, Tensor as PackTensor, Writer};
use burn::store::{ModuleRecord, bridge};
use burn::tensor::{Bytes, DType, Device, Shape, Tensor, TensorData};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::Error;

/// A training run between two steps.
pub struct Checkpoint<M, P> {
    pub model: M,
    pub optimizer: ModuleOptimizer,
    /// The recurrent state `[L, N, H]`.
    pub state: Option<Tensor<3>>,
    /// Everything else, in JSON.
    pub progress: P,
}

/// The run of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The program, which is part of the names in the file.
    pub program: &'a str,
    /// Identifies the arguments. A checkpoint is loaded only into a run with the same arguments.
    pub arguments: &'a str,
}

impl Run<'_> {
    fn progress_key(&self) -> String {
        format!("{}.progress", self.program)
    }

    fn arguments_key(&self) -> String {
        format!("{}.run", self.program)
    }
}

impl<M: Module, P: Serialize + DeserializeOwned> Checkpoint<M, P> {
    /// Writes the checkpoint. `more` contains names and values for other readers of the file.
    pub fn save(&self, run: Run, more: &[(&str, &str)], path: &Path) -> Result<(), Error> {
        let failed = |reason: &dyn std::fmt::Display| Error::write(path, reason);
        let model = self.model.clone().into_record().into_bytes();
        let optimizer = self.optimizer.into_bytes();
        let mut parts = vec![
            bytes("model", model.map_err(|e| failed(&e))?),
            bytes("optimizer", optimizer.map_err(|e| failed(&e))?),
        ];
        if let Some(state) = &self.state {
            let data = state.clone().try_into_data().map_err(Error::device)?;
            let (data, shape, dtype) = data.into_parts();
            parts.push(PackTensor::new("state".into(), dtype, shape, None, data));
        }
        let progress = serde_json::to_string(&self.progress).map_err(|e| failed(&e))?;
        let mut writer = Writer::new(parts);
        for (name, value) in more {
            writer = writer.with_metadata(name, value);
        }
        writer
            .with_metadata(&run.progress_key(), &progress)
            .with_metadata(&run.arguments_key(), run.arguments)
            .auto_extension(false)
            .overwrite(true)
            .write_to_file(path)
            .map_err(|e| failed(&e))
    }

    /// Reads the checkpoint into a new `model` and `optimizer` of the same run. `state` is the number of
    /// layers and units, L and H.
    pub fn load(
        path: &Path,
        run: Run,
        model: M,
        optimizer: ModuleOptimizer,
        state: [usize; 2],
        device: &Device,
    ) -> Result<Self, Error> {
        let rejected = |reason: &dyn std::fmt::Display| Error::load(path, reason);
        let unreadable = |reason| Error::unreadable(path, reason);
        let reader = Reader::from_file_exact(path).map_err(unreadable)?;
        let saved = reader.metadata();
        let other = saved.get(&run.arguments_key()).cloned().unwrap_or_default();
        if other != run.arguments {
            return Err(rejected(&format!(
                "it belongs to a run with other arguments: {other}"
            )));
        }
        let progress = saved.get(&run.progress_key());
        let progress: P = progress
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
        let state = match content("state")? {
            Some(data) if is_state(&data, state) => Some(Tensor::from_data(data, device)),
            Some(_) => return Err(rejected(&"its state belongs to another model")),
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
fn is_of_model<M: Module>(record: &Bytes, model: &M) -> Result<bool, PackError> {
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
