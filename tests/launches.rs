//! On a GPU, the operator runs the kernels of `gru-cube`, with and without fusion. This is a separate
//! process because the tests count launches.

use burn::tensor::{DType, Device, DeviceKind, DeviceType, Distribution, Tensor};
use gru_op::{
    GruBlockConfig,
    gpu::{Schedule, Settings, Strategy},
};
use gru_testkit::{case::Case, close::Tolerance, webgpu};
use libtest_mimic::{Arguments, Failed, Trial};
use operator::Way;

// The program `gru` uses the rest of these.
#[allow(dead_code)]
#[path = "src/operator.rs"]
mod operator;
#[allow(dead_code)]
#[path = "src/runs.rs"]
mod runs;
#[path = "src/warnings.rs"]
mod warnings;

/// Without the self-tests, which are more launches.
fn settings() -> Settings {
    Settings::default().with_self_test(false)
}

fn main() {
    let mut arguments = Arguments::from_args();
    // Launch counts and settings belong to the whole process.
    arguments.test_threads = Some(1);
    warnings::collect();
    settings().set();
    let absent = Device::enumerate(DeviceType::Wgpu).is_empty();
    let required = std::env::var_os("GRU_REQUIRE_GPU").is_some();
    let trials = [
        Trial::test("launches/one-for-each-pass/wgpu", one_for_each_pass),
        Trial::test("launches/forced-schedule/wgpu", forced_schedule),
        Trial::test("launches/every-option/webgpu", every_option),
        Trial::test("launches/right-kernels/webgpu", right_kernels),
        Trial::test("launches/rejected-kernel/webgpu", rejected_kernel),
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
    settings().with_forward(Strategy::Forced(schedule)).set();
    let before = gru_cube::launches();
    let forced = states();
    let launches = gru_cube::launches() - before;
    settings().set();
    if launches != T as u64 {
        return Err(format!("{launches} launches, expected {T}").into());
    }
    forced.assert_approx_eq::<f32>(&inferred, burn::tensor::Tolerance::absolute(1e-5));
    Ok(())
}

/// A training step with every tensor that an operator may have, compared with the oracle.
fn all_tensors(device: &Device, words: &str) -> Result<(), Failed> {
    let options = "mask skips start-states zoneout-per-unit";
    let drawn = Case::new(&format!("N3 T5 I4 {options} {words}")).draw();
    let got = operator::run(device, DType::F32, &drawn, Way::default())?;
    let tolerance = Tolerance::F32.times(Tolerance::GPU_FACTOR);
    Ok(got.compare(&drawn.expected(), tolerance)?)
}

/// On a GPU with the smallest limits of WebGPU, calls with all tensors run the kernels, and Burn's operations do not
/// replace them.
fn every_option() -> Result<(), Failed> {
    webgpu::device();
    let device = Device::wgpu(DeviceKind::Existing(webgpu::ID));
    // A sequence kernel, and step kernels.
    for (words, least) in [
        ("H24", 5),
        ("H24 before", 5),
        ("H300", 10),
        ("H300 before", 10),
    ] {
        let before = gru_cube::launches();
        all_tensors(&device, words)?;
        let (launches, warnings) = (gru_cube::launches() - before, warnings::take());
        if !warnings.is_empty() || launches < least {
            return Err(format!("{words}: {launches} launches, {warnings:?}").into());
        }
    }
    Ok(())
}

/// Right kernels pass their self-tests, which are launches of their own.
fn right_kernels() -> Result<(), Failed> {
    webgpu::device();
    let device = Device::wgpu(DeviceKind::Existing(webgpu::ID));
    for words in [
        "H24",
        "H24 before takes time reverse clip-state",
        "H48 takes reverse activations-2 clip-gates",
        "H300 before time",
    ] {
        let count = |settings: Settings| {
            settings.set();
            let before = gru_cube::launches();
            all_tensors(&device, words)?;
            Ok::<_, Failed>(gru_cube::launches() - before)
        };
        let (without, with) = (count(settings())?, count(Settings::default())?);
        settings().set();
        let warnings = warnings::take();
        if !warnings.is_empty() || with < without + 2 {
            return Err(format!("{words}: {with} and {without} launches, {warnings:?}").into());
        }
    }
    Ok(())
}

/// A device that rejects kernels that should run: Burn's operations run instead, with one warning for each kernel.
fn rejected_kernel() -> Result<(), Failed> {
    webgpu::misreported();
    let device = Device::wgpu(DeviceKind::Existing(webgpu::MISREPORTED));
    Settings::default().set();
    for expected_warnings in [2, 0] {
        all_tensors(&device, "H128")?;
        let warnings = warnings::take();
        let names =
            |warning: &String| warning.starts_with("self-test of the kernel sequence rows=");
        if warnings.len() != expected_warnings || !warnings.iter().all(names) {
            return Err(format!("expected {expected_warnings} warnings, got {warnings:?}").into());
        }
    }
    settings().set();
    Ok(())
}
