//! On a GPU, the operator runs the kernels of `gru-cube`, with and without fusion. This is a separate
//! process because the tests count launches.

use burn::tensor::{
    Bool, Device, DeviceKind, DeviceType, Distribution, Tensor, TensorData, Tolerance,
};
use gru_op::{
    GruBlockConfig, GruSpec, GruWeights, Reset, SequenceOptions,
    gpu::{Schedule, Settings, Strategy},
    gru_sequence_with,
};
use gru_testkit::webgpu;
use libtest_mimic::{Arguments, Failed, Trial};
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::sync::Mutex;

/// Without the self-tests, which are more launches.
const SETTINGS: Settings = Settings {
    forward: Strategy::Inferred,
    backward: Strategy::Inferred,
    self_test: false,
};

fn main() {
    let mut arguments = Arguments::from_args();
    // Launch counts and settings belong to the whole process.
    arguments.test_threads = Some(1);
    log::set_logger(&Warnings).expect("the first logger");
    log::set_max_level(LevelFilter::Warn);
    SETTINGS.set();
    let absent = Device::enumerate(DeviceType::Wgpu).is_empty();
    let required = std::env::var_os("GRU_REQUIRE_GPU").is_some();
    let trials = [
        Trial::test("launches/one-for-each-pass/wgpu", one_for_each_pass),
        Trial::test("launches/forced-schedule/wgpu", forced_schedule),
        Trial::test("launches/every-option/webgpu", every_option),
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
    let settings = Settings {
        forward: Strategy::Forced(schedule),
        ..SETTINGS
    };
    settings.set();
    let before = gru_cube::launches();
    let forced = states();
    let launches = gru_cube::launches() - before;
    SETTINGS.set();
    if launches != T as u64 {
        return Err(format!("{launches} launches, expected {T}").into());
    }
    forced.assert_approx_eq::<f32>(&inferred, Tolerance::absolute(1e-5));
    Ok(())
}

/// Warnings of gru-op and its kernels.
struct Warnings;

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() == Level::Warn && metadata.target().starts_with("gru_")
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata()) {
            WARNINGS.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

fn warnings() -> Vec<String> {
    std::mem::take(&mut *WARNINGS.lock().unwrap())
}

/// A training step with every tensor that an operator may have: states, and gradients of `w_hh` and the states.
fn all_tensors(device: &Device, h: usize, reset: Reset) -> [TensorData; 4] {
    const N: usize = 3;
    const T: usize = 5;
    const I: usize = 4;
    fn tensor<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
        let len: usize = shape.iter().product();
        let values: Vec<f32> = (1..=len).map(|k| (k as f32 * 1.7).sin() * 0.5).collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    }
    let device = device.clone().autodiff();
    let flags = |every: usize| {
        let flags: Vec<bool> = (0..N * T).map(|k| k % every != 2).collect();
        Tensor::<2, Bool>::from_data(TensorData::new(flags, [N, T]), &device)
    };
    let w_hh = tensor([h, 3 * h], &device).mul_scalar(0.3).require_grad();
    let [h0, start] = [0.7, 0.2].map(|scale| {
        let state: Tensor<2> = tensor([N, h], &device);
        state.mul_scalar(scale).require_grad()
    });
    let bias = || Some(tensor([3 * h], &device));
    let weights = GruWeights::new(tensor([I, 3 * h], &device), w_hh.clone())
        .with_b_ih(bias())
        .with_b_hh(bias());
    let options = SequenceOptions::new()
        .state(h0.clone())
        .mask(flags(4))
        .starts(flags(3).bool_not())
        .start_state(start.clone())
        .recurrent_mask(tensor([N, h], &device).add_scalar(1.0))
        .zoneout(tensor([N, T, h], &device).abs());
    let spec = GruSpec::default().with_reset(reset);
    let (y, _) = gru_sequence_with(tensor([N, T, I], &device), &weights, &spec, options);
    let upstream = tensor([N, T, h], &device);
    let gradients = (y.clone() * upstream).sum().backward();
    let of = |leaf: Tensor<2>| leaf.grad(&gradients).expect("a gradient").into_data();
    [y.into_data(), of(w_hh), of(h0), of(start)]
}

fn compare(got: [TensorData; 4], expected: [TensorData; 4]) {
    for (got, expected) in got.into_iter().zip(expected) {
        got.assert_approx_eq::<f32>(&expected, Tolerance::rel_abs(1e-4, 1e-4));
    }
}

/// On a GPU with the smallest limits of WebGPU, calls with all tensors run the kernels, and Burn's operations do not
/// replace them.
fn every_option() -> Result<(), Failed> {
    webgpu::device();
    let device = Device::wgpu(DeviceKind::Existing(webgpu::ID));
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        // A sequence kernel, and step kernels.
        for h in [24, 300] {
            let before = gru_cube::launches();
            let got = all_tensors(&device, h, reset);
            let launches = gru_cube::launches() - before;
            compare(got, all_tensors(&Device::flex(), h, reset));
            let (warnings, least) = (warnings(), if h == 24 { 5 } else { 2 * 5 });
            if !warnings.is_empty() || launches < least {
                return Err(format!("{reset:?} H{h}: {launches} launches, {warnings:?}").into());
            }
        }
    }
    Ok(())
}

/// A device that rejects kernels that should run: Burn's operations run instead, with one warning for each kernel.
fn rejected_kernel() -> Result<(), Failed> {
    webgpu::misreported();
    let device = Device::wgpu(DeviceKind::Existing(webgpu::MISREPORTED));
    let expected = all_tensors(&Device::flex(), 128, Reset::AfterMatmul);
    Settings::default().set();
    for expected_warnings in [2, 0] {
        let got = all_tensors(&device, 128, Reset::AfterMatmul);
        compare(got, expected.clone());
        let warnings = warnings();
        let names =
            |warning: &String| warning.starts_with("self-test of the kernel sequence rows=");
        if warnings.len() != expected_warnings || !warnings.iter().all(names) {
            return Err(format!("expected {expected_warnings} warnings, got {warnings:?}").into());
        }
    }
    SETTINGS.set();
    Ok(())
}
