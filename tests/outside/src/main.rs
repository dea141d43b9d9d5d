//! Trains a GRU and a linear layer on the CPU to find which of two sequences has more ones. Saves the
//! model to a file, loads the file, runs the model step by step, and exports the weights in PyTorch's
//! format.

use burn::{
    module::Module,
    nn::{Linear, LinearConfig, loss::MseLoss, loss::Reduction},
    optim::{AdamConfig, GradientsParams},
    tensor::{Device, Distribution, Tensor},
};
use gru_convert::{StateDict, pytorch};
use gru_op::{GruBlock, GruBlockConfig};

const T: usize = 12;

#[derive(Module, Debug)]
struct Model {
    gru: GruBlock,
    head: Linear,
}

impl Model {
    fn new(device: &Device) -> Self {
        Self {
            gru: GruBlockConfig::new(2, 16).init(device),
            head: LinearConfig::new(16, 1).init(device),
        }
    }

    /// `[N,T,2]` to `[N,1]`.
    fn forward(&self, x: Tensor<3>) -> Tensor<2> {
        let (_, state) = self.gru.forward(x, None);
        self.head.forward(state.squeeze_dim::<2>(0))
    }
}

/// Sequences of zeros and ones, and the mean of the differences.
fn batch(n: usize, device: &Device) -> (Tensor<3>, Tensor<2>) {
    let x = Tensor::<3>::random([n, T, 2], Distribution::Bernoulli(0.5), device);
    let counts = x.clone().mean_dim(1).squeeze_dim::<2>(1);
    let y = counts.clone().narrow(1, 0, 1) - counts.narrow(1, 1, 1);
    (x, y)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    device.seed(1);
    let mut model = Model::new(&device);
    let mut adam = AdamConfig::new().init();
    let mut first = None;
    let mut last = f32::INFINITY;
    for _ in 0..200 {
        let (x, y) = batch(32, &device);
        let loss = MseLoss::new().forward(model.forward(x), y, Reduction::Mean);
        last = loss.clone().into_scalar::<f32>();
        first.get_or_insert(last);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(0.01, model, gradients);
    }
    let first = first.expect("there is at least one step");
    println!("loss: first {first:.4}, last {last:.4}");
    assert!(last < 0.1 * first, "expected the loss to fall below a tenth, got {last} after {first}");

    // The loaded model gives the same results step by step.
    let plain = Device::flex();
    let path = std::env::temp_dir().join(format!("outside-{}.gru", std::process::id()));
    model.gru.save_with_config(&path)?;
    let again = GruBlock::from_file(&path, &plain)?;
    std::fs::remove_file(&path)?;
    let (x, _) = batch(4, &plain);
    let (_, expected) = model.valid().gru.forward(x.clone(), None);
    let mut state = None;
    for t in 0..T {
        let x_t = x.clone().narrow(1, t, 1).squeeze_dim::<2>(1);
        state = Some(again.step(x_t, state).1);
    }
    let difference = (state.expect("there is at least one step") - expected).abs().max();
    let difference = difference.into_scalar::<f32>();
    println!("step by step: largest difference {difference:.1e}");
    assert!(difference < 1e-5);

    // The same weights under PyTorch's names.
    let path = std::env::temp_dir().join(format!("outside-{}.safetensors", std::process::id()));
    pytorch::export(&again, "gru.")?.to_safetensors(&path)?;
    let dict = StateDict::from_safetensors(&path)?;
    std::fs::remove_file(&path)?;
    let config = pytorch::config(&dict, "gru.")?.with_batch_first(true);
    let imported = pytorch::import(&dict, "gru.", &config, &plain)?;
    let (y, _) = again.forward(x.clone(), None);
    let (same, _) = imported.forward(x, None);
    assert_eq!(same.into_data(), y.into_data());
    Ok(())
}
