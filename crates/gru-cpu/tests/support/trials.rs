//! Trials, which report what this machine does not have as ignored.

use gru_cpu::testing::Isa;
use libtest_mimic::{Arguments, Completion, Trial};

/// A trial for each instruction set. Instruction sets that this machine or build does not have are ignored.
pub fn with_each_isa<F: Fn(Isa) + Copy + Send + 'static>(test: F) -> Vec<Trial> {
    let path = std::any::type_name::<F>();
    let name = path.rsplit("::").next().unwrap_or(path);
    let trial = |isa: Isa| {
        Trial::ignorable_test(format!("{name}::{isa:?}"), move || {
            if !isa.is_available() {
                let reason = format!("{isa:?} is not available");
                return Ok(Completion::ignored_with(reason));
            }
            test(isa);
            Ok(Completion::Completed)
        })
    };
    Isa::ALL.into_iter().map(trial).collect()
}

/// The main function of a test with trials.
pub fn run(trials: impl IntoIterator<Item = Vec<Trial>>) {
    let trials = trials.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
