//! Gradients that pass and gradients that fail, on each CPU backend.

use burn::tensor::{DType, Device, Tensor, TensorData, activation::relu};
use burn_gradcheck::{Finding, GradCheck, Point, Report};
use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs a test on each backend with float64.
fn on_each(test: impl Fn(&Device)) {
    test(&Device::flex());
    // Burn deprecates NdArray. It is supported as long as it exists.
    #[allow(deprecated)]
    test(&Device::ndarray());
}

fn tensor<const D: usize>(values: Vec<f64>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), (device, DType::F64))
}

/// Values of both signs, none of them zero.
fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let number = |k: usize| ((k * 37 + 11) % 17) as f64 / 8.0 - 1.03;
    let values = (0..shape.iter().product()).map(number).collect();
    tensor(values, shape, device)
}

fn vector(values: &[f64], device: &Device) -> Tensor<1> {
    tensor(values.to_vec(), [values.len()], device)
}

#[track_caller]
fn passed(report: Report) -> Report {
    assert!(report.passed(), "expected to pass:\n{report}");
    report
}

/// Returns the report of a check that must fail and must print its failure.
#[track_caller]
fn failed(report: Report) -> Report {
    let printed = report.to_string().contains("FAILED");
    assert!(!report.passed() && printed, "expected to fail:\n{report}");
    report
}

#[track_caller]
fn assert_prints(report: &Report, text: &str) {
    let printed = report.to_string();
    assert!(printed.contains(text), "expected {text:?} in\n{printed}");
}

#[test]
fn correct_gradients_pass() {
    on_each(|device| {
        let check = GradCheck::new()
            .input("a", numbers([3, 4], device))
            .input("b", numbers([2, 4, 5], device))
            .input("c", numbers([5], device))
            .constant("d", numbers([3, 5], device));
        let report = passed(check.check(|at| {
            let a: Tensor<3> = at.get::<2>("a").unsqueeze();
            let d: Tensor<3> = at.get::<2>("d").unsqueeze();
            (a.matmul(at.get("b")) * d + at.get::<1>("c").unsqueeze()).tanh()
        }));
        let compared: Vec<usize> = report.inputs.iter().map(|input| input.compared).collect();
        assert_eq!(compared, [12, 40, 5, 0]);
        assert_prints(&report, "a: 12 compared, worst at [");
        assert_prints(&report, "d: constant, no gradient");
    });
}

/// `x²`, with one half hidden from autodiff.
#[test]
fn a_wrong_gradient_fails() {
    on_each(|device| {
        let check = GradCheck::new().input("x", vector(&[1.0, 3.0, 2.0], device));
        let report = failed(check.check(|at| at.get::<1>("x") * at.get::<1>("x").detach()));
        let worst = report.input("x").and_then(|input| input.worst.clone());
        let worst = worst.unwrap();
        // The output weights are between 1/2 and 1, so the largest error is at the second or the third
        // value.
        assert!(worst.index[0] > 0, "{worst:?}");
        let error = (worst.difference - 2.0 * worst.gradient).abs();
        assert!(error <= 1e-8, "{worst:?}");
        assert_prints(&report, "x: FAILED: 3 of 3, worst at [");
    });
}

/// No output weight is small. The report names the value with the largest error.
#[test]
fn one_wrong_output_in_a_thousand_fails() {
    on_each(|device| {
        let check = GradCheck::new().input("x", numbers([1000], device));
        let report = failed(check.check(|at| {
            let x: Tensor<1> = at.get("x");
            let one = x.clone().narrow(0, 500, 1);
            let one = one.clone() + one.detach() * 1e-6;
            Tensor::cat(
                vec![x.clone().narrow(0, 0, 500), one, x.narrow(0, 501, 499)],
                0,
            )
        }));
        assert_prints(&report, "x: FAILED: 1 of 1000, worst at [500]");
    });
}

#[test]
fn a_missing_gradient_fails() {
    on_each(|device| {
        let check = GradCheck::new()
            .input("x", numbers([3], device))
            .input("w", numbers([3], device));
        let report = failed(check.check(|at| at.get::<1>("x").detach() * at.get::<1>("w")));
        assert_prints(&report, "x: no gradient; FAILED: 3 of 3");
        let all_missing = failed(check.check(|at| (at.get::<1>("x") * at.get::<1>("w")).inner()));
        assert_prints(&all_missing, "w: no gradient; FAILED: 3 of 3");
    });
}

#[test]
fn an_input_without_influence_needs_no_gradient() {
    on_each(|device| {
        let check = GradCheck::new()
            .input("x", numbers([3], device))
            .input("unused", numbers([2, 2], device));
        let report = passed(check.check(|at| at.get::<1>("x").exp()));
        assert_eq!(report.input("unused").unwrap().finding, Finding::Absent);
    });
}

