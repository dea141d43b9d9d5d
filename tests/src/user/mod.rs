//! Typical uses of a block: as a Burn module, in training, in several threads, and in files that later
//! releases must read.

mod child;
mod golden;
mod inputs;
mod integers;
mod memory;
mod module;
mod quantized;
mod threads;
mod training;
mod warned;

use super::{backends::TestBackend, conformance::text};
use burn::tensor::{Device, Tensor};
use gru_op::GruBlock;
use gru_testkit::close::close;
use libtest_mimic::Trial;

use super::runs::{self, expect, values};

pub use child::child_if_asked;

const N: usize = 3;
const T: usize = 5;
const I: usize = 4;
const H: usize = 6;

type Test = fn(&Device) -> Result<(), String>;

/// On the CPU backends. The tested code does not depend on the backend.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = vec![Trial::test("user/send-and-sync", || {
        threads::types();
        Ok(())
    })];
    trials.push(golden::trial());
    for &backend in backends.iter().filter(|backend| !backend.samples_modes()) {
        let tests: [&[(&str, Test)]; 4] = [
            module::TESTS,
            quantized::TESTS,
            threads::TESTS,
            inputs::TESTS,
        ];
        for &(name, test) in tests.concat().iter() {
            let id = format!("user/{name}/{}", backend.name);
            trials.push(backend.trial(id, test));
        }
        trials.extend(training::half(backend));
    }
    trials
}

/// Trials that start this program again. The program must then call [`child_if_asked`].
pub fn process_trials() -> Vec<Trial> {
    let trial = |(name, test): (&str, fn() -> Result<(), String>)| {
        Trial::test(format!("user/{name}/flex"), move || Ok(test()?))
    };
    let tests: [(_, fn() -> _); 2] = [
        ("integers-of-8-bits", integers::runs),
        ("warnings", warned::runs),
    ];
    let mut trials: Vec<Trial> = tests.map(trial).into();
    trials.push(memory::trial());
    trials
}

fn input(device: &Device) -> Tensor<3> {
    runs::random("x", [N, T, I], device)
}

/// The outputs of a block for [`input`].
fn outputs(block: &GruBlock, device: &Device) -> Vec<f64> {
    let (y, state) = block.forward(input(device), None);
    [values(y), values(state)].concat()
}

/// Compares values exactly.
fn equal(what: &str, got: &[f64], expected: &[f64]) -> Result<(), String> {
    close(what, got, expected, 0.0)
}
