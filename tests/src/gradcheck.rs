//! Gradients of the block by finite differences.

use super::backends::TestBackend;
use burn::tensor::{DType, Device, Tensor};
use burn_gradcheck::GradCheck;
use gru_op::{GruBlockConfig, GruWeights, Reset, SequenceOptions};
use libtest_mimic::Trial;

/// On the backends with float64.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let backends = backends.iter().filter(|backend| backend.float64);
    let of = |backend: &TestBackend| {
        let id = format!("gradcheck/block/{}", backend.name);
        backend.trial(id, block)
    };
    backends.map(of).collect()
}

/// Positive and negative values, no zeros.
fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let number = |k: usize| ((k * 37 + 11) % 17) as f64 / 8.0 - 1.03;
    let values: Vec<f64> = (0..shape.iter().product()).map(number).collect();
    super::runs::tensor(&values, shape, device, DType::F64)
}

/// A whole block: bidirectional layers with lengths and starts, its input and its states.
fn block(device: &Device) -> Result<(), String> {
    let (i, h) = (3, 4);
    let config = GruBlockConfig::new(i, h)
        .with_num_layers(2)
        .with_bidirectional(true);
    let weights = |inputs: usize, scale: f64| {
        GruWeights::new(
            numbers([inputs, 3 * h], device) * scale,
            numbers([h, 3 * h], device) * scale,
        )
        .with_b_ih(numbers([3 * h], device) * scale)
        .with_b_hh(numbers([3 * h], device) * -scale)
    };
    for config in [config.clone(), config.with_reset(Reset::BeforeMatmul)] {
        let layers = vec![
            weights(i, 0.5),
            weights(i, -0.3),
            weights(2 * h, 0.4),
            weights(2 * h, -0.2),
        ];
        let block = config.init_with(layers).map_err(|e| e.to_string())?;
        let report = GradCheck::new()
            .input("x", numbers([2, 3, i], device))
            .input("state", numbers([4, 2, h], device))
            .input("start_state", numbers([4, 1, h], device))
            .check(|at| {
                let starts = [[false, true, false], [true, false, false]];
                let options = SequenceOptions::new()
                    .state(at.get("state"))
                    .starts(Tensor::from_data(starts, &at.get::<3>("x").device()))
                    .start_state(at.get("start_state"))
                    .lengths(&[3, 1]);
                let (y, state) = block.forward_with(at.get("x"), options);
                Tensor::cat(vec![y.reshape([-1]), state.reshape([-1])], 0)
            });
        if !report.passed() {
            return Err(format!("expected to pass:\n{report}"));
        }
    }
    Ok(())
}
