//! Repeats a training run that PyTorch recorded, step by step: an embedding, two layers and a head.
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
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, loss::CrossEntropyLossConfig},
    optim::{AdamConfig, GradientsParams},
    tensor::{Device, Int, Tensor, TensorData},
};
use gru_convert::{StateDict, pytorch};
use gru_op::GruBlock;
use gru_testkit::close::close;
use libtest_mimic::Trial;
use safetensors::SafeTensors;
use serde_json::Value;

use super::{
    backends::TestBackend,
    conformance::{text, values_by_key},
    runs::values,
};

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

/// The next character.
#[derive(Module, Debug)]
struct Model {
    embedding: Embedding,
    gru: GruBlock,
    head: Linear,
}

impl Model {
    fn import(dict: &StateDict, prefix: &str, device: &Device) -> Result<Self, String> {
        let gru = format!("{prefix}gru.");
        let config = pytorch::config(dict, &gru).map_err(text)?;
        let config = config.with_batch_first(true);
        let name = |of: &str| format!("{prefix}{of}");
        let [v, embed] = dict.shape(&name("embedding.weight")).map_err(text)?;
        let mut embedding = EmbeddingConfig::new(v, embed).init(device);
        let weight = dict.tensor(&name("embedding.weight"), [v, embed], device);
        embedding.weight = Param::from_tensor(weight.map_err(text)?);
        let mut head = LinearConfig::new(config.d_hidden, v).init(device);
        let weight: Tensor<2> = dict
            .tensor(&name("head.weight"), [v, config.d_hidden], device)
            .map_err(text)?;
        head.weight = Param::from_tensor(weight.transpose());
        let bias = dict.tensor(&name("head.bias"), [v], device);
        head.bias = Some(Param::from_tensor(bias.map_err(text)?));
        Ok(Self {
            embedding,
            gru: pytorch::import(dict, &gru, &config, device).map_err(text)?,
            head,
        })
    }

    /// The parameters with PyTorch's names.
    fn export(&self) -> Result<BTreeMap<String, Vec<f64>>, String> {
        let mut named = values_by_key(&pytorch::export(&self.gru, "gru.").map_err(text)?);
        let bias = self.head.bias.as_ref().ok_or("expected a bias")?;
        named.extend([
            (
                "embedding.weight".into(),
                values(self.embedding.weight.val()),
            ),
            (
                "head.weight".into(),
                values(self.head.weight.val().transpose()),
            ),
            ("head.bias".into(), values(bias.val())),
        ]);
        Ok(named)
    }

    /// The mean cross-entropy of `[N,T]` characters and the characters after them, and the new state.
    fn loss(
        &self,
        [ids, next]: [Tensor<2, Int>; 2],
        state: Option<Tensor<3>>,
    ) -> (Tensor<1>, Tensor<3>) {
        let (y, state) = self.gru.forward(self.embedding.forward(ids), state);
        let [n, t, h] = y.dims();
        let logits = self.head.forward(y.reshape([n * t, h]));
        let loss = CrossEntropyLossConfig::new().init(&logits.device());
        (loss.forward(logits, next.reshape([n * t])), state)
    }
}

/// Multiplies all gradients by a factor, and sums their squares.
struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: f64,
    squares: f64,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = self.gradients.remove::<D>(param.id);
        let gradient = gradient.expect("all have a gradient");
        self.squares += values(gradient.clone().square().sum())[0];
        let scaled = gradient * self.factor;
        self.gradients.register(param.id, scaled);
    }
}

/// Clips the gradients to a global norm, as PyTorch does. Returns the norm before.
fn clip_norm(model: &Model, gradients: &mut GradientsParams, most: f64) -> f64 {
    let mut scale = |factor: f64| {
        let mut scale = Scale {
            gradients,
            factor,
            squares: 0.0,
        };
        model.visit(&mut scale);
        scale.squares.sqrt()
    };
    let norm = scale(1.0);
    scale((most / (norm + 1e-6)).min(1.0));
    norm
}

fn replay(device: &Device, factor: f64) -> Result<(), String> {
    let device = &device.clone().autodiff();
    let path = crate::data().join("replay/char_gru_replay.safetensors");
    let bytes = fs::read(&path).map_err(text)?;
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(text)?;
    let metadata: HashMap<_, _> = header.metadata().clone().unwrap_or_default();
    let run: Value = serde_json::from_str(&metadata["run"]).map_err(text)?;
    let number = |name: &str| run[name].as_f64().expect("the run has this number");
    let [n, t, steps] = ["N", "T", "steps"].map(|name| number(name) as usize);
    let dict = StateDict::from_safetensors(&path).map_err(text)?;
    let all = values_by_key(&dict);
    let recorded = |prefix: &str| -> BTreeMap<String, Vec<f64>> {
        let named = all.iter();
        named
            .filter_map(|(name, values)| Some((name.strip_prefix(prefix)?.into(), values.clone())))
            .collect()
    };
    let ids: Vec<i32> = all["ids"].iter().map(|&id| id as i32).collect();
    let stream = (ids.len() - 1) / n;
    let window = |from: usize| {
        [from, from + 1].map(|from| -> Tensor<2, Int> {
            let rows = (0..n).flat_map(|row| &ids[row * stream + from..][..t]);
            let rows: Vec<i32> = rows.copied().collect();
            Tensor::from_data(TensorData::new(rows, [n, t]), device)
        })
    };
    let mut model = Model::import(&dict, "init.", device)?;
    let mut adam = AdamConfig::new().with_epsilon(1e-8).init();
    let mut state: Option<Tensor<3>> = None;
    let expected = all["losses"].iter().zip(&all["grad_norms"]);
    for (step, (&expected_loss, &expected_norm)) in expected.enumerate().take(steps) {
        let (loss, last) = model.loss(window(step * t), state);
        state = Some(last.detach());
        let mut gradients = GradientsParams::from_grads(loss.backward(), &model);
        let norm = clip_norm(&model, &mut gradients, number("clip"));
        if step == 0 {
            // Before Adam spreads differences.
            let got = model
                .clone()
                .map(&mut InPlaceOfParameters(&gradients))
                .export()?;
            let expected = recorded("step0.grad_clipped.");
            all_within(&got, &expected, |largest| GRADIENT * largest * factor)?;
        }
        for (name, got, expected, bound) in [
            ("loss", values(loss)[0], expected_loss, LOSS),
            ("gradient norm", norm, expected_norm, NORM),
        ] {
            let off = (got - expected).abs() / expected;
            if off.is_nan() || off > bound * factor {
                return Err(format!(
                    "{name} of step {}: expected {expected}, got {got}, difference {off:.1e}",
                    step + 1
                ));
            }
        }
        model = adam.step(number("lr"), model, gradients);
    }
    let state = state.expect("there is at least one step");
    // States are below 1.
    close("state", &values(state), &all["h_final"], STATE * factor)?;
    all_within(&model.export()?, &recorded("final."), |_| {
        PARAMETER * factor
    })
}

struct InPlaceOfParameters<'a>(&'a GradientsParams);

impl ModuleMapper for InPlaceOfParameters<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let gradient = self.0.get::<D>(param.id).expect("all have a gradient");
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
        // `close` multiplies the tolerance by this scale.
        close(name, got, expected, bound(largest) / largest.max(1.0))?;
    }
    match expected.len() {
        11 => Ok(()),
        compared => Err(format!("{compared} tensors compared, expected 11")),
    }
}
