//! Every kernel against float64, as one process: one trial for each case.

#[path = "../support/mod.rs"]
mod support;

mod activations;
mod agreement;
mod determinism;
mod gates;
mod half;
mod nonfinite;
mod pieces;
mod rows;
mod shift;
mod zoneout;

fn main() {
    support::run_trials(
        [
            agreement::trials(),
            activations::trials(),
            determinism::trials(),
            gates::trials(),
            half::trials(),
            nonfinite::trials(),
            pieces::trials(),
            rows::trials(),
            shift::trials(),
            zoneout::trials(),
        ]
        .into_iter()
        .flatten()
        .collect(),
    );
}
