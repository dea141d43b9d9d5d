//! Trains a `GruBlock` to add up a sequence of numbers, on the CPU.

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

fn main() {
    let device = Device::flex().autodiff();
    let mut model = Model {
        gru: GruBlockConfig::new(1, 16).init(&device),
        head: LinearConfig::new(16, 1).init(&device),
    };
    let mut adam = AdamConfig::new().init();
    for step in 0..=500 {
        let x = Tensor::<3>::random([32, 10, 1], Distribution::Uniform(-1.0, 1.0), &device); // [N, T, I]
        let (_, state) = model.gru.forward(x.clone(), None); // [L, N, H]
        let sum = model.head.forward(state.squeeze_dim::<2>(0)); // [N, 1]
        let loss = (sum - x.sum_dim(1).squeeze_dim::<2>(1)).square().mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(0.01, model, gradients);
        if step % 100 == 0 {
            println!("step {step}: loss {:.4}", loss.into_scalar::<f32>());
        }
    }
}
