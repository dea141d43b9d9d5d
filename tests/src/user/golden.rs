//! Files of earlier releases, which every later release must read: a block with its configuration, a
//! model and a checkpoint of char-gru. `tests/data/models/README.md` describes how to write the files of
//! a new release.

use super::{child, text, values};
use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{DType, Device, Tensor},
};
use char_gru::checkpoint::{self, Checkpoint};
use char_model::{
    data::Window,
    file,
    model::CharGruConfig,
    step::{Learner, adam},
    trainer::Progress,
    vocabulary::Vocabulary,
};
use gru_op::{
    Activation, Activations, Checkpointing, GruBlock, GruBlockConfig, Reset, SequenceOptions,
    Update,
};
use gru_testkit::close::{Tensors, Tolerance, close};
use libtest_mimic::Trial;
use std::{
    fs,
    path::{Path, PathBuf},
};

const BLOCK: &str = "block.bpk";
const MODEL: &str = "model.gru";
const CHECKPOINT: &str = "checkpoint";
/// The recorded results of the release.
const NUMBERS: &str = "numbers.json";
const RUN: &str = "a run";

fn folder() -> PathBuf {
    crate::data().join("models/golden")
}

/// The folder of each release, by version.
fn releases() -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder()).map_err(text)?;
    let mut releases = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(text)?;
    releases.sort();
    if releases.is_empty() {
        return Err("expected at least one release".into());
    }
    Ok(releases)
}

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("user/golden-block", || Ok(each(block)?)),
        Trial::test("user/golden-model", || Ok(each(model)?)),
    ]
}

/// In a separate process, because Burn loads an optimizer to its default device.
pub fn checkpoint() -> Result<(), String> {
    child::run("reads-checkpoints")
}

pub fn role() -> Result<(), String> {
    each(|folder| losses(&folder.join(CHECKPOINT)))
}

/// Compares current results with the recorded results of the release.
fn each(compute: impl Fn(&Path) -> Result<Tensors, String>) -> Result<(), String> {
    for release in releases()? {
        let expected = fs::read(release.join(NUMBERS)).map_err(text)?;
        let expected: Tensors = serde_json::from_slice(&expected).map_err(text)?;
        for (name, got) in compute(&release)? {
            let name = format!("{}: {name}", release.display());
            let of = name.rsplit(' ').next().unwrap_or_default();
            let expected = expected
                .get(of)
                .ok_or(format!("{name}: expected a record, got none"))?;
            close(&name, &got, expected, Tolerance::F32.gradient)?;
        }
    }
    Ok(())
}

fn block(folder: &Path) -> Result<Tensors, String> {
    let block = GruBlock::from_file(folder.join(BLOCK), &Device::flex()).map_err(text)?;
    let numbers: Vec<f64> = (0..24).map(number).collect();
    // Two bidirectional layers, time-major.
    let x = super::runs::tensor(&numbers, [4, 3, 2], &Device::flex(), DType::F32);
    let (y, state) = block.forward_with(x, SequenceOptions::new().lengths(&[4, 0, 2]));
    Ok(Tensors::from([
        ("y".into(), values(y)),
        ("state".into(), values(state)),
    ]))
}

fn model(folder: &Path) -> Result<Tensors, String> {
    let device = Device::flex();
    let (model, _, vocabulary) = file::load(&folder.join(MODEL), &device).map_err(text)?;
    super::expect("characters", vocabulary.characters(), "abcé ".to_owned())?;
    let tokens = Tensor::from_data([[0, 1, 2, 3, 4, 0]], &device);
    let (logits, _) = model.forward(tokens, None);
    Ok(Tensors::from([("logits".into(), values(logits))]))
}

/// The losses of the next two steps, which depend on parameters, moments and state.
fn losses(path: &Path) -> Result<Tensors, String> {
    let device = Device::flex().autodiff();
    let model = sizes().init(&device);
    let found = checkpoint::load(path, RUN, model, adam(), &device).map_err(text)?;
    super::expect("steps", found.progress.step, 2)?;
    let mut learner = Learner::new(found.model, 1.0, std::slice::from_ref(&device));
    learner.optimizer = found.optimizer;
    learner.set_state(found.state);
    let losses = [2, 3].map(|step| learn(&mut learner, step));
    Ok(Tensors::from([("losses".into(), losses.to_vec())]))
}

