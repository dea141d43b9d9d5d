//! The parts of the program `char-gru`: its commands, files, charts and devices. The crate `char-model`
//! contains the model and its training.

// Public only for the programs and the tests.
#![allow(missing_docs)]

pub mod backend;
pub mod chart;
pub mod checkpoint;
pub mod commands;
pub mod config;
pub mod devices;
pub mod error;
pub mod train;

/// Runs a test in a separate process. There Burn's default device, to which it loads optimizers, is Flex
/// and not a GPU that may be missing. No other test uses the random numbers of that process.
#[cfg(all(test, feature = "flex"))]
fn runs_on_flex(test: &str) -> bool {
    const DEVICE: &str = "BURN_DEVICE";
    if std::env::var_os(DEVICE).is_some_and(|device| device == "flex") {
        return false;
    }
    let program = std::env::current_exe().expect("the test binary has a path");
    let output = std::process::Command::new(program)
        .args([test, "--exact", "--nocapture"])
        .env(DEVICE, "flex")
        .output()
        .expect("the test binary can be started");
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("1 passed"), "{told}{errors}");
    true
}
