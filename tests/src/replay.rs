//! Repeats a training run that PyTorch recorded, step by step, with the parts of char-gru.
//! `tests/data/replay/generate.py` describes the run.
//!
//! The bounds are four to five times the largest difference seen with the kernels of two CPUs. Both runs
//! are in float32 and round in different orders. Another instruction set may double the difference. The
//! bound of the first step's gradients is the tightest, because no error has accumulated yet. Later,
//! each step of Adam spreads a difference in the last bit of a small gradient. A replay in float64
//! differs from the record by 1.3e-7 in the losses and 2e-6 in the parameters, which is PyTorch's own
//! rounding.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
};

use burn::{
    module::{Module, ModuleMapper, Param},
    nn::loss::CrossEntropyLossConfig,
    optim::GradientsParams,
    tensor::{Device, Tensor, TensorData},
};
use char_gru::{
    clip::clip_norm,
    data::{Streams, Vocabulary},
    learner::Learner,
    model::CharGru,
};
use gru_convert::StateDict;
use libtest_mimic::Trial;
use safetensors::SafeTensors;
use serde_json::Value;

use super::{backends::TestBackend, conformance::values_by_key, runs::values};

/// Losses, relative. The largest difference seen is 1.1e-6.
const LOSS: f64 = 5e-6;
/// Gradient norms, relative. The largest difference seen is 4.5e-6.
const NORM: f64 = 2e-5;
/// Clipped gradients of the first step, relative to the largest value of each tensor. The largest
/// difference seen is 5.5e-7.
const GRADIENT: f64 = 2.5e-6;
/// The state after all steps, absolute. The largest difference seen is 1.6e-5.
const STATE: f64 = 8e-5;
/// The parameters after all steps, absolute. The largest difference seen is 2.2e-6.
const PARAMETER: f64 = 1e-5;

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let trial = |backend: &TestBackend| {
        let factor = backend.tolerance_factor;
        let id = format!("replay/60-steps-of-pytorch/{}", backend.name);
        backend.trial(id, move |device| replay(device, factor))
    };
    backends.iter().map(trial).collect()
}

struct Record {
    dict: StateDict,
    run: Value,
    vocabulary: Vocabulary,
}

impl Record {
    fn read() -> Result<Self, String> {
        let path = crate::data().join("replay/char_gru_replay.safetensors");
        let bytes = fs::read(&path).map_err(|e| e.to_string())?;
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| e.to_string())?;
        let metadata: HashMap<_, _> = header.metadata().clone().unwrap_or_default();
        let json = |key: &str| -> Result<Value, String> {
            let text = metadata.get(key).ok_or(format!("no {key}"))?;
            serde_json::from_str(text).map_err(|e| e.to_string())
        };
        let characters: Vec<String> =
            serde_json::from_value(json("vocab")?).map_err(|e| e.to_string())?;
        Ok(Self {
            dict: StateDict::from_safetensors(&path).map_err(|e| e.to_string())?,
            run: json("run")?,
            vocabulary: Vocabulary::of(&characters.concat()),
        })
    }

    /// The tensors whose names start with `prefix`, without the prefix.
    fn part(&self, prefix: &str) -> StateDict {
        let mut part = StateDict::new();
        for key in self.dict.keys() {
            if let (Some(name), Some(data)) = (key.strip_prefix(prefix), self.dict.get(key)) {
                part.insert(name, data.clone());
            }
        }
        part
    }

    fn number(&self, name: &str) -> f64 {
        self.run[name].as_f64().expect("the run has this number")
    }

    fn size(&self, name: &str) -> usize {
        self.number(name) as usize
    }
}

