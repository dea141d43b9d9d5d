//! Training in float16 and bfloat16.

use super::{H, I, N, T, expect, input, runs, values};
use crate::backends::TestBackend;
use burn::{
    module::{Module, ModuleMapper, Param},
    optim::{GradientsParams, SgdConfig},
    tensor::{DType, Device, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig};
use gru_testkit::{
    close::{Tolerance, close},
    inputs::Inputs,
    problem::Problem,
};
use libtest_mimic::{Completion, Trial};

/// Mean squared error of the outputs for targets that a GRU can reach.
fn loss(block: &GruBlock, x: Tensor<3>) -> Tensor<1> {
    let inputs = Inputs::random(&Problem::new(N, T, I, H));
    let y = block.forward(x, None).0;
    let targets: Vec<f64> = inputs.d_y.iter().map(|target| target.tanh()).collect();
    let targets = runs::tensor(&targets, [N, T, H], &y.device(), y.dtype());
    (y - targets).square().mean()
}

/// A block with the same weights in each run.
fn fixed(device: &Device) -> GruBlock {
    let inputs = Inputs::random(&Problem::new(N, T, I, H));
    let matrix =
        |w: &[f64], rows| Param::from_tensor(runs::tensor(w, [rows, 3 * H], device, DType::F32));
    let vector = |b: &Option<Vec<f64>>| {
        let b = b.as_deref()?;
        Some(Param::from_tensor(runs::tensor(
            b,
            [3 * H],
            device,
            DType::F32,
        )))
    };
    let mut block = GruBlockConfig::new(I, H).init(device);
    let layer = &mut block.layers[0];
    layer.w_ih = matrix(&inputs.w_ih, I);
    layer.w_hh = matrix(&inputs.w_hh, H);
    layer.b_ih = vector(&inputs.b_ih);
    layer.b_hh = vector(&inputs.b_hh);
    block
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
