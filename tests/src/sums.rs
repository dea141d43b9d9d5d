//! Bias gradients are sums over all rows and steps. In float32 their error must not grow with the number
//! of terms.

use burn::tensor::{DType, Device, Tensor};
use gru_op::{Checkpointing, GruSpec, GruWeights, SequenceOptions, gru_sequence_with};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    runs::{gradient, tensor},
};

const N: usize = 8;
const T: usize = 4096;
const H: usize = 8;

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    // The CPU kernels have their own sums.
    for backend in backends.iter().filter(|backend| backend.slow) {
        for (mode, checkpointing) in [
            ("speed", Checkpointing::KeepGates),
            ("lean", Checkpointing::Recompute),
        ] {
            let id = format!("sums/biases-{mode}/{}", backend.name);
            trials.push(backend.trial(id, move |device| biases(device, checkpointing)));
        }
    }
    trials
}

/// All rows are equal, so the rounding errors of their sum have one direction. Without `w_ih`, the
/// gradient of `b_ih` is the sum of the gradient of `x`.
fn biases(device: &Device, checkpointing: Checkpointing) -> Result<(), String> {
    let device = &device.clone().autodiff();
    let number = |k: usize| ((k * 37 + 11) % 17) as f64 / 16.0 - 0.5;
    let numbers = |len: usize| (0..len).map(number).collect::<Vec<_>>();
    let row = numbers(3 * H);
    let x: Tensor<3> = tensor(&row.repeat(N * T), [N, T, 3 * H], device, DType::F32);
    let x = x.require_grad();
    let vector = || -> Tensor<1> { tensor(&row, [3 * H], device, DType::F32).require_grad() };
    let (b_ih, b_hh) = (vector(), vector());
    let w_hh: Tensor<2> = tensor(&numbers(3 * H * H), [H, 3 * H], device, DType::F32);
    let weights = GruWeights::new(None, w_hh.require_grad())
        .with_b_ih(b_ih.clone())
        .with_b_hh(b_hh.clone());
    let options = SequenceOptions::new().checkpointing(checkpointing);
    let (y, _) = gru_sequence_with(x.clone(), &weights, &GruSpec::default(), options);
    let gradients = y.sum().backward();
    let d_x = gradient("x", &x, &gradients)?;
    let (d_ih, d_hh) = (
        gradient("b_ih", &b_ih, &gradients)?,
        gradient("b_hh", &b_hh, &gradients)?,
    );
    for column in 0..3 * H {
        let terms = d_x.iter().skip(column).step_by(3 * H);
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), d| (sum + d, size + d.abs()));
        let check = |name: &str, got: f64| {
            let off = (got - sum).abs() / size / f64::from(f32::EPSILON);
            if off <= 32.0 {
                Ok(())
            } else {
                Err(format!(
                    "{name}[{column}]: the error is {off:.0} ε of its terms"
                ))
            }
        };
        check("b_ih", d_ih[column])?;
        // In columns n, b_hh has a different gradient.
        if column < 2 * H {
            check("b_hh", d_hh[column])?;
        }
    }
    Ok(())
}
