//! The state of a run between two steps.
//!
//! A file may contain anything. A checkpoint has only numbers, which are written into records of the running program, so
//! a file decides on no name, type or shape.

use std::vec::IntoIter;

use burn::module::Module;
use burn::store::burn_pack::{Reader, Tensor as Packed, Writer};
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::{Bytes, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::train::{Progress, Settings, Step, Trainer};

/// The complete state of a run between two steps.
#[derive(Clone, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Of the run.
    pub settings: Settings,
    /// The checksum of the text.
    pub text: u32,
    /// The losses so far.
    pub progress: Progress,
    /// Of each parameter. After the first step also of Adam's moments, and at last the recurrent state `[L,N,H]`.
    pub numbers: Vec<Vec<f32>>,
}

impl Trainer {
    /// The state of the run, for [`load`](Self::load).
    ///
    /// # Errors
    /// If a parameter cannot be read from its device.
    pub fn save(&self) -> Result<Checkpoint, Error> {
        let learner = &self.learner;
        let mut numbers = of_record(learner.model.clone().into_record().into_bytes()?)?;
        numbers.extend(of_record(learner.optimizer.into_bytes()?)?);
        let states = learner.states.iter().cloned();
        let states: Vec<_> = states.map(|s| s.to_device(&learner.devices[0])).collect();
        if !states.is_empty() {
            let state = Tensor::cat(states, 1).try_into_data();
            numbers.push(state.map_err(Error::device)?.iter().collect());
        }
        Ok(Checkpoint {
            settings: self.settings.clone(),
            text: self.text.checksum,
            progress: self.progress.clone(),
            numbers,
        })
    }

    /// Continues a run with the same settings and text.
    ///
    /// # Errors
    /// If this run cannot have saved the checkpoint.
    pub fn load(&mut self, saved: Checkpoint) -> Result<(), Error> {
        if saved.settings != self.settings || saved.text != self.text.checksum {
            let settings = saved.settings;
            let reason = format!("it belongs to another text or other settings: {settings:?}");
            return Err(Error::Checkpoint(reason));
        }
        let (steps, windows) = (&saved.progress.steps, self.windows());
        let done = steps.len();
        let is_loss = |loss: f64| loss.is_finite() && loss >= 0.0;
        let is_step = |(k, s): (usize, &Step)| {
            s.step == k + 1 && s.epoch == k / windows + 1 && is_loss(s.loss.into())
        };
        let mut validations = saved.progress.validations.iter();
        if done > self.steps()
            || !steps.iter().enumerate().all(is_step)
            || !validations.all(|&(step, loss)| step <= done && is_loss(loss))
        {
            let reason = "expected losses of consecutive steps";
            return Err(Error::Checkpoint(reason.into()));
        }

        let (learner, mut numbers) = (&mut self.learner, saved.numbers.into_iter());
        let own = learner.model.clone().into_record().into_bytes()?;
        let record = ModuleRecord::from_bytes(filled(own, &mut numbers, done)?)?;
        learner.model = learner.model.clone().try_load_record(record)?;
        if done > 0 {
            // A step creates the state of Adam. A learning rate of zero changes no parameter.
            learner.step(&self.text.train, 0..self.settings.seq, 0.0)?;
            let record = filled(learner.optimizer.into_bytes()?, &mut numbers, done)?;
            learner.optimizer = learner.optimizer.clone().from_bytes(record)?;
            let [n, h] = [self.text.train.count, self.settings.hidden];
            let shape = [self.settings.layers, n, h];
            let state = TensorData::new(next(&mut numbers, shape.iter().product())?, shape);
            learner.set_state(Tensor::from_data(state, &learner.devices[0]));
        }
        if numbers.next().is_some() {
            return Err(unexpected().into());
        }
        self.progress = saved.progress;
        Ok(())
    }
}

/// The numbers of each tensor of a record.
fn of_record(record: Bytes) -> Result<Vec<Vec<f32>>, RecordError> {
    let reader = Reader::from_bytes(record)?;
    let numbers = reader.tensor_names().into_iter().map(|name| {
        let bytes = reader.tensor_data(name)?;
        let numbers = bytes.as_chunks().0.iter();
        Ok(numbers.map(|&bytes| f32::from_ne_bytes(bytes)).collect())
    });
    numbers.collect()
}

/// The record of this program with the next numbers, after `done` steps.
fn filled(
    record: Bytes,
    numbers: &mut IntoIter<Vec<f32>>,
    done: usize,
) -> Result<Bytes, RecordError> {
    let reader = Reader::from_bytes(record)?;
    let scalars = reader.scalars().clone();
    let tensors = reader.into_tensors()?.into_iter().map(|t| {
        let new = Bytes::from_elems(next(numbers, t.byte_len() / 4)?);
        Ok(Packed::new(t.name, t.dtype, t.shape, t.param_id, new))
    });
    let mut writer = Writer::new(tensors.collect::<Result<_, RecordError>>()?);
    for (name, value) in scalars {
        let is_time = name.ends_with(".time");
        writer = writer.with_scalar(&name, if is_time { done.into() } else { value });
    }
    Ok(writer.into_bytes()?)
}

fn next(numbers: &mut IntoIter<Vec<f32>>, len: usize) -> Result<Vec<f32>, RecordError> {
    let is_right = |new: &Vec<f32>| new.len() == len && new.iter().all(|x| x.is_finite());
    numbers.next().filter(is_right).ok_or_else(unexpected)
}

fn unexpected() -> RecordError {
    RecordError::Validation("expected the finite numbers of this model".into())
}
