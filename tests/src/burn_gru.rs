//! Conversion of Burn's own `Gru` and `BiGru`: same outputs, same gradients.

use super::{
    backends::TestBackend,
    conformance::text,
    runs::{self, expect, loss, random, values},
};
use burn::{
    module::Module,
    nn::{
        EluConfig, HardSigmoidConfig, LeakyReluConfig, Linear, SoftplusConfig,
        ThresholdedReluConfig,
        activation::ActivationConfig,
        gru::{BiGruConfig, Gru, GruConfig},
    },
    tensor::{Device, Gradients, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig, GruError, GruLayer};
use gru_testkit::{
    close::{Tolerance, close},
    random::numbers,
};
use libtest_mimic::Trial;

const PROBLEM: (usize, usize, usize, usize) = (3, 5, 4, 6);

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let (_, _, i, h) = PROBLEM;
    let plain = |bias, reset_after| GruConfig::new(i, h, bias).with_reset_after(reset_after);
    let configs = [
        ("after", plain(true, true)),
        ("before", plain(true, false)),
        ("after-nobias", plain(false, true)),
        ("before-nobias", plain(false, false)),
        ("clip", plain(true, true).with_clip(Some(0.3))),
        (
            "activations",
            plain(true, false)
                .with_gate_activation(ActivationConfig::HardSigmoid(HardSigmoidConfig::new()))
                .with_hidden_activation(ActivationConfig::Softsign),
        ),
    ];
    let mut trials = Vec::new();
    for &backend in backends {
        let tolerance = backend.tolerance(Tolerance::F32);
        for (name, config) in &configs {
            let config = config.clone();
            let id = format!("burn_gru/{name}/{}", backend.name);
            trials.push(backend.trial(id, move |device| one_direction(config, device, tolerance)));
        }
        for batch_first in [true, false] {
            let order = if batch_first { "batch" } else { "time" };
            let id = format!("burn_gru/bidirectional-{order}/{}", backend.name);
            trials.push(backend.trial(id, move |device| {
                both_directions(batch_first, device, tolerance)
            }));
        }
    }
    trials.push(Trial::test("burn_gru/frozen", || {
        let device = Device::flex().autodiff();
        let mut gru = BiGruConfig::new(2, 3, true).init(&device);
        gru.forward = gru.forward.freeze();
        let gates = [&mut gru.reverse.reset_gate, &mut gru.reverse.update_gate];
        for gate in gates.into_iter().chain([&mut gru.reverse.new_gate]) {
            gate.hidden_transform = gate.hidden_transform.clone().freeze();
        }
        gru.reverse.new_gate.input_transform = gru.reverse.new_gate.input_transform.freeze();
        let block = GruBlock::try_from(gru).map_err(text)?;
        let trained = |layer: &GruLayer| {
            let biases = [&layer.b_ih, &layer.b_hh].map(|bias| bias.as_ref().unwrap());
            let [b_ih, b_hh] = biases.map(|bias| bias.is_require_grad());
            let weights = [&layer.w_ih, &layer.w_hh].map(|weight| weight.is_require_grad());
            [weights, [b_ih, b_hh]]
        };
        let trained = [0, 1].map(|k| trained(&block.layers[k]));
        let expected = [[[false; 2]; 2], [[true, false]; 2]];
        Ok(expect("gradients", trained, expected)?)
    }));
    trials.push(Trial::test("burn_gru/directions-differ", || {
        let device = Device::flex();
        let mut gru = BiGruConfig::new(2, 3, true).init(&device);
        gru.reverse.clip = Some(0.5);
        let block = GruBlock::try_from(gru).map_err(text)?;
        let clips = [0, 1].map(|k| block.layers[k].spec.clip_state);
        Ok(expect("clips", clips, [None, Some(0.5)])?)
    }));
    trials.push(Trial::test("burn_gru/configurations", || {
        Ok(configurations()?)
    }));
    trials.push(Trial::test("burn_gru/unsupported-modules", || {
        Ok(unsupported_modules()?)
    }));
    trials
}

