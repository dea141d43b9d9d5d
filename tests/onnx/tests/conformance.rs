//! Generated code for the recorded cases of ONNX Runtime: every attribute, input and output of the operator.

use burn::tensor::Device;
use gru_onnx_tests::{CASES, Result};
use gru_testkit::{
    close::close,
    conformance::{Case, CaseSpec},
};
use libtest_mimic::{Arguments, Trial};
use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/conformance");
    let specs = CaseSpec::all(&folder);
    let trials = CASES.iter().map(|&(way, name, run)| {
        let spec = specs.iter().find(|spec| spec.name() == name);
        let case = spec.expect("the case was generated").load(&folder);
        Trial::test(format!("{way}/{name}"), move || {
            let results = run(&case, &Device::flex());
            if way == "exported" {
                expect_same_bits(&results, &run_of("marked", name)(&case, &Device::flex()))?;
            }
            Ok(compare(&case, results)?)
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// The case in another way.
fn run_of(way: &str, name: &str) -> gru_onnx_tests::Run {
    let found = CASES.iter().find(|case| (case.0, case.1) == (way, name));
    found.expect("every case was generated").2
}

fn expect_same_bits(actual: &[Result], expected: &[Result]) -> std::result::Result<(), String> {
    let bits = |results: &[Result]| {
        let bits = |values: &[f64]| {
            values
                .iter()
                .map(|value| value.to_bits())
                .collect::<Vec<_>>()
        };
        let each = results
            .iter()
            .map(|(name, shape, values)| (*name, shape.clone(), bits(values)));
        each.collect::<Vec<_>>()
    };
    if bits(actual) == bits(expected) {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, got {actual:?}"))
    }
}

fn compare(case: &Case, results: Vec<Result>) -> std::result::Result<(), String> {
    if results.is_empty() {
        return Err("nothing was compared".into());
    }
    for (name, shape, values) in results {
        let expected = case.tensor(&format!("out.{name}"));
        if expected.shape != shape {
            return Err(format!(
                "{name}: expected shape {:?}, got {shape:?}",
                expected.shape
            ));
        }
        close(name, &values, &expected.data, case.tolerance().forward)?;
    }
    Ok(())
}
