//! Trains a GRU to add up numbers on the CPU, saves and loads the model, and runs it step by step.

use burn::{
    module::Module,
    nn::{Linear, LinearConfig},
    optim::{AdamConfig, GradientsParams},
    tensor::{Device, Distribution, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig};

#[derive(Module, Debug)]
struct Model {
    gru: GruBlock,
    head: Linear,
}

impl Model {
    fn new(device: &Device) -> Self {
        Self {
            gru: GruBlockConfig::new(1, 16).init(device),
            head: LinearConfig::new(16, 1).init(device),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Train on sequences of ten numbers. The targets are the running sums.
    let device = Device::flex().autodiff();
    let mut model = Model::new(&device);
    let mut adam = AdamConfig::new().init();
    for step in 0..=500 {
        let x = Tensor::<3>::random([32, 10, 1], Distribution::Uniform(-1.0, 1.0), &device); // [N, T, I]
        let (y, _) = model.gru.forward(x.clone(), None); // [N, T, H]
        let loss = (model.head.forward(y) - x.cumsum(1)).square().mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(0.01, model, gradients);
        if step % 100 == 0 {
            println!("step {step}: loss {:.4}", loss.into_scalar::<f32>());
        }
    }

    // Save the model, and load it on a device without gradients.
    let path = "minimal.bpk"; // in the working directory
    model.save_file(path)?;
    let device = Device::flex();
    let model = Model::new(&device).try_load_file(path)?;

    // Stream: one number per call. The state is passed from call to call.
    let mut state = None;
    for number in [0.5, -0.25, 0.75, 0.5] {
        let x = Tensor::<2>::from_floats([[number]], &device); // [N, I]
        let (h, new_state) = model.gru.step(x, state); // [N, H], [L, N, H]
        let sum = model.head.forward(h).into_scalar::<f32>();
        println!("add {number}: sum {sum:.2}");
        state = Some(new_state);
    }
    Ok(())
}
