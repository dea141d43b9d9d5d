//! Gradients of the block and of the operator by finite differences.

use super::backends::TestBackend;
use burn::tensor::{DType, Device, Tensor};
use burn_gradcheck::{GradCheck, Report};
use gru_op::{
    Activation, Activations, GruBlockConfig, GruSpec, GruWeights, Reset, SequenceOptions, Update,
    gru_sequence_with,
};
use libtest_mimic::Trial;

type Test = fn(&Device) -> Result<(), String>;

const TESTS: &[(&str, Test)] = &[("block", block), ("sequence", sequence)];

/// On the backends with float64.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in backends.iter().filter(|backend| backend.float64) {
        for &(name, test) in TESTS {
            let id = format!("gradcheck/{name}/{}", backend.name);
            trials.push(backend.trial(id, test));
        }
    }
    trials
}

/// Positive and negative values, no zeros.
fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let number = |k: usize| ((k * 37 + 11) % 17) as f64 / 8.0 - 1.03;
    let values: Vec<f64> = (0..shape.iter().product()).map(number).collect();
    super::runs::tensor(&values, shape, device, DType::F64)
}

fn passed(report: &Report) -> Result<(), String> {
    if report.passed() {
        Ok(())
    } else {
        Err(format!("expected to pass:\n{report}"))
    }
}

/// A whole block: bidirectional layers with lengths, its input and its state.
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
            .check(|at| {
                let options = SequenceOptions::new()
                    .state(at.get("state"))
                    .lengths(&[3, 1]);
                let (y, state) = block.forward_with(at.get("x"), options);
                Tensor::cat(vec![y.reshape([-1]), state.reshape([-1])], 0)
            });
        passed(&report)?;
    }
    Ok(())
}

/// The operator with every option, and an activation with a kink.
fn sequence(device: &Device) -> Result<(), String> {
    let activations = Activations {
        candidate: Activation::Softsign,
        ..Activations::default()
    };
    let (n, t, i, h) = (2, 3, 3, 4);
    for (reset, update) in [
        (Reset::AfterMatmul, Update::Takes),
        (Reset::BeforeMatmul, Update::Keeps),
    ] {
        let spec = GruSpec::default()
            .with_reset(reset)
            .with_update(update)
            .with_activations(activations);
        let report = GradCheck::new()
            .input("x", numbers([n, t, i], device))
            .input("h0", numbers([n, h], device))
            .input("w_ih", numbers([i, 3 * h], device) * 0.5)
            .input("w_hh", numbers([h, 3 * h], device) * 0.5)
            .input("b_ih", numbers([3 * h], device))
            .input("b_hh", numbers([3 * h], device))
            .constant("mask", numbers([n, h], device).abs())
            .constant("zoneout", numbers([n, t, 1], device).abs())
            .check(|at| {
                let weights = GruWeights::new(at.get("w_ih"), at.get("w_hh"))
                    .with_b_ih(at.get("b_ih"))
                    .with_b_hh(at.get("b_hh"));
                let options = SequenceOptions::new()
                    .state(at.get("h0"))
                    .recurrent_mask(at.get::<2>("mask"))
                    .zoneout(at.get::<3>("zoneout"))
                    .lengths(&[2, 3]);
                let (y, last) = gru_sequence_with(at.get("x"), &weights, &spec, options);
                Tensor::cat(vec![y.reshape([-1]), last.reshape([-1])], 0)
            });
        passed(&report)?;
    }
    Ok(())
}
