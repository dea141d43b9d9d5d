//! All tests that need Burn, in one process.

use libtest_mimic::Arguments;

fn main() {
    #[cfg(feature = "remote")]
    gru_tests::serve_if_asked();
    gru_tests::child_if_asked();
    let arguments = Arguments::from_args();
    let mut trials = gru_tests::trials(&gru_tests::backends::all());
    trials.extend(gru_tests::process_trials());
    libtest_mimic::run(&arguments, trials).exit();
}
