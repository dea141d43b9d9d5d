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
    settings: Settings,
    text: u32,
    progress: Progress,
    /// Of each parameter. After the first step also of Adam's moments, and at last the recurrent state `[L,N,H]`.
    numbers: Vec<Vec<f32>>,
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
        Ok(numbers.map(|&bytes| f32::from_le_bytes(bytes)).collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Text;
    use burn::tensor::{Device, read_sync};
    use clap::Parser;

    #[test]
    fn only_a_state_of_the_run_is_loaded() {
        let text = Text::new(&"abcd ".repeat(40), 2, 8).unwrap();
        let settings = "char-gru --embed=4 --hidden=6 --layers=2 --batch=2 --seq=8";
        let settings = Settings::parse_from(settings.split(' '));
        let new = || Trainer::new(settings.clone(), text.clone(), &[Device::flex()]);
        let mut trainer = new();
        for _ in 0..3 {
            read_sync(trainer.step()).unwrap();
        }
        let saved = trainer.save().unwrap();
        let loads = |change: fn(&mut Checkpoint)| {
            let mut saved = saved.clone();
            change(&mut saved);
            new().load(saved).is_ok()
        };
        assert!(loads(|_| {}));
        let changes: [fn(&mut Checkpoint); 11] = [
            |c| c.settings.seed += 1,
            |c| c.text += 1,
            |c| c.progress.steps[1].step = usize::MAX,
            |c| c.progress.steps[1].loss = f32::INFINITY,
            |c| c.progress.steps.clear(),
            |c| c.progress.validations.push((2, -1.0)),
            |c| c.numbers.truncate(12), // without moments
            |c| c.numbers[0].truncate(1),
            |c| c.numbers[0][0] = f32::NAN,
            |c| c.numbers[13][0] = f32::INFINITY,
            |c| drop(c.numbers.pop()),
        ];
        for (k, change) in changes.into_iter().enumerate() {
            assert!(!loads(change), "{k}");
        }
    }
}
