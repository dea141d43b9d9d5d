//! Compares every kernel with float64: one process, one trial for each case. With the variable `GRU_WEBGPU` on a
//! device that has the smallest limits of WebGPU.

#[path = "../support/mod.rs"]
mod support;

mod activations;
mod chunks;
mod errors;
mod exact;
mod rows;

use cubecl::ir::FloatKind;
use gru_testkit::case::Case;
use support::{F16, F32, Kernels, Ran, cases, cases::*};

fn main() {
    if std::env::var_os("GRU_WEBGPU").is_some() {
        support::on_device_of(gru_testkit::webgpu::device);
    }
    support::run_trials(
        [
            cases("inferred", inferred(), check),
            cases("sequence", sequences(), check),
            cases("steps", steps(), check),
            cases("activations", support::cases::activations(), check),
            cases("all-tensors", all_tensors(FloatKind::F32), check),
            cases("all-tensors-f16", all_tensors(FloatKind::F16), check),
            // Too large for one cube.
            cases("large", large(513), check),
            cases("nonfinite", nonfinite(), check),
            cases("sixteen-bits", sixteen_bits(), check),
            cases("f16-matrices", matrices("steps", FloatKind::F16), check),
            // TF32 has the mantissa of f16. A device with float32 matrices is more precise.
            cases(
                "f32-matrices",
                matrices("steps", FloatKind::F32),
                |kernels, case| kernels.check(case, F16),
            ),
            activations::trials(),
            chunks::trials(),
            errors::trials(),
            exact::trials(),
            rows::trials(),
        ]
        .into_iter()
        .flatten()
        .collect(),
    );
}

fn check(kernels: &Kernels, case: &Case) -> Ran {
    let tolerance = match kernels.dtype {
        FloatKind::F16 => F16,
        _ => F32,
    };
    kernels.check(case, tolerance)
}
