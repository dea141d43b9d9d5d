//! All tests that need Burn: one process, one list of trials, one id per problem and backend.

mod suite;

use libtest_mimic::{Arguments, Trial};
use suite::backends::{self, TestBackend};

/// Makes its trials for all backends.
type Suite = fn(&[TestBackend]) -> Vec<Trial>;

const SUITES: &[Suite] = &[
    suite::oracle::trials,
    suite::gradient::trials,
    suite::empty::trials,
    suite::agreement::trials,
    |_| suite::half::trials(),
    suite::conformance::trials,
    suite::options::trials,
    suite::long::trials,
    suite::sums::trials,
    suite::composed_nan::trials,
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
    #[cfg(feature = "remote")]
    suite::remote::trials,
];

fn main() {
    #[cfg(feature = "remote")]
    suite::server::serve_if_asked();
    let arguments = Arguments::from_args();
    let backends = backends::all();
    let trials = SUITES.iter().flat_map(|suite| suite(&backends)).collect();
    libtest_mimic::run(&arguments, trials).exit();
}