/// The configuration of a converted module equals the converted configuration: every activation with every combination of
/// the other options.
fn configurations() -> Result<(), String> {
    let device = Device::flex();
    let all = [
        ActivationConfig::Identity,
        ActivationConfig::Relu,
        ActivationConfig::Sigmoid,
        ActivationConfig::Tanh,
        ActivationConfig::Softsign,
        LeakyReluConfig::new().with_negative_slope(0.2).into(),
        HardSigmoidConfig::new().with_alpha(0.3).into(),
        SoftplusConfig::new().into(),
        EluConfig::new().with_alpha(0.7).into(),
        ThresholdedReluConfig::new().with_alpha(0.3).into(),
    ];
    for k in 0..all.len() * 16 {
        let (k, [bias, reset_after, clip, batch_first]) =
            (k / 16, [1, 2, 4, 8].map(|bit| k & bit != 0));
        let clip = clip.then_some(0.5);
        let (gate, hidden) = (&all[k], &all[(k + 3) % all.len()]);
        let one = GruConfig::new(3, 5, bias)
            .with_reset_after(reset_after)
            .with_gate_activation(gate.clone())
            .with_hidden_activation(hidden.clone())
            .with_clip(clip);
        let two = BiGruConfig::new(3, 5, bias)
            .with_reset_after(reset_after)
            .with_batch_first(batch_first)
            .with_gate_activation(gate.clone())
            .with_hidden_activation(hidden.clone())
            .with_clip(clip);
        for (block, config) in [
            (one.init(&device).try_into(), GruBlockConfig::try_from(&one)),
            (two.init(&device).try_into(), GruBlockConfig::try_from(&two)),
        ] {
            let block: GruBlock = block.map_err(|error: GruError| error.to_string())?;
            let config = config.map_err(|error| error.to_string())?;
            let dict = gru_convert::burn_nn::export(&block, "").map_err(text)?;
            let read = gru_convert::burn_nn::import(&dict, "", &config, &device).map_err(text)?;
            for block in [&block, &read] {
                let equal = block.check_config(&config);
                equal.map_err(|error| error.to_string())?;
            }
            expect("bias", block.config().bias, config.bias)?;
            expect("batch_first", block.batch_first, config.batch_first)?;
        }
    }
    Ok(())
}

/// Burn modules that a block cannot represent: conversion returns an error that names the field and does
/// not panic.
fn unsupported_modules() -> Result<(), String> {
    let device = Device::flex();
    let one = || GruConfig::new(2, 3, true);
    let hidden = |activation| one().with_hidden_activation(activation).init(&device);
    let steep = LeakyReluConfig::new().with_negative_slope(f64::INFINITY);
    let undefined = HardSigmoidConfig::new().with_alpha(f64::NAN);
    let two = BiGruConfig::new(2, 3, true).with_clip(Some(-1.0));
    let gelu = "candidate gate: activation Gelu is not supported";
    fails(one().with_clip(Some(0.0)).init(&device), "clip_state")?;
    fails(hidden(steep.into()), "candidate activation")?;
    fails(hidden(ActivationConfig::Gelu), "gate: activation Gelu(")?;
    let gate = one().with_gate_activation(undefined.into());
    fails(gate.init(&device), "reset activation")?;
    fails(two.init(&device), "clip_state")?;
    let config = one().with_hidden_activation(ActivationConfig::Gelu);
    runs::fails(GruBlockConfig::try_from(&config), gelu)
}

fn fails<M>(module: M, says: &str) -> Result<(), String>
where
    GruBlock: TryFrom<M, Error = GruError>,
{
    runs::fails(GruBlock::try_from(module), says)
}

fn one_direction(config: GruConfig, device: &Device, tolerance: Tolerance) -> Result<(), String> {
    let (n, t, i, h) = PROBLEM;
    let device = device.clone().autodiff();
    let d_y = numbers("d_y", n * t * h, 1.0);
    let theirs = config.init(&device);
    let ours = GruBlock::try_from(theirs.clone()).map_err(|e| e.to_string())?;
    let leaf = || random::<3>("x", [n, t, i], &device);
    let h0 = || random::<2>("h0", [n, h], &device);

    let (x_1, h0_1) = (leaf().require_grad(), h0().require_grad());
    let y_1 = theirs.forward(x_1.clone(), Some(h0_1.clone()));
    let d_1 = loss(&y_1, &d_y).backward();

    let (x_2, h0_2) = (leaf().require_grad(), h0().require_grad());
    let (y_2, last) = ours.forward(x_2.clone(), Some(h0_2.clone().unsqueeze_dim(0)));
    let d_2 = loss(&y_2, &d_y).backward();

    close("y", &values(y_2), &values(y_1.clone()), tolerance.forward)?;
    let last_1 = values(y_1.narrow(1, t - 1, 1));
    close("final state", &values(last), &last_1, tolerance.forward)?;
    same_gradient("x", &x_2, &d_2, x_1.grad(&d_1), tolerance)?;
    same_gradient("h0", &h0_2, &d_2, h0_1.grad(&d_1), tolerance)?;
    same_weights(&ours.layers[0], &d_2, &theirs, &d_1, tolerance)
}

