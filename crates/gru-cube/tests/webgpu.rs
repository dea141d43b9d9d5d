//! Kernels on a device that has the smallest limits of WebGPU: 8 buffers, 16 KiB of shared memory, 256 units. A software
//! driver looks like a GPU here, so that the inferred schedules are a GPU's. A schedule or a call that does not fit is a
//! failure.
//!
//! `GRU_WEBGPU=1 cargo test -p gru-cube --test gpu` runs all GPU tests on this device.

mod support;

#[path = "gpu/buffers.rs"]
mod buffers;
#[allow(dead_code)] // The GPU tests use all of both.
#[path = "gpu/gates.rs"]
mod gates;
#[allow(dead_code)]
#[path = "gpu/operands.rs"]
mod operands;

use gru_cube::{Limits, Strategy};
use support::{
    F32, Ignored, Ran, cases,
    catalogue::{Case, inferred, large},
    client, on_device_of, run_trials, test, trial,
};

fn main() {
    on_device_of(gru_testkit::webgpu::device);
    let mut trials = vec![
        test("webgpu/limits", the_limits_are_the_smallest),
        test("webgpu/gates", gates::every_convention),
        test("webgpu/operands", operands::every_convention),
    ];
    trials.extend(cases(inferred(), in_f32));
    trials.extend(buffers::trials());
    for case in [256, 257].map(|h| large(h, Strategy::Inferred)).concat() {
        let name = format!("large/{:?}-{}", case.spec.reset, case.id());
        trials.push(trial(name, move || in_f32(&case)));
    }
    run_trials(trials);
}

fn the_limits_are_the_smallest() {
    let limits = Limits::of(&client());
    assert!(!limits.cpu, "{limits:?}");
    // One more buffer has sizes.
    let got = (limits.buffers, limits.shared_bytes, limits.units);
    assert_eq!(got, (7, 16 << 10, 256));
}

fn in_f32(case: &Case) -> Ran {
    case.check::<f32>(F32)
        .map_err(|Ignored(reason)| panic!("{case:?}: {reason}"))
}
