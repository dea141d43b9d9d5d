//! All tests that need Burn, as one list of trials: one id per problem and backend. The test `gru` runs
//! it, and so does the kit of `benches/gpu-kit`, on a machine that has no checkout.

#[cfg(doctest)]
#[path = "src/book.rs"]
mod book;
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
mod suite;

use std::{
    env,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use libtest_mimic::Trial;

pub use suite::backends::{self, TestBackend};
#[cfg(feature = "remote")]
pub use suite::server::serve_if_asked;
pub use suite::user::{child_if_asked, process_trials};

/// Makes its trials for all backends.
type Suite = fn(&[TestBackend]) -> Vec<Trial>;

const SUITES: &[Suite] = &[
    suite::oracle::trials,
    suite::gradient::trials,
    suite::gates::trials,
    suite::clips::trials,
    suite::empty::trials,
    suite::agreement::trials,
    |_| suite::half::trials(),
    suite::conformance::trials,
    suite::options::trials,
    suite::long::trials,
    suite::sums::trials,
    suite::zoneout_nan::trials,
    suite::pytorch_model::trials,
    suite::models::trials,
    suite::keras_model::trials,
    |_| suite::convert::trials(),
    |_| suite::files::trials(),
    suite::onnx_file::trials,
    suite::noise::trials,
    suite::nonfinite::trials,
    suite::properties::trials,
    suite::tracking::trials,
    suite::block::trials,
    suite::packed::trials,
    suite::saving::trials,
    suite::gradcheck::trials,
    suite::burn_gru::trials,
    suite::misuse::trials,
    suite::train::trials,
    suite::replay::trials,
    suite::user::trials,
    #[cfg(feature = "remote")]
    suite::remote::trials,
];

/// Every trial, on these backends.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    SUITES.iter().flat_map(|suite| suite(backends)).collect()
}

/// Where the recorded files lie: in this crate's folder, or in a copy that `GRU_TESTS` names.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let copy = env::var_os("GRU_TESTS").map(PathBuf::from);
        copy.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into())
    })
}
