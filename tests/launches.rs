//! The operator on a GPU runs the kernels of `gru-cube`, with and without fusion: launches are
//! counted in a process of their own.

use burn::tensor::{Device, DeviceKind, DeviceType, Distribution, Tensor};
use gru_op::GruBlockConfig;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let absent = Device::enumerate(DeviceType::Wgpu).is_empty();
    let required = std::env::var_os("GRU_REQUIRE_GPU").is_some();
    let trial = Trial::test("launches/one-for-each-pass/wgpu", one_for_each_pass);
    let trials = vec![trial.with_ignored_flag(absent && !required)];
    libtest_mimic::run(&arguments, trials).exit();
}

/// A small state walks through all steps in one launch. Backward: one, one more where the weight is
/// transposed first, and one for the states before each step.
fn one_for_each_pass() -> Result<(), Failed> {
    let device = Device::wgpu(DeviceKind::DefaultDevice);
    let config = GruBlockConfig::new(5, 24);
    let x = |device: &Device| Tensor::<3>::random([3, 20, 5], Distribution::Default, device);

    let gru = config.init(&device);
    let before = gru_cube::launches();
    gru.forward(x(&device), None).0.into_data();
    let inference = gru_cube::launches() - before;

    let device = device.autodiff();
    let gru = config.init(&device);
    let before = gru_cube::launches();
    let gradients = gru.forward(x(&device), None).0.sum().backward();
    let w_hh = gru.layers[0].w_hh.val().grad(&gradients);
    w_hh.ok_or("w_hh has no gradient")?.into_data();
    let training = gru_cube::launches() - before;
    match (inference, training) {
        (1, 3..=4) => Ok(()),
        other => Err(format!("{other:?} launches, expected 1, and 3 or 4").into()),
    }
}
