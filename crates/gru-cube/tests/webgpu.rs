//! Kernels on a device that has the smallest limits of WebGPU: 8 buffers, 16 KiB of shared memory, 256 threads. A software
//! driver looks like a GPU here, so that the inferred schedules are a GPU's. A schedule or a call that does not fit is a
//! failure.
//!
//! `GRU_WEBGPU=1 cargo test -p gru-cube --test gpu` runs all GPU tests on this device.

mod support;

use cubecl::ir::FloatKind;
use gru_cube::Limits;
use gru_testkit::case::Case;
use support::{
    F16, F32, Ignored, Kernels, Ran, cases,
    cases::{all_tensors, inferred, large},
    client, on_device_of, run_trials, test,
};

fn main() {
    on_device_of(gru_testkit::webgpu::device);
    let mut trials = vec![test("webgpu/limits", the_limits_are_the_smallest)];
    trials.extend(cases("inferred", inferred(), in_f32));
    trials.extend(cases("all-tensors", all_tensors(FloatKind::F32), in_f32));
    trials.extend(cases(
        "all-tensors-f16",
        all_tensors(FloatKind::F16),
        |kernels, case| kernels.check(case, F16),
    ));
    trials.extend(cases("large", [large(256), large(257)].concat(), in_f32));
    run_trials(trials);
}

fn the_limits_are_the_smallest() {
    let limits = Limits::of(&client());
    assert!(!limits.cpu, "{limits:?}");
    // One more buffer has sizes.
    let got = (limits.buffers, limits.shared_bytes, limits.threads);
    assert_eq!(got, (7, 16 << 10, 256));
}

fn in_f32(kernels: &Kernels, case: &Case) -> Ran {
    let ran = kernels.check(case, F32);
    ran.map_err(|Ignored(reason)| panic!("{reason}"))
}
