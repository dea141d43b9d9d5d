//! All tests that need Burn, in one process, as one list of trials. Each combination of a problem and a backend has one
//! name. `tools/gpu-kit` runs this program on machines without a checkout.

mod backends;
mod block;
mod burn_gru;
mod conformance;
mod convert;
mod empty;
mod files;
mod gates;
mod gradcheck;
mod graph;
mod keras_model;
mod matrix;
mod misuse;
mod models;
mod noise;
mod nonfinite;
mod onnx_file;
mod operator;
mod paths;
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
mod warnings;

use std::{
    collections::HashSet,
    env,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use backends::TestBackend;
use libtest_mimic::{Arguments, Trial};

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
    graph::trials,
    burn_gru::trials,
    misuse::trials,
    replay::trials,
    user::trials,
    #[cfg(feature = "remote")]
    remote::trials,
];

fn main() {
    #[cfg(feature = "remote")]
    server::serve_if_asked();
    user::child_if_asked();
    let arguments = Arguments::from_args();
    // A trial must see the results of a kernel, and not of what would replace a kernel after its self-test.
    #[cfg(any(feature = "gpu", feature = "cuda", feature = "cpu"))]
    gru_op::gpu::Settings::current().with_self_test(false).set();
    let backends = backends::all();
    let mut trials: Vec<Trial> = SUITES.iter().flat_map(|suite| suite(&backends)).collect();
    trials.extend(user::process_trials());
    let mut names = HashSet::new();
    let twice = trials.iter().find(|trial| !names.insert(trial.name()));
    let twice = twice.map(Trial::name);
    assert!(
        twice.is_none(),
        "expected one trial of each name, got two of {twice:?}"
    );
    libtest_mimic::run(&arguments, trials).exit();
}

/// The folder of recorded files: `data` of this crate, or a copy that `GRU_TESTS` names.
fn data() -> &'static Path {
    static DATA: OnceLock<PathBuf> = OnceLock::new();
    DATA.get_or_init(|| {
        let copy = env::var_os("GRU_TESTS").map(PathBuf::from);
        copy.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/data").into())
    })
}
