//! Training in float16 and bfloat16.

use super::{H, I, N, T, expect, input, runs, values};
use crate::backends::TestBackend;
use burn::{
    module::{Module, ModuleMapper, Param},
    optim::{GradientsParams, SgdConfig},
    tensor::{DType, Device, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig, GruWeights};
use gru_testkit::close::{Tolerance, close};
use libtest_mimic::{Completion, Trial};

/// Mean squared error of the outputs for targets that a GRU can reach.
fn loss(block: &GruBlock, x: Tensor<3>) -> Tensor<1> {
    let y = block.forward(x, None).0;
    let targets = runs::random::<3>("targets", [N, T, H], &y.device());
    let targets = targets.tanh().cast(y.dtype());
    (y - targets).square().mean()
}

/// A block with the same weights in each run.
fn fixed(device: &Device) -> GruBlock {
    let scaled = |name: &str, shape: [usize; 2]| runs::random::<2>(name, shape, device) * 0.5;
    let bias = |name: &str| scaled(name, [1, 3 * H]).reshape([3 * H]);
    let weights = GruWeights::new(scaled("w_ih", [I, 3 * H]), scaled("w_hh", [H, 3 * H]))
        .with_b_ih(bias("b_ih"))
        .with_b_hh(bias("b_hh"));
    let block = GruBlockConfig::new(I, H).init_with(vec![weights]);
    block.expect("the shapes match the configuration")
}

/// The values of each parameter of the only layer, and of its gradient.
fn numbers(block: &GruBlock, gradients: &GradientsParams) -> Vec<[Vec<f64>; 2]> {
    let layer = &block.layers[0];
    let matrix = |w: &Param<Tensor<2>>| {
        let gradient = gradients.get::<2>(w.id).expect("the parameter is tracked");
        [values(w.val()), values(gradient)]
    };
    let vector = |b: &Option<Param<Tensor<1>>>| {
        let b = b.as_ref().expect("a bias is the default");
        let gradient = gradients.get::<1>(b.id).expect("the parameter is tracked");
        [values(b.val()), values(gradient)]
    };
    vec![
        matrix(&layer.w_ih),
        matrix(&layer.w_hh),
        vector(&layer.b_ih),
        vector(&layer.b_hh),
    ]
}

/// Trials of training in float16 and bfloat16, ignored on backends that do not compute in these types.
pub fn half(backend: TestBackend) -> Vec<Trial> {
    let dtypes = [
        ("f16", DType::F16, Tolerance::F16),
        ("bf16", DType::BF16, Tolerance::BF16),
    ];
    let trial = |(name, dtype, tolerance): (&str, DType, Tolerance)| {
        let id = format!("user/trains-in-{name}/{}", backend.name);
        let reason = format!("{} does not compute in {name}", backend.name);
        backend.ignorable_trial(id, move |device| {
            if !device.supports_dtype(dtype) {
                return Ok(Completion::ignored_with(reason));
            }
            trains(device, dtype, tolerance)?;
            Ok(Completion::Completed)
        })
    };
    dtypes.map(trial).into()
}

/// A block cast to half precision. Its first gradients equal the float64 gradients of the same rounded
/// values, and its loss falls.
fn trains(device: &Device, dtype: DType, tolerance: Tolerance) -> Result<(), String> {
    let device = device.clone().autodiff();
    let mut block = fixed(&device).map(&mut Cast(dtype));
    let x = input(&device).cast(dtype);
    let wide = block.clone().map(&mut Cast(DType::F64));
    let exact = loss(&wide, x.clone().cast(DType::F64)).backward();
    let exact = numbers(&wide, &GradientsParams::from_grads(exact, &wide));
    let mut losses = Vec::new();
    for step in 0..60 {
        let loss = loss(&block, x.clone());
        expect("dtype of the loss", loss.dtype(), dtype)?;
        losses.push(values(loss.clone())[0]);
        let gradients = GradientsParams::from_grads(loss.backward(), &block);
        if step == 0 {
            let got = numbers(&block, &gradients);
            for (k, ([_, got], [_, exact])) in got.iter().zip(&exact).enumerate() {
                let name = format!("gradient of parameter {k}");
                close(&name, got, exact, tolerance.gradient)?;
            }
        }
        block = SgdConfig::new().init().step(1.0, block, gradients);
    }
    expect(
        "dtype of a parameter",
        block.layers[0].w_hh.val().dtype(),
        dtype,
    )?;
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    if last < 0.7 * first {
        Ok(())
    } else {
        Err(format!("expected a smaller loss, got {last} after {first}"))
    }
}

struct Cast(DType);

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        // A new leaf, not the result of a tracked cast.
        param.map(|tensor| tensor.detach().cast(self.0).detach().require_grad())
    }
}
