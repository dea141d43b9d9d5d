//! What `#[derive(Module)]` adds to a block: counts, gradients on and off, forks, other devices,
//! adapters.

use super::{H, I, Test, equal, expect, input, outputs};
use burn::{
    module::{Lora, Module, ParamGroup},
    optim::GradientsParams,
    tensor::{Device, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig};
use gru_testkit::close::{Tolerance, close};

pub const TESTS: &[(&str, Test)] = &[
    ("num-params", num_params),
    ("no-grad", no_grad),
    ("freeze-and-unfreeze", freeze_and_unfreeze),
    ("freeze-group", freeze_group),
    ("fork", fork),
    ("to-device", to_device),
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

fn num_params(device: &Device) -> Result<(), String> {
    let config = GruBlockConfig::new(5, 9)
        .with_num_layers(2)
        .with_bidirectional(true);
    // Weights of each direction: (I + H)·3H, then (2H + H)·3H. Two biases of 3H.
    let weights = 2 * ((5 + 9) * 27 + (18 + 9) * 27);
    let biases = 4 * 2 * 27;
    for (bias, expected) in [(true, weights + biases), (false, weights)] {
        let block = config.clone().with_bias(bias).init(device);
        expect("before use", block.num_params(), expected)?;
        block.forward(Tensor::ones([1, 1, 5], device), None);
        expect("after use", block.num_params(), expected)?;
    }
    Ok(())
}

/// `no_grad` removes gradients and keeps noise.
fn no_grad(device: &Device) -> Result<(), String> {
    let device = device.clone().autodiff();
    let block = block(&device);
    expect("gradients", tracked(&block, &device), 8)?;
    let block = block.no_grad();
    expect("gradients without", tracked(&block, &device), 0)?;
    expect("noise without", is_noisy(&block, &device), true)?;
    let block = block.set_require_grad(true);
    expect("gradients again", tracked(&block, &device), 8)
}

/// `freeze` removes gradients and noise, `unfreeze` restores them.
fn freeze_and_unfreeze(device: &Device) -> Result<(), String> {
    let device = device.clone().autodiff();
    let block = block(&device).freeze();
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

fn freeze_group(device: &Device) -> Result<(), String> {
    let device = device.clone().autodiff();
    let of_first = || ParamGroup::from_predicate("layers.0.");
    let block = block(&device).freeze_group(of_first());
    let y = block.forward(input(&device), None).0;
    let gradients = GradientsParams::from_grads(y.sum().backward(), &block);
    let has = |k: usize| {
        let layer = &block.layers[k];
        let bias = layer.b_hh.as_ref().expect("a bias is the default").id;
        [
            gradients.get::<2>(layer.w_ih.id).is_some(),
            gradients.get::<2>(layer.w_hh.id).is_some(),
            gradients.get::<1>(bias).is_some(),
        ]
    };
    expect("first layer", has(0), [false; 3])?;
    expect("second layer", has(1), [true; 3])?;
    let block = block.unfreeze_group(ParamGroup::from_path("layers.0.w_hh"));
    expect("one more", tracked(&block, &device), 5)
}

/// A fork gives the same results and trains independently.
fn fork(device: &Device) -> Result<(), String> {
    let device = device.clone().autodiff();
    let block = GruBlockConfig::new(I, H).with_num_layers(2).init(&device);
    let forked = block.clone().fork(&device);
    let [first, second] = [&block, &forked].map(|block| outputs(block, &device));
    equal("outputs", &second, &first)?;
    expect("gradients of the fork", tracked(&forked, &device), 8)?;
    // Parameters that are initialized after the fork.
    let fresh = GruBlockConfig::new(I, H).init(&device).fork(&device);
    expect("gradients of a fresh fork", tracked(&fresh, &device), 4)?;
    let plain = GruBlockConfig::new(I, H).init(&device.clone().inner());
    let forked = plain.train().fork(&device);
    expect("gradients of a trained fork", tracked(&forked, &device), 4)
}

/// To the other CPU backend and back.
fn to_device(device: &Device) -> Result<(), String> {
    // Burn deprecates NdArray. Its users are supported as long as it exists.
    #[allow(deprecated)]
    let others = [Device::flex(), Device::ndarray()];
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
