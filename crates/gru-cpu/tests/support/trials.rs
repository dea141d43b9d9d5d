//! Trials, which report what this machine does not have as ignored.

use gru_cpu::testing::Isa;
use libtest_mimic::{Arguments, Completion, Trial};

/// A trial for each instruction set. Instruction sets that this machine or build does not have are ignored.
pub fn with_each_isa<F: Fn(Isa) + Copy + Send + 'static>(test: F) -> Vec<Trial> {
    let trial = |isa: Isa| {
        let missing = (!isa.is_available()).then(|| format!("{isa:?} is not available"));
        ignorable(format!("{}::{isa:?}", name::<F>()), missing, move || {
            test(isa)
        })
    };
    Isa::ALL.into_iter().map(trial).collect()
}

/// A trial of the default instruction set, or of several.
#[allow(dead_code)] // Not every test has one.
pub fn with_any_isa<F: Fn() + Send + 'static>(test: F) -> Vec<Trial> {
    vec![ignorable(name::<F>().into(), None, test)]
}

/// The name of a function, without its path.
fn name<F>() -> &'static str {
    let path = std::any::type_name::<F>();
    path.rsplit("::").next().unwrap_or(path)
}

fn ignorable(name: String, missing: Option<String>, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::ignorable_test(name, || {
        if let Some(reason) = missing {
            return Ok(Completion::ignored_with(reason));
        }
        test();
        Ok(Completion::Completed)
    })
}

/// The main function of a test with trials.
pub fn run(trials: impl IntoIterator<Item = Vec<Trial>>) {
    let trials = trials.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