#[test]
fn a_gradient_of_a_constant_fails() {
    on_each(|device| {
        let check = GradCheck::new()
            .input("x", numbers([3], device))
            .constant("c", numbers([3], device));
        let report = check.check(|at| at.get::<1>("x") * at.get::<1>("c").require_grad());
        assert_prints(
            &failed(report),
            "c: FAILED: expected no gradient of a constant, got one",
        );
    });
}

#[test]
fn a_nan_fails() {
    on_each(|device| {
        // At zero the square root has an infinite slope and no left slope.
        let check = GradCheck::new().input("x", vector(&[0.0, 1.0], device));
        let report = failed(check.check(|at| at.get::<1>("x").sqrt()));
        assert_prints(&report, "x: FAILED: 1 of 2, worst at [0]");
        // The gradient is NaN and the function is finite.
        let report = failed(check.check(|at| {
            let x: Tensor<1> = at.get("x");
            x.clone().powi_scalar(2).sqrt() + x * 2.0
        }));
        assert_prints(&report, "NaN");
        let report = failed(check.check(|at| at.get::<1>("x") * f64::NAN));
        assert_prints(&report, "the value of the function is NaN");
    });
}

#[test]
fn a_function_that_changes_between_calls_fails() {
    on_each(|device| {
        let calls = Cell::new(0.0);
        let check = GradCheck::new().input("x", numbers([2], device));
        let report = check.check(|at| {
            calls.set(calls.get() + 1.0);
            at.get::<1>("x") * calls.get()
        });
        assert_prints(
            &failed(report),
            "a second call of the function returned another value",
        );
    });
}

#[test]
fn a_kink_is_no_failure() {
    on_each(|device| {
        let check = GradCheck::new().input("x", vector(&[1.0, 0.0, -1.0], device));
        let report = passed(check.check(|at| relu(at.get::<1>("x"))));
        let [kink] = report.inputs[0].kinks.as_slice() else {
            panic!("expected one kink:\n{report}");
        };
        assert_eq!(kink.index, [1]);
        assert!((kink.left - kink.right).abs() > 0.4, "{kink:?}");
        assert_prints(&report, "a kink at [1]: gradient 0e0, slopes ");
    });
}

/// The longest step reaches the corner, the shortest step does not.
#[test]
fn a_shorter_step_avoids_a_kink() {
    on_each(|device| {
        let check = GradCheck::new().input("x", vector(&[1e-4, -1e-4], device));
        let report = passed(check.check(|at| relu(at.get::<1>("x"))));
        assert!(report.inputs[0].kinks.is_empty(), "{report}");
    });
}

/// At a corner, any slope between the left and the right slope passes. Other slopes fail.
#[test]
fn a_wrong_gradient_at_a_kink_fails() {
    on_each(|device| {
        let check = GradCheck::new().input("x", vector(&[0.0], device));
        let _ = passed(check.check(|at| at.get::<1>("x").abs()));
        let steep = |at: &Point| {
            let x: Tensor<1> = at.get("x");
            // 2x for autodiff, 0 for the differences.
            x.clone().abs() + x.clone() * 2.0 - x.detach() * 2.0
        };
        let _ = failed(check.check(steep));
    });
}

#[test]
fn an_empty_input_passes() {
    on_each(|device| {
        let check = GradCheck::new()
            .input("x", Tensor::<2>::zeros([0, 3], (device, DType::F64)))
            .input("y", numbers([2], device));
        let report = passed(check.check(|at| at.get::<1>("y") * 2.0));
        assert_prints(&report, "x: no gradient; 0 compared");
    });
}

#[test]
fn misuse_panics() {
    on_each(|device| {
        let one = || GradCheck::new().input("x", numbers([2], device));
        assert_panics("expected at least one input", || {
            let _ = GradCheck::new().check(|at| at.get::<1>("x"));
        });
        assert_panics("expected one of the inputs [\"x\"], got \"y\"", || {
            let _ = one().check(|at| at.get::<1>("y"));
        });
        assert_panics("x: expected rank 1, got 2", || {
            let _ = one().check(|at| at.get::<2>("x"));
        });
        assert_panics("got x twice", || {
            let _ = one().input("x", numbers([1], device));
        });
        assert_panics("expected float64, got F32", || {
            let _ = one().check(|at| at.get::<1>("x").cast(DType::F32));
        });
        assert_panics("step: expected a number > 0", || {
            let _ = GradCheck::new().step(0.0);
        });
        assert_panics("tolerance: expected a number > 0", || {
            let _ = GradCheck::new().tolerance(f64::NAN);
        });
        assert_panics("gradients are wrong:\nx: FAILED", || {
            one()
                .check(|at| at.get::<1>("x") * at.get::<1>("x").detach())
                .assert();
        });
    });
}

#[track_caller]
fn assert_panics(text: &str, call: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(call)) else {
        panic!("expected a panic with {text:?}");
    };
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
    assert!(
        message.is_some_and(|message| message.contains(text)),
        "expected {text:?}, got {message:?}"
    );
}
