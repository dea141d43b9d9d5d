//! What `#[derive(Module)]` adds to a block: gradients on and off, other devices, adapters.

use super::{H, I, N, Test, equal, expect, input, outputs, values};
use crate::backends::other_device;
use burn::{
    module::{Lora, Module},
    nn::DropoutConfig,
    optim::GradientsParams,
    tensor::{Device, Distribution, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig};
use gru_testkit::close::{Tolerance, close};

pub const TESTS: &[(&str, Test)] = &[
    ("no-grad", no_grad),
    ("freeze-and-unfreeze", freeze_and_unfreeze),
    ("to-device", to_device),
    ("new-on-another-device", new_on_another_device),
    ("plain-input", plain_input),
    ("tracked-state", tracked_state),
    ("lora", lora),
];

/// Two layers with noise, so that training mode is visible.
fn block(device: &Device) -> GruBlock {
    GruBlockConfig::new(I, H)
        .with_num_layers(2)
        .with_dropout(0.5)
        .init(device)
}

/// The number of parameters with a gradient, out of eight.
fn tracked(block: &GruBlock, device: &Device) -> usize {
    // The input is tracked so that backward always runs.
    let y = block.forward(input(device).require_grad(), None).0;
    GradientsParams::from_grads(y.sum().backward(), block).len()
}

fn is_noisy(block: &GruBlock, device: &Device) -> bool {
    outputs(block, device) != outputs(block, device)
}

/// `no_grad` removes gradients and keeps noise.
fn no_grad(device: &Device) -> Result<(), String> {
    let device = device.clone().autodiff();
    let block = block(&device);
    expect("gradients", tracked(&block, &device), 8)?;
    let block = block.no_grad();
    expect("gradients without", tracked(&block, &device), 0)?;
    expect("noise without", is_noisy(&block, &device), true)?;
    let one_layer = GruBlockConfig::new(I, H).with_dropout(0.5).init(&device);
    let noise = is_noisy(&one_layer, &device);
    expect("noise after the last layer", noise, false)?;
    let block = block.set_require_grad(true);
    expect("gradients again", tracked(&block, &device), 8)
}

/// `freeze` removes gradients and noise, `unfreeze` restores them.
fn freeze_and_unfreeze(device: &Device) -> Result<(), String> {
    let device = device.clone().autodiff();
    let mut block = block(&device);
    for layer in &mut block.layers {
        (layer.recurrent_dropout, layer.zoneout) = (0.5, 0.5);
    }
    let block = block.freeze();
    expect("gradients, frozen", tracked(&block, &device), 0)?;
    expect("noise, frozen", is_noisy(&block, &device), false)?;
    let block = block.valid().train();
    expect(
        "gradients of a frozen block in training",
        tracked(&block, &device),
        0,
    )?;
    let block = block.unfreeze();
    expect("gradients, unfrozen", tracked(&block, &device), 8)?;
    expect("noise, unfrozen", is_noisy(&block, &device), true)?;
    expect("noise, valid", is_noisy(&block.valid(), &device), false)
}

/// To the other CPU backend and back.
fn to_device(device: &Device) -> Result<(), String> {
    let others = [Device::flex(), other_device()];
    let block = block(device);
    let expected = outputs(&block, device);
    for other in others {
        let moved = block.clone().to_device(&other);
        expect("device", moved.devices(), vec![other.clone()])?;
        let there = outputs(&moved, &other);
        close("outputs there", &there, &expected, Tolerance::F32.forward)?;
        let back = moved.to_device(device);
        equal("outputs back", &outputs(&back, device), &expected)?;
    }
    Ok(())
}

/// As with Burn's modules, the parameters of a new block are leaves after a move.
fn new_on_another_device(device: &Device) -> Result<(), String> {
    let device = device.clone().autodiff();
    let block = block(&device).to_device(&device);
    expect("gradients", tracked(&block, &device), 8)
}

/// A batch without autodiff, so long that a block in inference would prepare itself.
fn long_input(device: &Device) -> Tensor<3> {
    let rows = Tensor::<3>::random([N, 128, I], Distribution::Default, device);
    assert!(N * 128 * H > block(device).num_params());
    rows
}

/// Data without autodiff trains a block with autodiff, in short and long batches. It has gradients and noise.
fn plain_input(device: &Device) -> Result<(), String> {
    let (plain, device) = (device, &device.clone().autodiff());
    let mut exact = block(device);
    exact.dropout = DropoutConfig::new(0.0).init();
    for x in [input(plain), long_input(plain)] {
        let gradients = |x| exact.forward(x, None).0.powi_scalar(2).sum().backward();
        let got = GradientsParams::from_grads(gradients(x.clone()), &exact);
        let expected = Tensor::from_inner(x.clone());
        let expected = GradientsParams::from_grads(gradients(expected), &exact);
        expect("gradients", got.len(), 8)?;
        for layer in &exact.layers {
            for id in [layer.w_ih.id, layer.w_hh.id] {
                let [got, expected] = [&got, &expected].map(|all| all.get::<2>(id));
                let [got, expected] = [got, expected].map(|d| d.expect("each weight has one"));
                equal("gradient", &values(got), &values(expected))?;
            }
        }
        let noisy = block(device);
        let run = || values(noisy.forward(x.clone(), None).0);
        expect("noise", run() != run(), true)?;
        let quiet = noisy.valid();
        let run = || values(quiet.forward(x.clone(), None).0);
        expect("noise of inference", run() != run(), false)?;
    }
    Ok(())
}

/// A learned initial state has a gradient also where everything else is constant, in short and long batches.
fn tracked_state(device: &Device) -> Result<(), String> {
    let block = block(device);
    for x in [input(device), long_input(device)] {
        let state = Tensor::<3>::zeros([2, N, H], &device.clone().autodiff()).require_grad();
        let (y, _) = block.forward(x, Some(state.clone()));
        let gradients = y.sum().backward();
        let gradient = state.grad(&gradients).expect("the state is a leaf");
        expect("gradient", values(gradient).iter().any(|d| *d != 0.0), true)?;
    }
    Ok(())
}

/// Adapters have no effect at first, are the only trained parameters, and can be merged into the
/// weights.
fn lora(device: &Device) -> Result<(), String> {
    let device = device.clone().autodiff();
    let block = GruBlockConfig::new(I, H).with_num_layers(2).init(&device);
    let expected = outputs(&block, &device);
    let adapted = block.apply_lora(Lora::new(2, 4.0));
    equal("outputs", &outputs(&adapted, &device), &expected)?;
    let y = adapted.forward(input(&device), None).0;
    let gradients = GradientsParams::from_grads(y.sum().backward(), &adapted);
    let base = adapted.layers[0].w_hh.id;
    expect(
        "gradient of the base",
        gradients.get::<2>(base).is_some(),
        false,
    )?;
    if gradients.is_empty() {
        return Err("expected gradients of the adapters".into());
    }
    let folded = adapted.valid().materialize();
    // Inference packs the weights, and training reads them in place in a short call.
    close(
        "outputs, folded",
        &outputs(&folded, &device.inner()),
        &expected,
        Tolerance::F32.forward,
    )
}
