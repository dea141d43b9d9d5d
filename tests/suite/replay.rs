//! A training run that PyTorch recorded, made again step by step by the parts of char-gru:
//! `tests/replay/generate.py` says what it is.
//!
//! The bounds are on what float32 does to a run of 60 steps: a replay in float64 differs from the
//! record by 1.3e-7 in the losses and by 2e-6 in the parameters, and each step of Adam spreads a
//! difference in the last bit of a small gradient.

use std::{collections::HashMap, fs};

use burn::tensor::Device;
use char_model::{data::Window, exchange, step::Learner, vocabulary::Vocabulary};
use gru_op::convert::StateDict;
use libtest_mimic::Trial;
use safetensors::SafeTensors;
use serde_json::Value;

use super::{backends::TestBackend, conformance::numbers, runs::values};

/// Relative, of losses and gradient norms.
const LOSS: f64 = 1e-5;
/// Absolute, of parameters and state.
const PARAMETER: f64 = 1e-4;

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let trial = |backend: &TestBackend| {
        let factor = backend.tolerance_factor();
        let id = format!("replay/60-steps-of-pytorch/{}", backend.name);
        backend.trial(id, move |device| replay(device, factor))
    };
    backends.iter().map(trial).collect()
}

/// The recorded run.
struct Record {
    dict: StateDict,
    run: Value,
    vocabulary: Vocabulary,
}

impl Record {
    fn read() -> Result<Self, String> {
        let path = crate::folder().join("replay/char_gru_replay.safetensors");
        let bytes = fs::read(&path).map_err(|e| e.to_string())?;
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| e.to_string())?;
        let metadata: HashMap<_, _> = header.metadata().clone().unwrap_or_default();
        let json = |key: &str| -> Result<Value, String> {
            let text = metadata.get(key).ok_or(format!("no {key}"))?;
            serde_json::from_str(text).map_err(|e| e.to_string())
        };
        let characters = json("vocab")?;
        let characters = characters.as_array().ok_or("vocab is no list")?.iter();
        let characters = characters.filter_map(|c| c.as_str()?.chars().next());
        Ok(Self {
            dict: StateDict::from_safetensors(&path).map_err(|e| e.to_string())?,
            run: json("run")?,
            vocabulary: Vocabulary::new(characters.collect()).map_err(|e| e.to_string())?,
        })
    }

    /// The tensors whose names start with `prefix`, under the rest of their names.
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
    let all = numbers(&record.dict);
    let [n, t, steps] = ["N", "T", "steps"].map(|name| record.size(name));
    let (model, _) = exchange::import(&record.part("init."), &record.vocabulary, device)
        .map_err(|e| e.to_string())?;
    let mut learner = Learner::new(model, record.number("clip"), std::slice::from_ref(device));
    let ids: Vec<i32> = all["ids"].iter().map(|&id| id as i32).collect();
    let stream = (ids.len() - 1) / n;
    let columns = |from: usize| -> Vec<i32> {
        let rows = (0..n).flat_map(|row| &ids[row * stream + from..][..t]);
        rows.copied().collect()
    };
    let recorded = all["losses"].iter().zip(&all["grad_norms"]);
    for (step, (&loss, &norm)) in recorded.enumerate().take(steps) {
        let window = Window::new(columns(step * t), columns(step * t + 1), n, t);
        let outcome = learner.step(&window, record.number("lr"));
        let outcome = outcome.map_err(|e| e.to_string())?;
        for (name, got, expected) in [
            ("loss", outcome.loss, loss),
            ("gradient norm", outcome.gradient_norm, norm),
        ] {
            let got = values(got)[0];
            let off = (got - expected).abs() / expected;
            if off.is_nan() || off > LOSS * factor {
                return Err(format!(
                    "{name} of step {}: {got}, expected {expected}, {off:.1e} off",
                    step + 1
                ));
            }
        }
    }

    let state = learner.state().expect("there was a step");
    within("state", &values(state), &all["h_final"], factor)?;
    let learnt = exchange::export(&learner.model, &record.vocabulary).map_err(|e| e.to_string())?;
    let learnt = numbers(&learnt);
    let expected = numbers(&record.part("final."));
    for (name, expected) in &expected {
        let got = learnt.get(name).ok_or(format!("no parameter {name}"))?;
        within(name, got, expected, factor)?;
    }
    match expected.len() {
        // An embedding, two layers of four, a head of two.
        11 => Ok(()),
        compared => Err(format!("{compared} parameters compared, expected 11")),
    }
}

fn within(name: &str, got: &[f64], expected: &[f64], factor: f64) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!(
            "{name}: {} numbers, expected {}",
            got.len(),
            expected.len()
        ));
    }
    let off = got.iter().zip(expected).map(|(a, b)| (a - b).abs());
    // A NaN is the largest of all.
    let worst = off.fold(
        0.0,
        |worst: f64, d| if d > worst || d.is_nan() { d } else { worst },
    );
    match worst <= PARAMETER * factor {
        true => Ok(()),
        false => Err(format!("{name}: {worst:.1e} off")),
    }
}
