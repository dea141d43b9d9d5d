//! The state of a run between two steps, for a run that continues bit for bit.

use burn::module::Module;
use burn::store::ModuleRecord;
use burn::tensor::{Bytes, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::train::{Progress, Settings, Trainer};

/// The complete state of a run between two steps.
#[derive(Serialize, Deserialize)]
pub struct Checkpoint {
    settings: Settings,
    /// The checksum of the text.
    text: u32,
    progress: Progress,
    /// Burn's records of the model and the optimizer.
    records: [Vec<u8>; 2],
    /// `[L,N,H]`, after the first step.
    state: Option<Vec<f32>>,
}

impl Trainer {
    /// The state of the run, for [`load`](Self::load).
    ///
    /// # Errors
    /// If a parameter cannot be read from its device.
    pub fn save(&self) -> Result<Checkpoint, Error> {
        let learner = &self.learner;
        let model = learner.model.clone().into_record().into_bytes()?;
        let optimizer = learner.optimizer.into_bytes()?;
        let read = |state: Tensor<3>| state.try_into_data().map_err(Error::device);
        let state = learner.state.clone().map(read).transpose()?;
        Ok(Checkpoint {
            settings: self.settings.clone(),
            text: self.text.checksum,
            progress: self.progress.clone(),
            records: [model, optimizer].map(|record| record.to_vec()),
            state: state.map(|state| state.iter().collect()),
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
        let learner = &mut self.learner;
        let [model, optimizer] = saved.records.map(Bytes::from_bytes_vec);
        let model = ModuleRecord::from_bytes(model)?;
        learner.model = learner.model.clone().try_load_record(model)?;
        learner.optimizer = learner.optimizer.clone().from_bytes(optimizer)?;
        let Settings { layers, hidden, .. } = self.settings;
        let shape = [layers, self.text.train.count, hidden];
        let to_device = |state| Tensor::from_data(TensorData::new(state, shape), &learner.device);
        learner.state = saved.state.map(to_device);
        self.progress = saved.progress;
        Ok(())
    }
}