fn replay(device: &Device, factor: f64) -> Result<(), String> {
    let device = &device.clone().autodiff();
    let record = Record::read()?;
    let all = values_by_key(&record.dict);
    let [n, t, steps] = ["N", "T", "steps"].map(|name| record.size(name));
    let mut init = record.part("init.");
    let characters = record.vocabulary.characters().iter();
    let characters: Vec<f32> = characters.map(|&c| c as u32 as f32).collect();
    init.insert("characters", TensorData::from(&characters[..]));
    let (model, _) = CharGru::from_arrays(&init, device).map_err(|e| e.to_string())?;
    let ids = all["ids"].iter().map(|&id| id as i32).collect();
    let streams = Streams::new(ids, n, t).map_err(|e| e.to_string())?;
    first_gradients(&record, &model, &streams, device, factor)?;
    let mut learner = Learner::new(model, vec![device.clone()]);
    let recorded = all["losses"].iter().zip(&all["grad_norms"]);
    for (step, (&loss, &norm)) in recorded.enumerate().take(steps) {
        let times = step * t..(step + 1) * t;
        let outcome = learner.step(&streams, times, record.number("lr"));
        let outcome = values(outcome.map_err(|e| e.to_string())?);
        for (name, got, expected, bound) in [
            ("loss", outcome[0], loss, LOSS),
            ("gradient norm", outcome[1], norm, NORM),
        ] {
            let off = (got - expected).abs() / expected;
            if off.is_nan() || off > bound * factor {
                return Err(format!(
                    "{name} of step {}: expected {expected}, got {got}, difference {off:.1e}",
                    step + 1
                ));
            }
        }
    }

    let state = learner.states[0].clone();
    within("state", &values(state), &all["h_final"], STATE * factor)?;
    let learnt = learner.model.to_arrays(&record.vocabulary);
    let learnt = learnt.map_err(|e| e.to_string())?;
    all_within(
        &values_by_key(&learnt),
        &values_by_key(&record.part("final.")),
        |_| PARAMETER * factor,
    )
}

/// The clipped gradients of the first step, before Adam spreads differences.
fn first_gradients(
    record: &Record,
    model: &CharGru,
    streams: &Streams,
    device: &Device,
    factor: f64,
) -> Result<(), String> {
    let (inputs, targets) = streams.window(0..streams.count, 0..record.size("T"), device);
    let (logits, _) = model.forward(inputs, None);
    let loss = CrossEntropyLossConfig::new().init(device);
    let loss = loss.forward(logits, targets);
    let gradients = GradientsParams::from_grads(loss.backward(), model);
    let (gradients, _) = clip_norm(model, gradients, record.number("clip"));
    let in_their_place = model.clone().map(&mut InPlaceOfParameters(gradients));
    let got = in_their_place.to_arrays(&record.vocabulary);
    let got = got.map_err(|e| e.to_string())?;
    let (got, expected) = (
        values_by_key(&got),
        values_by_key(&record.part("step0.grad_clipped.")),
    );
    all_within(&got, &expected, |largest| GRADIENT * largest * factor)
}

struct InPlaceOfParameters(GradientsParams);

impl ModuleMapper for InPlaceOfParameters {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let gradient = self.0.remove::<D>(param.id).expect("all have a gradient");
        param.map(|parameter| Tensor::from_inner(gradient).to_device(&parameter.device()))
    }
}

/// Compares the tensors of a model: an embedding, two layers with four tensors each, and a head with
/// two. `bound` gets the largest value of each tensor.
fn all_within(
    got: &BTreeMap<String, Vec<f64>>,
    expected: &BTreeMap<String, Vec<f64>>,
    bound: impl Fn(f64) -> f64,
) -> Result<(), String> {
    for (name, expected) in expected {
        let got = got.get(name).ok_or(format!("no tensor {name}"))?;
        let largest = expected
            .iter()
            .fold(0.0, |largest: f64, x| largest.max(x.abs()));
        within(name, got, expected, bound(largest))?;
    }
    match expected.len() {
        11 => Ok(()),
        compared => Err(format!("{compared} tensors compared, expected 11")),
    }
}

fn within(name: &str, got: &[f64], expected: &[f64], bound: f64) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!(
            "{name}: {} numbers, expected {}",
            got.len(),
            expected.len()
        ));
    }
    let off = got.iter().zip(expected).map(|(a, b)| (a - b).abs());
    // NaN counts as the largest value.
    let worst = off.fold(
        0.0,
        |worst: f64, d| if d > worst || d.is_nan() { d } else { worst },
    );
    if worst <= bound {
        Ok(())
    } else {
        Err(format!(
            "{name}: expected a difference of at most {bound:.1e}, got {worst:.1e}"
        ))
    }
}
