//! Compares every kernel with float64: one process, one trial for each case. With the variable `GRU_WEBGPU` on a
//! device that has the smallest limits of WebGPU.

#[path = "../support/mod.rs"]
mod support;

mod activations;
mod agreement;
mod buffers;
mod chunks;
mod determinism;
mod gates;
mod half;
mod nonfinite;
mod operands;
mod rows;
mod zoneout;

fn main() {
    if std::env::var_os("GRU_WEBGPU").is_some() {
        support::on_device_of(gru_testkit::webgpu::device);
    }
    support::run_trials(
        [
            agreement::trials(),
            buffers::trials(),
            chunks::trials(),
            activations::trials(),
            determinism::trials(),
            gates::trials(),
            half::trials(),
            nonfinite::trials(),
            operands::trials(),
            rows::trials(),
            zoneout::trials(),
        ]
        .into_iter()
        .flatten()
        .collect(),
    );
}
