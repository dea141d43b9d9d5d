//! Training: a small model memorizes a short text.

use super::backends::TestBackend;
use burn::{
    module::Module,
    nn::{Linear, LinearConfig, loss::CrossEntropyLossConfig},
    optim::{AdamConfig, GradientsParams},
    tensor::{Device, Int, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig};
use libtest_mimic::Trial;

const TEXT: &str = "sed ut perspiciatis unde omnis iste natus error";

#[derive(Module, Debug)]
struct Model {
    gru: GruBlock,
    head: Linear,
}

/// CPUs train until the text is memorized. GPUs train a few steps, and the loss must fall.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let trial = |backend: &TestBackend| {
        let (steps, goal) = if backend.float64 {
            (120, 0.05)
        } else {
            (12, 2.2)
        };
        let id = format!("train/short-text/{}", backend.name);
        backend.trial(id, move |device| learn(device, steps, goal))
    };
    backends.iter().map(trial).collect()
}

fn learn(device: &Device, steps: usize, goal: f64) -> Result<(), String> {
    let device = device.clone().autodiff();
    device.seed(11);
    let mut letters: Vec<char> = TEXT.chars().collect();
    let text = letters.clone();
    letters.sort_unstable();
    letters.dedup();
    let ids: Vec<i32> = text
        .iter()
        .map(|c| letters.binary_search(c).expect("every letter is listed") as i32)
        .collect();
    let (t, kinds) = (ids.len() - 1, letters.len());
    let ids = Tensor::<1, Int>::from_data(&ids[..], &device);
    let x = ids.clone().narrow(0, 0, t).one_hot::<2>(kinds).float();
    let x = x.reshape([1, t, kinds]);
    let targets = ids.narrow(0, 1, t);

    let mut model = Model {
        gru: GruBlockConfig::new(kinds, 48).init(&device),
        head: LinearConfig::new(48, kinds).init(&device),
    };
    let mut optimizer = AdamConfig::new().init();
    let criterion = CrossEntropyLossConfig::new().init(&device);
    let mut losses = Vec::with_capacity(steps);
    for _ in 0..steps {
        let (y, _) = model.gru.forward(x.clone(), None);
        let logits = model.head.forward(y).reshape([t, kinds]);
        let loss = criterion.forward(logits, targets.clone());
        losses.push(loss.clone().into_scalar::<f64>());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(0.02, model, gradients);
    }
    // An untrained model has a loss of the logarithm of the number of letters.
    let (first, last) = (losses[0], losses[steps - 1]);
    let ignorant = (kinds as f64).ln();
    if (first - ignorant).abs() < 1.0 && last < goal {
        Ok(())
    } else {
        Err(format!(
            "loss after {steps} steps: expected from about {ignorant} to {goal}, got from {first} to {last}"
        ))
    }
}
