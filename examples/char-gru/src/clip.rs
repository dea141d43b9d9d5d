//! Gradient clipping by the global norm.
//!
//! Burn's own clipping bounds each parameter separately, which changes the direction of the step. This function scales
//! all parameters by one factor, as PyTorch's `clip_grad_norm_` does.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// Avoids a division by zero, with the value that PyTorch uses.
const EPSILON: f64 = 1e-6;

/// Scales the gradients of `model` to a norm of at most `max_norm`. Returns the original norm.
///
/// The function reads nothing back, so a GPU does not wait.
///
/// # Panics
/// If no parameter has a gradient.
pub fn clip_norm<M: Module>(
    model: &M,
    mut gradients: GradientsParams,
    max_norm: f64,
) -> (GradientsParams, Tensor<1>) {
    let mut squares = Squares {
        gradients: &gradients,
        sums: Vec::new(),
    };
    model.visit(&mut squares);
    let norm = Tensor::cat(squares.sums, 0).sum().sqrt();

    let factor = (norm.clone() + EPSILON).recip() * max_norm;
    model.visit(&mut Scale {
        gradients: &mut gradients,
        factor: factor.clamp_max(1.0),
    });
    (gradients, norm)
}

struct Squares<'a> {
    gradients: &'a GradientsParams,
    sums: Vec<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = self.gradients.get::<D>(param.id);
        self.sums.extend(gradient.map(|g| g.square().sum()));
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: Tensor<1>,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            let scaled = gradient * self.factor.clone().unsqueeze();
            self.gradients.register(param.id, scaled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::nn::LinearConfig;
    use burn::tensor::Device;

    #[test]
    fn large_gradients_are_scaled_together() {
        let device = Device::flex().autodiff();
        let model = LinearConfig::new(2, 1).init(&device);
        // dy/dw = x = (3, 4) and dy/db = 1 have a norm of √26.
        let x = Tensor::<2>::from_floats([[3.0, 4.0]], &device);
        for (max_norm, expected) in [(2.0, 2.0), (6.0, 26f64.sqrt())] {
            let gradients = model.forward(x.clone()).backward();
            let gradients = GradientsParams::from_grads(gradients, &model);
            let (gradients, before) = clip_norm(&model, gradients, max_norm);
            let (_, after) = clip_norm(&model, gradients, 100.0);
            let [before, after]: [f64; 2] = [before.into_scalar(), after.into_scalar()];
            assert!((before - 26f64.sqrt()).abs() < 1e-5, "{before}");
            assert!((after - expected).abs() < 1e-5, "{after}");
        }
    }
}
