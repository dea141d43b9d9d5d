//! All tests that need Burn: one process.

use libtest_mimic::Arguments;

fn main() {
    #[cfg(feature = "remote")]
    gru_tests::serve_if_asked();
    let arguments = Arguments::from_args();
    let trials = gru_tests::trials(&gru_tests::backends::all());
    libtest_mimic::run(&arguments, trials).exit();
}
