//! On a GPU, the operator runs the kernels of `gru-cube`, with and without fusion. This is a separate
//! process because the tests count launches.

use burn::tensor::{Device, DeviceKind, DeviceType, Distribution, Tensor, Tolerance};
use gru_op::{
    GruBlockConfig,
    gpu::{Schedule, Settings, Strategy},
};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let mut arguments = Arguments::from_args();
    // Launch counts and settings belong to the whole process.
    arguments.test_threads = Some(1);
    let absent = Device::enumerate(DeviceType::Wgpu).is_empty();
    let required = std::env::var_os("GRU_REQUIRE_GPU").is_some();
    let trials = [
        Trial::test("launches/one-for-each-pass/wgpu", one_for_each_pass),
        Trial::test("launches/forced-schedule/wgpu", forced_schedule),
    ];
    let trials = trials.map(|trial| trial.with_ignored_flag(absent && !required));
    libtest_mimic::run(&arguments, trials.into()).exit();
}

/// With a small H, one launch runs all steps. Backward needs one launch, one more if it transposes the
/// weight first, and one for the previous states.
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

/// A forced schedule is used: here one launch per step, with equal states.
fn forced_schedule() -> Result<(), Failed> {
    const T: usize = 20;
    let device = Device::wgpu(DeviceKind::DefaultDevice);
    let gru = GruBlockConfig::new(5, 24).init(&device);
    let x = Tensor::<3>::random([3, T, 5], Distribution::Default, &device);
    let states = || gru.forward(x.clone(), None).0.into_data();
    let inferred = states();

    let text = "steps rows=2 width=2 n_threads=8 n_per_thread=2 k_splits=2 block_k=16";
    let schedule: Schedule = text.parse()?;
    let settings = Settings {
        forward: Strategy::Forced(schedule),
        ..Settings::default()
    };
    settings.set();
    let before = gru_cube::launches();
    let forced = states();
    let launches = gru_cube::launches() - before;
    Settings::default().set();
    if launches != T as u64 {
        return Err(format!("{launches} launches, expected {T}").into());
    }
    forced.assert_approx_eq::<f32>(&inferred, Tolerance::absolute(1e-5));
    Ok(())
}
