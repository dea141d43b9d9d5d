//! Compares every kernel with float64: one process, one trial for each case.

#[path = "../support/mod.rs"]
mod support;

mod activations;
mod agreement;
mod chunks;
mod determinism;
mod gates;
mod half;
mod nonfinite;
mod operands;
mod rows;
mod zoneout;

fn main() {
    support::run_trials(
        [
            agreement::trials(),
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
