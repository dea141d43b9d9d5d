//! The state of a run between two steps. A file may contain anything, so all of it is checked.

use std::collections::{BTreeMap, BTreeSet};

use burn::module::Module;
use burn::store::burn_pack::{self, Reader, Scalar};
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::{Bytes, DType, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::learner::Learner;
use crate::train::{Progress, Settings, Step, Trainer};

/// The complete state of a run between two steps.
#[derive(Clone, Serialize, Deserialize)]
pub struct Checkpoint {
    settings: Settings,
    text: u32,
    progress: Progress,
    model: Bytes,
    optimizer: Bytes,
    /// The recurrent state `[L,N,H]`. Empty before the first step.
    state: Vec<f32>,
}

impl Trainer {
    /// The state of the run, for [`load`](Self::load).
    ///
    /// # Errors
    /// If a parameter cannot be read from its device.
    pub fn save(&self) -> Result<Checkpoint, Error> {
        let learner = &self.learner;
        let states = learner.states.iter().cloned();
        let states: Vec<_> = states.map(|s| s.to_device(&learner.devices[0])).collect();
        let mut state = Vec::new();
        if !states.is_empty() {
            let data = Tensor::cat(states, 1).try_into_data();
            state = data.map_err(Error::device)?.iter().collect();
        }
        Ok(Checkpoint {
            settings: self.settings.clone(),
            text: self.text.checksum,
            progress: self.progress.clone(),
            model: learner.model.clone().into_record().into_bytes()?,
            optimizer: learner.optimizer.into_bytes()?,
            state,
        })
    }

    /// Continues a run with the same settings and text.
    ///
    /// # Errors
    /// If this run cannot have saved the checkpoint.
    pub fn load(&mut self, saved: Checkpoint) -> Result<(), Error> {
        let expect = |is_right: bool, reason: &str| {
            let error = || Error::Checkpoint(reason.into());
            is_right.then_some(()).ok_or_else(error)
        };
        let is_own = saved.settings == self.settings && saved.text == self.text.checksum;
        let settings = format!(
            "it belongs to another text or other settings: {:?}",
            saved.settings
        );
        expect(is_own, &settings)?;

        let Progress { steps, validations } = &saved.progress;
        let done = steps.len();
        let is_loss = |loss: f64| loss.is_finite() && loss >= 0.0;
        let is_step = |(k, s): (usize, &Step)| {
            s.step == k + 1 && s.epoch == k / self.windows() + 1 && is_loss(s.loss.into())
        };
        let mut validations = validations.iter();
        let is_progress = done <= self.steps()
            && steps.iter().enumerate().all(is_step)
            && validations.all(|&(step, loss)| step <= done && is_loss(loss));
        expect(is_progress, "expected losses of consecutive steps")?;

        let learner = &mut self.learner;
        let ids = Outline::of(&saved.model)?.tensors.into_values();
        let ids: BTreeSet<_> = ids.map(|(id, _)| id).collect();
        let record = ModuleRecord::from_bytes(saved.model)?;
        expect(
            ids.len() == record.len(),
            "expected one parameter for each id",
        )?;
        learner.model = learner.model.clone().try_load_record(record)?;

        // Adam's record after a step of this model.
        let mut like = Learner::new(learner.model.clone(), learner.devices.clone());
        if done > 0 {
            like.step(&self.text.train, 0..self.settings.seq, 0.0)?;
        }
        let mut expected = Outline::of(&like.optimizer.into_bytes()?)?;
        let scalars = expected.scalars.iter_mut();
        scalars
            .filter(|(name, _)| name.ends_with(".time"))
            .for_each(|(_, time)| *time = Scalar::from(done));
        let is_own = Outline::of(&saved.optimizer)? == expected;
        expect(
            is_own,
            "expected the state of Adam after these steps of this model",
        )?;
        learner.optimizer = like.optimizer.from_bytes(saved.optimizer)?;

        let [n, h] = [self.text.train.count, self.settings.hidden];
        let shape = [self.settings.layers, n, h];
        let len = if done == 0 { 0 } else { shape.iter().product() };
        let is_state = saved.state.len() == len && saved.state.iter().all(|h| h.abs() <= 1.0);
        expect(is_state, "expected a state of every row, from −1 to 1")?;
        if done > 0 {
            let state = TensorData::new(saved.state, shape);
            learner.set_state(Tensor::from_data(state, &learner.devices[0]));
        }
        self.progress = saved.progress;
        Ok(())
    }
}

/// What a record contains, without its numbers.
#[derive(PartialEq)]
struct Outline {
    /// The parameter and the shape of each tensor.
    tensors: BTreeMap<String, (Option<u64>, Vec<usize>)>,
    scalars: BTreeMap<String, Scalar>,
    metadata: BTreeMap<String, String>,
}

impl Outline {
    /// # Errors
    /// If a tensor is not finite float32, or not where a processor can read it.
    fn of(record: &Bytes) -> Result<Self, Error> {
        let failed = |error: burn_pack::Error| RecordError::from(error);
        let reader = Reader::from_bytes(record.clone()).map_err(failed)?;
        let (scalars, metadata) = (reader.scalars().clone(), reader.metadata().clone());
        let mut tensors = BTreeMap::new();
        for tensor in reader.into_tensors().map_err(failed)? {
            let (name, dtype, shape, id, bytes) = tensor.into_parts().map_err(failed)?;
            let is_finite = |data: TensorData| {
                let numbers = data.as_slice::<f32>();
                numbers.is_ok_and(|all| all.iter().all(|x| x.is_finite()))
            };
            let data = TensorData::try_from_bytes(bytes, shape.clone(), dtype);
            let is_finite = data.is_ok_and(is_finite);
            if dtype != DType::F32 || !is_finite {
                let reason = format!("{name}: expected finite, aligned float32, got {dtype:?}");
                return Err(Error::Checkpoint(reason));
            }
            tensors.insert(name, (id, shape.to_vec()));
        }
        Ok(Self {
            tensors,
            scalars,
            metadata,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Text;
    use burn::store::burn_pack::{Tensor as Packed, Writer};
    use burn::tensor::{Device, read_sync};
    use clap::Parser;

    /// A new trainer, and its checkpoint after three steps.
    fn run() -> (Trainer, Checkpoint) {
        let text = Text::new(&"abcd ".repeat(40), 2, 8).unwrap();
        let settings = "char-gru --embed=4 --hidden=6 --layers=2 --batch=2 --seq=8";
        let settings = Settings::parse_from(settings.split(' '));
        let mut trainer = Trainer::new(settings.clone(), text.clone(), &[Device::flex()]);
        for _ in 0..3 {
            read_sync(trainer.step()).unwrap();
        }
        let saved = trainer.save().unwrap();
        (Trainer::new(settings, text, &[Device::flex()]), saved)
    }

    /// The record with other tensors and counts of steps. All numbers are zero.
    fn changed(record: &mut Bytes, change: impl Fn(&mut Packed), time: Option<u64>) {
        let reader = Reader::from_bytes(record.clone()).unwrap();
        let (scalars, metadata) = (reader.scalars().clone(), reader.metadata().clone());
        let tensors = reader.into_tensors().unwrap().into_iter().map(|mut t| {
            change(&mut t);
            let len = t.shape.iter().product::<usize>() * t.dtype.size();
            let zeros = Bytes::from_bytes_vec(vec![0; len]);
            Packed::new(t.name, t.dtype, t.shape, t.param_id, zeros)
        });
        let mut writer = Writer::new(tensors.collect());
        for (name, value) in scalars {
            let time = time.filter(|_| name.ends_with(".time"));
            writer = writer.with_scalar(&name, time.map_or(value, Scalar::from));
        }
        for (name, value) in metadata {
            writer = writer.with_metadata(&name, &value);
        }
        *record = writer.into_bytes().unwrap();
    }

    fn unaligned(record: &mut Bytes) {
        let longer = Bytes::from_bytes_vec([&[0], &record[..]].concat());
        *record = longer.shared().view(1, record.len() + 1).unwrap();
    }

    #[test]
    fn only_a_state_of_the_run_is_loaded() {
        let (_, saved) = run();
        let loads = |change: &dyn Fn(&mut Checkpoint)| {
            let mut saved = saved.clone();
            change(&mut saved);
            run().0.load(saved).is_ok()
        };
        assert!(loads(&|_| {}));
        assert!(loads(&|c| changed(&mut c.model, |_| {}, None)));
        assert!(loads(&|c| changed(&mut c.optimizer, |_| {}, None)));

        let changes: [fn(&mut Packed); 8] = [
            |t| t.dtype = DType::F64,
            |t| t.dtype = DType::Flex32,
            |t| t.dtype = DType::I64,
            |t| t.dtype = DType::QFloat(Default::default()),
            |t| t.shape.push(1),
            |t| t.shape = [1].into(),
            |t| t.param_id = Some(1),
            |t| t.name += "_2",
        ];
        for (k, change) in changes.into_iter().enumerate() {
            assert!(!loads(&|c| changed(&mut c.model, change, None)), "{k}");
            assert!(!loads(&|c| changed(&mut c.optimizer, change, None)), "{k}");
        }
        let changes: [fn(&mut Checkpoint); 16] = [
            |c| unaligned(&mut c.model),
            |c| unaligned(&mut c.optimizer),
            |c| c.model = Writer::new(vec![]).into_bytes().unwrap(),
            |c| c.optimizer = Writer::new(vec![]).into_bytes().unwrap(),
            |c| changed(&mut c.optimizer, |_| {}, Some(0)),
            |c| changed(&mut c.optimizer, |_| {}, Some(u64::MAX)),
            |c| c.settings.seed += 1,
            |c| c.text += 1,
            |c| c.progress.steps[1].step = usize::MAX,
            |c| c.progress.steps.truncate(2),
            |c| c.progress.steps[1].loss = f32::INFINITY,
            |c| c.progress.steps[1].loss = -1.0,
            |c| c.progress.validations.push((2, f64::NAN)),
            |c| c.progress.validations.push((9, 1.0)),
            |c| c.state.truncate(1),
            |c| c.state[0] = f32::NAN,
        ];
        for (k, change) in changes.into_iter().enumerate() {
            assert!(!loads(&change), "{k}");
        }
    }
}