fn both_directions(batch_first: bool, device: &Device, tolerance: Tolerance) -> Result<(), String> {
    let (n, t, i, h) = PROBLEM;
    let device = device.clone().autodiff();
    let d_y = numbers("d_y", n * t * 2 * h, 1.0);
    let d_h_t = numbers("d_h_t", n * 2 * h, 1.0);
    let theirs = BiGruConfig::new(i, h, true)
        .with_batch_first(batch_first)
        .init(&device);
    let ours = GruBlock::try_from(theirs.clone()).map_err(|e| e.to_string())?;
    let shape = if batch_first { [n, t, i] } else { [t, n, i] };
    let x = random::<3>("x", shape, &device);
    let h0 = random::<3>("h0", [2, n, h], &device);

    let (x_1, x_2) = (x.clone().require_grad(), x.require_grad());
    let (y_1, s_1) = theirs.forward(x_1.clone(), Some(h0.clone()));
    let d_1 = (loss(&y_1, &d_y) + loss(&s_1, &d_h_t)).backward();
    let (y_2, s_2) = ours.forward(x_2.clone(), Some(h0));
    let d_2 = (loss(&y_2, &d_y) + loss(&s_2, &d_h_t)).backward();

    close("y", &values(y_2), &values(y_1), tolerance.forward)?;
    close("state", &values(s_2), &values(s_1), tolerance.forward)?;
    same_gradient("x", &x_2, &d_2, x_1.grad(&d_1), tolerance)?;
    for (layer, gru) in ours.layers.iter().zip([&theirs.forward, &theirs.reverse]) {
        same_weights(layer, &d_2, gru, &d_1, tolerance)?;
    }
    Ok(())
}

/// Compares Burn's six `Linear`s with our two matrices and two biases.
fn same_weights(
    ours: &GruLayer,
    d_ours: &Gradients,
    theirs: &Gru,
    d_theirs: &Gradients,
    tolerance: Tolerance,
) -> Result<(), String> {
    let gates = [&theirs.reset_gate, &theirs.update_gate, &theirs.new_gate];
    let sides: [(&str, [&Linear; 3]); 2] = [
        ("ih", gates.map(|gate| &gate.input_transform)),
        ("hh", gates.map(|gate| &gate.hidden_transform)),
    ];
    for ((side, linears), (w, b)) in sides
        .into_iter()
        .zip([(&ours.w_ih, &ours.b_ih), (&ours.w_hh, &ours.b_hh)])
    {
        let expected = linears.map(|l| {
            l.weight
                .grad(d_theirs)
                .expect("Burn's weight has a gradient")
        });
        let expected = Tensor::cat(expected.to_vec(), 1);
        same_gradient(
            &format!("w_{side}"),
            &w.val(),
            d_ours,
            Some(expected),
            tolerance,
        )?;
        let biases: Option<Vec<Tensor<1>>> = linears
            .iter()
            .map(|l| l.bias.as_ref()?.grad(d_theirs))
            .collect();
        match (b, biases) {
            (Some(b), Some(biases)) => {
                let expected = Some(Tensor::cat(biases, 0));
                same_gradient(&format!("b_{side}"), &b.val(), d_ours, expected, tolerance)?;
            }
            (None, None) => {}
            _ => {
                return Err(format!(
                    "b_{side}: expected a bias on both sides or on neither"
                ));
            }
        }
    }
    Ok(())
}

fn same_gradient<const D: usize>(
    name: &str,
    leaf: &Tensor<D>,
    gradients: &Gradients,
    expected: Option<Tensor<D>>,
    tolerance: Tolerance,
) -> Result<(), String> {
    let got = runs::gradient(name, leaf, gradients)?;
    let expected = expected.ok_or(format!(
        "{name}: expected a gradient of Burn's parameter, got none"
    ))?;
    close(
        &format!("gradient of {name}"),
        &got,
        &values(expected),
        tolerance.gradient,
    )
}