fn learn(learner: &mut Learner, step: usize) -> f64 {
    let token = |place: usize| ((place * place + 3 * place + step) % 5) as i32;
    let window = Window::new(
        (0..12).map(token).collect(),
        (1..13).map(token).collect(),
        2,
        6,
    );
    let outcome = learner.step(&window, 0.05).expect("Flex runs the step");
    values(outcome.loss)[0]
}

fn sizes() -> CharGruConfig {
    CharGruConfig::new(5, 3, 4, 1, 0.0)
}

/// A fixed value in (−0.7, 0.7).
fn number(k: usize) -> f64 {
    (k * 37 % 101) as f64 / 72.0 - 0.7
}

struct Numbered(usize);

impl ModuleMapper for Numbered {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| {
            let shape: [usize; D] = tensor.dims();
            let from = self.0;
            self.0 += shape.iter().product::<usize>();
            let numbers: Vec<f64> = (from..self.0).map(number).collect();
            let place = (tensor.device(), tensor.dtype());
            let new = super::runs::tensor(&numbers, shape, &place.0, place.1);
            if tensor.is_require_grad() {
                new.require_grad()
            } else {
                new
            }
        })
    }
}

/// Writes the files of this release. Existing files stay.
pub fn write() -> Result<(), String> {
    let folder = folder().join(env!("CARGO_PKG_VERSION"));
    if folder.exists() {
        return Err(format!("{}: expected no such folder", folder.display()));
    }
    fs::create_dir_all(&folder).map_err(text)?;
    let odd = Activations {
        reset: Activation::HardSigmoid {
            alpha: 0.25,
            beta: 0.5,
        },
        update: Activation::Sigmoid,
        candidate: Activation::ScaledTanh {
            alpha: 1.5,
            beta: 0.75,
        },
    };
    let config = GruBlockConfig::new(2, 3)
        .with_num_layers(2)
        .with_bidirectional(true)
        .with_batch_first(false)
        .with_dropout(0.25)
        .with_zoneout(0.125)
        .with_checkpointing(Checkpointing::Recompute);
    let mut apart = vec![config.layer_options(); 4];
    apart[1].reset = Reset::BeforeMatmul;
    apart[2].activations = odd;
    apart[2].clip_gates = Some(0.75);
    apart[3].update = Update::Takes;
    apart[3].clip_state = Some(0.5);
    let gru = config.with_per_layer(apart).init(&Device::flex());
    let gru = gru.map(&mut Numbered(0));
    gru.save_with_config(folder.join(BLOCK)).map_err(text)?;

    let device = Device::flex().autodiff();
    let vocabulary = Vocabulary::new("abcé ".chars().collect()).map_err(text)?;
    let net = sizes().init(&device).map(&mut Numbered(0));
    file::save(&net, &sizes(), &vocabulary, &folder.join(MODEL)).map_err(text)?;
    let mut learner = Learner::new(net, 1.0, std::slice::from_ref(&device));
    (0..2).for_each(|step| {
        learn(&mut learner, step);
    });
    let checkpoint = Checkpoint {
        model: learner.model.clone(),
        optimizer: learner.optimizer.clone(),
        state: learner.state(),
        progress: Progress {
            step: 2,
            ..Progress::default()
        },
    };
    let saved = checkpoint::save(
        &checkpoint,
        &sizes(),
        &vocabulary,
        RUN,
        &folder.join(CHECKPOINT),
    );
    saved.map_err(text)?;

    // The results of the values in memory, not of the written files.
    let mut numbers = block(&folder)?;
    numbers.append(&mut model(&folder)?);
    let losses = [2, 3].map(|step| learn(&mut learner, step));
    numbers.insert("losses".into(), losses.to_vec());
    let numbers = serde_json::to_string(&numbers).map_err(text)?;
    fs::write(folder.join(NUMBERS), numbers).map_err(text)
}
