//! The parts of the program `char-gru`: its commands, files, charts and devices. The crate `char-model` holds the model
//! and its training.

// Public for the programs and the tests only.
#![allow(missing_docs)]

pub mod allocator;
pub mod backend;
pub mod chart;
pub mod checkpoint;
pub mod commands;
pub mod config;
pub mod dashboard;
pub mod devices;
pub mod error;
pub mod train;

/// Runs a test in a process of its own, unless this is that process. Burn's default device, onto which it reads
/// optimizers, is Flex there and not a GPU that may be absent; and nobody else draws from its random numbers.
#[cfg(all(test, feature = "flex"))]
fn runs_on_flex(test: &str) -> bool {
    const DEVICE: &str = "BURN_DEVICE";
    if std::env::var_os(DEVICE).is_some_and(|device| device == "flex") {
        return false;
    }
    let program = std::env::current_exe().expect("a test has a path");
    let output = std::process::Command::new(program)
        .args([test, "--exact", "--nocapture"])
        .env(DEVICE, "flex")
        .output()
        .expect("a test can be started");
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("1 passed"), "{told}{errors}");
    true
}
