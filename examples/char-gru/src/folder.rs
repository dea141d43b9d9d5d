//! The folder of a run. Files are replaced atomically, so a killed process leaves the old or the new file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::store::burn_pack::{self, AtomicFile};
use char_gru::checkpoint::Checkpoint;
use char_gru::error::Error;
use char_gru::train::Trainer;

use crate::chart;

/// The folder of a run.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the folder `path`, or opens it with `resume` or `overwrite`.
    pub fn open(path: &Path, resume: bool, overwrite: bool) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(Error::file(path))?;
        let folder = Self(path.into());
        let has_run = folder.checkpoint().exists() || folder.model().exists();
        if has_run && !resume && !overwrite {
            return Err(Error::Exists(path.into()));
        }
        Ok(folder)
    }

    /// The model with the lowest validation loss.
    pub fn model(&self) -> PathBuf {
        self.0.join("model.safetensors")
    }

    fn checkpoint(&self) -> PathBuf {
        self.0.join("checkpoint")
    }

    /// Saves the model of `trainer`.
    pub fn save_model(&self, trainer: &Trainer) -> Result<(), Error> {
        let model = trainer.learner.model.valid();
        let arrays = model.to_arrays(&trainer.text.vocabulary)?;
        Ok(arrays.to_safetensors(self.model())?)
    }

    /// Saves the state of `trainer` with a checksum, a line of JSON for each step, and the chart of the losses.
    pub fn save(&self, trainer: &Trainer) -> Result<(), Error> {
        let packed = rmp_serde::to_vec(&trainer.save()?);
        let mut packed = packed.map_err(|e| Error::Checkpoint(e.to_string()))?;
        let checksum = crc32fast::hash(&packed);
        packed.extend(checksum.to_le_bytes());
        write(&self.checkpoint(), &packed)?;

        let line = |step| serde_json::to_string(step).expect("a step is JSON") + "\n";
        let log: String = trainer.progress.steps.iter().map(line).collect();
        write(&self.0.join("log.jsonl"), log.as_bytes())?;
        let chart = chart::losses(&trainer.progress).expect("plotters draws to memory");
        write(&self.0.join("loss.svg"), chart.as_bytes())
    }

    /// Reads the last checkpoint.
    pub fn load_checkpoint(&self) -> Result<Checkpoint, Error> {
        let path = self.checkpoint();
        let file = fs::read(&path).map_err(Error::file(&path))?;
        let damaged = || Error::Checkpoint(format!("{} is damaged", path.display()));
        let (packed, checksum) = file.split_last_chunk().ok_or_else(damaged)?;
        if crc32fast::hash(packed) != u32::from_le_bytes(*checksum) {
            return Err(damaged());
        }
        rmp_serde::from_slice(packed).map_err(|e| Error::Checkpoint(e.to_string()))
    }
}

/// Writes a new file next to `path`, and renames it.
fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    let failed = |e: burn_pack::Error| Error::file(path)(io::Error::other(e.to_string()));
    let (new, mut file) = AtomicFile::create(path).map_err(failed)?;
    file.write_all(content).map_err(Error::file(path))?;
    drop(file);
    new.commit().map_err(failed)
}
