//! The checkpoints of char-gru: the model's sizes and characters are part of the file.

use std::path::Path;

use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use char_model::file::{CHARACTERS, SIZES};
use char_model::model::{CharGru, CharGruConfig};
use char_model::trainer::Progress;
use char_model::vocabulary::Vocabulary;
use training_kit::checkpoint::{self, Run};
use training_kit::error::Error;

/// A training run between two steps.
pub type Checkpoint = checkpoint::Checkpoint<CharGru, Progress>;

/// Writes a checkpoint. `arguments` identifies the arguments of the run.
pub fn save(
    checkpoint: &Checkpoint,
    sizes: &CharGruConfig,
    vocabulary: &Vocabulary,
    arguments: &str,
    path: &Path,
) -> Result<(), Error> {
    let more = [
        (SIZES, &*sizes.to_string()),
        (CHARACTERS, &*vocabulary.characters()),
    ];
    checkpoint.save(run(arguments), &more, path)
}

/// Reads a checkpoint into a new `model` and `optimizer` of the same run.
pub fn load(
    path: &Path,
    arguments: &str,
    model: CharGru,
    optimizer: ModuleOptimizer,
    device: &Device,
) -> Result<Checkpoint, Error> {
    let state = [model.gru.num_layers, model.gru.d_hidden];
    Checkpoint::load(path, run(arguments), model, optimizer, state, device)
}

fn run(arguments: &str) -> Run<'_> {
    Run {
        program: "char-gru",
        arguments,
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::tensor::{Tensor, TensorData};
    use char_model::data::Window;
    use char_model::step::{Learner, adam};
    use std::fs;

    fn vocabulary(characters: &str) -> Vocabulary {
        Vocabulary::new(characters.chars().collect()).unwrap()
    }

    #[test]
    fn checkpoints_load_or_are_rejected() {
        if crate::runs_on_flex("checkpoint::tests::checkpoints_load_or_are_rejected") {
            return;
        }
        let path = std::env::temp_dir().join(format!("char-gru-run-{}", std::process::id()));
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
        fs::remove_file(&path).unwrap();
    }
}
