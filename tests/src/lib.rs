//! All tests that need Burn, as one list of trials. Each combination of a problem and a backend has one
//! name. The test program `gru` runs the list. `tools/gpu-kit` runs the list on machines without a
//! checkout.

#[cfg(doctest)]
mod book;
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

pub mod backends;
mod block;
mod burn_gru;
mod conformance;
mod convert;
mod empty;
mod files;
mod gates;
mod gradcheck;
mod keras_model;
mod matrix;
mod misuse;
mod models;
mod noise;
mod nonfinite;
mod onnx_file;
pub mod operator;
mod prepared;
mod pytorch_model;
mod ragged;
#[cfg(feature = "remote")]
mod remote;
mod replay;
mod runs;
mod saving;
#[cfg(feature = "remote")]
mod server;
mod sums;
mod tracking;
mod user;
mod vectors;
pub mod warnings;

use std::{
    collections::HashSet,
    env,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use burn::tensor::{Device, Distribution, Tensor};
use gru_op::{GruBlock, GruBlockConfig};
use libtest_mimic::Trial;

pub use backends::TestBackend;
#[cfg(feature = "remote")]
pub use server::serve_if_asked;
pub use user::{child_if_asked, process_trials};

/// Makes the trials of a suite for all backends.
type Suite = fn(&[TestBackend]) -> Vec<Trial>;

const SUITES: &[Suite] = &[
    matrix::trials,
    gates::trials,
    empty::trials,
    conformance::trials,
    sums::trials,
    pytorch_model::trials,
    models::trials,
    keras_model::trials,
    |_| convert::trials(),
    |_| files::trials(),
    onnx_file::trials,
    noise::trials,
    nonfinite::trials,
    tracking::trials,
    block::trials,
    prepared::trials,
    ragged::trials,
    saving::trials,
    gradcheck::trials,
    burn_gru::trials,
    misuse::trials,
    replay::trials,
    user::trials,
    #[cfg(feature = "remote")]
    remote::trials,
];

/// All trials on these backends. A trial must see the results of a kernel, and not of what would replace a kernel after
/// its self-test. So there are no self-tests.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let settings = gru_cube::Settings {
        self_test: false,
        ..gru_cube::Settings::current()
    };
    settings.set();
    let trials: Vec<Trial> = SUITES.iter().flat_map(|suite| suite(backends)).collect();
    let mut names = HashSet::new();
    let twice = trials.iter().find(|trial| !names.insert(trial.name()));
    let twice = twice.map(Trial::name);
    assert!(
        twice.is_none(),
        "expected one trial of each name, got two of {twice:?}"
    );
    trials
}

/// What the recipes of the cookbook assume: a device, a block and a batch.
pub fn cookbook() -> (Device, GruBlock, Tensor<3>) {
    let device = Device::flex();
    let gru = GruBlockConfig::new(8, 16).init(&device);
    let x = Tensor::random([3, 9, 8], Distribution::Default, &device);
    (device, gru, x)
}

/// The folder of recorded files: `data` of this crate, or a copy that `GRU_TESTS` names.
fn data() -> &'static Path {
    static DATA: OnceLock<PathBuf> = OnceLock::new();
    DATA.get_or_init(|| {
        let copy = env::var_os("GRU_TESTS").map(PathBuf::from);
        copy.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/data").into())
    })
}
