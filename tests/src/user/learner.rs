//! burn-train's `Learner` with batches from several threads.

use super::{child, text};
use burn::{
    data::{
        dataloader::{DataLoaderBuilder, batcher::Batcher},
        dataset::InMemDataset,
    },
    module::Module,
    nn::{Linear, LinearConfig},
    optim::AdamConfig,
    tensor::{Device, Tensor, TensorData},
    train::{
        InferenceStep, Learner, RegressionOutput, SupervisedTraining, TrainOutput, TrainStep,
        metric::LossMetric,
    },
};
use gru_op::{GruBlock, GruBlockConfig};

const ITEMS: usize = 256;
const BATCH: usize = 16;
const WORKERS: usize = 3;
const EPOCHS: usize = 12;
const T: usize = 6;

/// In a separate process, because a `Learner` prints.
pub fn runs() -> Result<(), String> {
    child::run("learner")
}

/// The values of a sequence. The target is their sum.
type Item = [f32; T];

#[derive(Debug, Clone)]
struct Batch {
    x: Tensor<3>,
    sums: Tensor<2>,
}

#[derive(Clone)]
struct Sums;

impl Batcher<Item, Batch> for Sums {
    fn batch(&self, items: Vec<Item>, device: &Device) -> Batch {
        let sums = items.iter().map(|item| item.iter().sum());
        let sums = TensorData::new(sums.collect::<Vec<f32>>(), [items.len(), 1]);
        let x = TensorData::new(items.concat(), [items.len(), T, 1]);
        Batch {
            x: Tensor::from_data(x, device),
            sums: Tensor::from_data(sums, device),
        }
    }
}

#[derive(Module, Debug)]
struct Model {
    gru: GruBlock,
    head: Linear,
}

impl Model {
    fn run(&self, batch: Batch) -> RegressionOutput {
        let (_, state) = self.gru.forward(batch.x, None);
        let output = self.head.forward(state.squeeze_dim::<2>(0));
        let loss = (output.clone() - batch.sums.clone()).square().mean();
        RegressionOutput::new(loss, output, batch.sums)
    }
}

impl TrainStep for Model {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        let output = self.run(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Model {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> RegressionOutput {
        self.run(batch)
    }
}

/// The items of a data set, drawn from one seed.
fn items(mut seed: u64) -> Vec<Item> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..ITEMS).map(|_| [(); T].map(|()| next())).collect()
}

pub fn role() -> Result<(), String> {
    let device = Device::flex().autodiff();
    // This process runs nothing else.
    device.seed(3);
    let model = Model {
        gru: GruBlockConfig::new(1, 16).init(&device),
        head: LinearConfig::new(16, 1).init(&device),
    };
    let loader = |seed, device: &Device| {
        DataLoaderBuilder::new(Sums)
            .batch_size(BATCH)
            .shuffle(seed)
            .num_workers(WORKERS)
            .set_device(device.clone())
            .build(InMemDataset::new(items(seed)))
    };
    let valid = loader(2, &device.clone().inner());
    let loss = |model: &Model| {
        let losses = valid
            .iter()
            .map(|batch| super::values(model.run(batch.expect("items are in memory")).loss)[0]);
        losses.sum::<f64>() / (ITEMS / BATCH) as f64
    };
    let before = loss(&model.valid());
    let folder = tempfile::tempdir().map_err(text)?;
    let training = SupervisedTraining::new(&folder, loader(1, &device), valid.clone())
        .metrics((LossMetric::new(),))
        .with_application_logger(None)
        .num_epochs(EPOCHS);
    let learner = Learner::new(model, AdamConfig::new().init(), 0.01);
    let learnt = training.launch(learner).model;
    let after = loss(&learnt);

    // The variance of the sums is T/12. The best constant prediction reaches this loss.
    if before > 0.2 && after < 0.02 {
        Ok(())
    } else {
        Err(format!(
            "expected a smaller loss, got {after} after {before}"
        ))
    }
}
