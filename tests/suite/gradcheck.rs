//! The gradient checker: what it finds wrong, and the module under it.

use super::backends::TestBackend;
use burn::tensor::{DType, Device, Tensor, activation::relu};
use gru_op::{
    Activation, Activations, GruBlockConfig, GruSpec, GruWeights, Reset, SequenceOptions, Update,
    gradcheck::{Finding, GradCheck, Place, Report},
    gru_sequence_with,
};
use libtest_mimic::Trial;

type Test = fn(&Device) -> Result<(), String>;

const TESTS: &[(&str, Test)] = &[
    ("right", right),
    ("wrong", wrong),
    ("wrong-at-one-output", wrong_at_one_output),
    ("missing", missing),
    ("rightly-missing", rightly_missing),
    ("unasked", unasked),
    ("not-a-number", not_a_number),
    ("not-repeatable", not_repeatable),
    ("kinks", kinks),
    ("kink-nearby", kink_nearby),
    ("wrong-at-a-kink", wrong_at_a_kink),
    ("directions", directions),
    ("empty-input", empty_input),
    ("misuse", misuse),
    ("block", block),
    ("sequence", sequence),
];

/// On the backends that have float64.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in backends.iter().filter(|backend| backend.float64) {
        for &(name, test) in TESTS {
            let id = format!("gradcheck/{name}/{}", backend.name);
            trials.push(backend.trial(id, test));
        }
    }
    trials
}

/// Numbers of either sign, none of them zero.
fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let number = |k: usize| ((k * 37 + 11) % 17) as f64 / 8.0 - 1.03;
    let values: Vec<f64> = (0..shape.iter().product()).map(number).collect();
    super::runs::tensor(&values, shape, device, DType::F64)
}

fn vector(values: &[f64], device: &Device) -> Tensor<1> {
    super::runs::tensor(values, [values.len()], device, DType::F64)
}

fn passed(report: Report) -> Result<Report, String> {
    match report.passed() {
        true => Ok(report),
        false => Err(format!("expected to pass:\n{report}")),
    }
}

/// The report of a check that must fail, and say so.
fn failed(report: Report) -> Result<Report, String> {
    match !report.passed() && report.to_string().contains("FAILED") {
        true => Ok(report),
        false => Err(format!("expected to fail:\n{report}")),
    }
}

fn says(report: &Report, text: &str) -> Result<(), String> {
    match report.to_string().contains(text) {
        true => Ok(()),
        false => Err(format!("expected {text:?} in\n{report}")),
    }
}

fn right(device: &Device) -> Result<(), String> {
    let check = GradCheck::new()
        .input("a", numbers([3, 4], device))
        .input("b", numbers([2, 4, 5], device))
        .input("c", numbers([5], device))
        .constant("d", numbers([3, 5], device));
    let report = passed(check.check(|at| {
        let a: Tensor<3> = at.get::<2>("a").unsqueeze();
        let d: Tensor<3> = at.get::<2>("d").unsqueeze();
        (a.matmul(at.get("b")) * d + at.get::<1>("c").unsqueeze()).tanh()
    }))?;
    let compared: Vec<usize> = report.inputs.iter().map(|input| input.compared).collect();
    if compared != [12, 40, 5, 0] {
        return Err(format!("{compared:?} were compared"));
    }
    says(&report, "a: 12 compared, worst at [")?;
    says(&report, "d: no gradient, and none asked for")
}

/// `x²`, of which half is hidden from autodiff.
fn wrong(device: &Device) -> Result<(), String> {
    let check = GradCheck::new().input("x", vector(&[1.0, 3.0, 2.0], device));
    let report = failed(check.check(|at| at.get::<1>("x") * at.get::<1>("x").detach()))?;
    let worst = report.input("x").and_then(|input| input.worst.clone());
    let worst = worst.ok_or("there is no worst number")?;
    // The weights of the outputs are between 1/2 and 1, so it is the second or the third.
    let at = matches!(&worst.place, Place::Index(index) if index[0] > 0);
    if !at || (worst.difference - 2.0 * worst.gradient).abs() > 1e-8 {
        return Err(format!("{worst:?}"));
    }
    says(&report, "x: FAILED: 3 of 3, worst at [")
}

/// One wrong output among a thousand is seen: no weight is small, and the worst number is named.
fn wrong_at_one_output(device: &Device) -> Result<(), String> {
    let check = GradCheck::new().input("x", numbers([1000], device));
    let report = failed(check.check(|at| {
        let x: Tensor<1> = at.get("x");
        let one = x.clone().narrow(0, 500, 1);
        let one = one.clone() + one.detach() * 1e-6;
        Tensor::cat(
            vec![x.clone().narrow(0, 0, 500), one, x.narrow(0, 501, 499)],
            0,
        )
    }))?;
    says(&report, "x: FAILED: 1 of 1000, worst at [500]")
}

fn missing(device: &Device) -> Result<(), String> {
    let check = GradCheck::new()
        .input("x", numbers([3], device))
        .input("w", numbers([3], device));
    let report = failed(check.check(|at| at.get::<1>("x").detach() * at.get::<1>("w")))?;
    says(&report, "x: no gradient; FAILED: 3 of 3")?;
    let all_missing = failed(check.check(|at| (at.get::<1>("x") * at.get::<1>("w")).inner()))?;
    says(&all_missing, "w: no gradient; FAILED: 3 of 3")
}

fn rightly_missing(device: &Device) -> Result<(), String> {
    let check = GradCheck::new()
        .input("x", numbers([3], device))
        .input("unused", numbers([2, 2], device));
    let report = passed(check.check(|at| at.get::<1>("x").exp()))?;
    match report.input("unused").map(|input| &input.finding) {
        Some(Finding::Absent) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn unasked(device: &Device) -> Result<(), String> {
    let check = GradCheck::new()
        .input("x", numbers([3], device))
        .constant("c", numbers([3], device));
    let report = check.check(|at| at.get::<1>("x") * at.get::<1>("c").require_grad());
    says(
        &failed(report)?,
        "c: FAILED: a gradient, though none was asked for",
    )
}

fn not_a_number(device: &Device) -> Result<(), String> {
    // The root of zero has a slope of infinity, and no left side.
    let check = GradCheck::new().input("x", vector(&[0.0, 1.0], device));
    let report = failed(check.check(|at| at.get::<1>("x").sqrt()))?;
    says(&report, "x: FAILED: 1 of 2, worst at [0]")?;
    // A gradient that is none, of a function that is fine.
    let report = failed(check.check(|at| {
        let x: Tensor<1> = at.get("x");
        x.clone().powi_scalar(2).sqrt() + x * 2.0
    }))?;
    says(&report, "NaN")?;
    let report = failed(check.check(|at| at.get::<1>("x") * f64::NAN))?;
    says(&report, "the function is NaN here")
}

fn not_repeatable(device: &Device) -> Result<(), String> {
    let calls = std::cell::Cell::new(0.0);
    let check = GradCheck::new().input("x", numbers([2], device));
    let report = check.check(|at| {
        calls.set(calls.get() + 1.0);
        at.get::<1>("x") * calls.get()
    });
    says(
        &failed(report)?,
        "a second call of the function gave another value",
    )
}

fn kinks(device: &Device) -> Result<(), String> {
    let check = GradCheck::new().input("x", vector(&[1.0, 0.0, -1.0], device));
    let report = passed(check.check(|at| relu(at.get::<1>("x"))))?;
    let kinks = &report.inputs[0].kinks;
    match kinks.as_slice() {
        [kink] if kink.place == Place::Index(vec![1]) && (kink.left - kink.right).abs() > 0.4 => {
            says(&report, "a kink at [1]: gradient 0e0, slopes ")
        }
        _ => Err(format!("{kinks:?}")),
    }
}

/// Within reach of the longest step, out of reach of the shortest.
fn kink_nearby(device: &Device) -> Result<(), String> {
    let check = GradCheck::new().input("x", vector(&[1e-4, -1e-4], device));
    let report = passed(check.check(|at| relu(at.get::<1>("x"))))?;
    match report.inputs[0].kinks.is_empty() {
        true => Ok(()),
        false => Err(report.to_string()),
    }
}

/// At a corner any slope between both sides will do, and no other.
fn wrong_at_a_kink(device: &Device) -> Result<(), String> {
    let check = GradCheck::new().input("x", vector(&[0.0], device));
    passed(check.check(|at| at.get::<1>("x").abs()))?;
    let steep = |at: &gru_op::gradcheck::Inputs| {
        let x: Tensor<1> = at.get("x");
        // 2x to autodiff, nothing to the differences.
        x.clone().abs() + x.clone() * 2.0 - x.detach() * 2.0
    };
    failed(check.check(steep)).map(|_| ())
}

/// A direction sees a wrong number among many, with few calls, and is the same for the same seed.
fn directions(device: &Device) -> Result<(), String> {
    let check = GradCheck::new()
        .input("x", numbers([40, 50], device))
        .directions(3, 7);
    let calls = std::cell::Cell::new(0);
    let right = |at: &gru_op::gradcheck::Inputs| {
        calls.set(calls.get() + 1);
        at.get::<2>("x").tanh()
    };
    let report = passed(check.check(right))?;
    if calls.get() != 3 + 4 * 3 || report.inputs[0].compared != 3 {
        return Err(format!("{} calls\n{report}", calls.get()));
    }
    if check.check(right) != report {
        return Err("the same seed gave another report".into());
    }
    let report = check.check(|at| {
        let x: Tensor<2> = at.get("x");
        let row = x.clone().narrow(0, 17, 1);
        x.clone().tanh().sum() + row.detach().sum() * 1e-3
    });
    says(&failed(report)?, "along the direction of seed ")
}

fn empty_input(device: &Device) -> Result<(), String> {
    let check = GradCheck::new()
        .input("x", Tensor::<2>::zeros([0, 3], (device, DType::F64)))
        .input("y", numbers([2], device));
    let report = passed(check.check(|at| at.get::<1>("y") * 2.0))?;
    says(&report, "x: no gradient; 0 compared")
}

fn misuse(device: &Device) -> Result<(), String> {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let panics = |says: &str, call: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(call)).err();
        let panic = panic.ok_or_else(|| format!("expected a panic that says {says:?}"))?;
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
        match text {
            Some(text) if text.contains(says) => Ok(()),
            other => Err(format!("{other:?}, expected {says:?}")),
        }
    };
    let one = || GradCheck::new().input("x", numbers([2], device));
    panics("expected at least one input", &|| {
        GradCheck::new().check(|at| at.get::<1>("x"));
    })?;
    panics("expected one of the inputs [\"x\"], got \"y\"", &|| {
        one().check(|at| at.get::<1>("y"));
    })?;
    panics(
        "x must be asked for with its rank, expected 1, got 2",
        &|| {
            one().check(|at| at.get::<2>("x"));
        },
    )?;
    panics("got x twice", &|| {
        one().input("x", numbers([1], device));
    })?;
    panics("the function must return float64, got F32", &|| {
        one().check(|at| at.get::<1>("x").cast(DType::F32));
    })?;
    panics("step must be positive", &|| {
        GradCheck::new().step(0.0);
    })?;
    panics("tolerance must be positive", &|| {
        GradCheck::new().tolerance(f64::NAN);
    })?;
    panics("directions must be positive", &|| {
        GradCheck::new().directions(0, 1);
    })?;
    panics("gradients are wrong:\nx: FAILED", &|| {
        one()
            .check(|at| at.get::<1>("x") * at.get::<1>("x").detach())
            .assert();
    })
}

/// The whole module: layers in both directions with lengths, its input and its state.
fn block(device: &Device) -> Result<(), String> {
    let (i, h) = (3, 4);
    let config = GruBlockConfig::new(i, h)
        .with_num_layers(2)
        .with_bidirectional(true);
    let weights = |inputs: usize, scale: f64| {
        GruWeights::new(
            numbers([inputs, 3 * h], device) * scale,
            numbers([h, 3 * h], device) * scale,
        )
        .with_b_ih(numbers([3 * h], device) * scale)
        .with_b_hh(numbers([3 * h], device) * -scale)
    };
    for config in [config.clone(), config.with_reset(Reset::BeforeMatmul)] {
        let layers = vec![
            weights(i, 0.5),
            weights(i, -0.3),
            weights(2 * h, 0.4),
            weights(2 * h, -0.2),
        ];
        let block = config.init_with(layers).map_err(|e| e.to_string())?;
        let report = GradCheck::new()
            .input("x", numbers([2, 3, i], device))
            .input("state", numbers([4, 2, h], device))
            .check(|at| {
                let options = SequenceOptions::new()
                    .state(at.get("state"))
                    .lengths(&[3, 1]);
                let (y, state) = block.forward_with(at.get("x"), options);
                Tensor::cat(vec![y.reshape([-1]), state.reshape([-1])], 0)
            });
        passed(report)?;
    }
    Ok(())
}

/// The operator with all that it may be given, a kink among its activations.
fn sequence(device: &Device) -> Result<(), String> {
    let activations = Activations {
        candidate: Activation::Softsign,
        ..Activations::default()
    };
    let (n, t, i, h) = (2, 3, 3, 4);
    for (reset, update) in [
        (Reset::AfterMatmul, Update::Takes),
        (Reset::BeforeMatmul, Update::Keeps),
    ] {
        let spec = GruSpec::default()
            .with_reset(reset)
            .with_update(update)
            .with_activations(activations);
        let report = GradCheck::new()
            .input("x", numbers([n, t, i], device))
            .input("h0", numbers([n, h], device))
            .input("w_ih", numbers([i, 3 * h], device) * 0.5)
            .input("w_hh", numbers([h, 3 * h], device) * 0.5)
            .input("b_ih", numbers([3 * h], device))
            .input("b_hh", numbers([h], device))
            .constant("mask", numbers([n, h], device).abs())
            .constant("zoneout", numbers([n, t, 1], device).abs())
            .check(|at| {
                let weights = GruWeights::new(at.get("w_ih"), at.get("w_hh"))
                    .with_b_ih(at.get("b_ih"))
                    .with_b_hh(at.get("b_hh"));
                let options = SequenceOptions::new()
                    .state(at.get("h0"))
                    .recurrent_mask(at.get::<2>("mask"))
                    .zoneout(at.get::<3>("zoneout"))
                    .lengths(&[2, 3]);
                let (y, last) = gru_sequence_with(at.get("x"), &weights, &spec, options);
                Tensor::cat(vec![y.reshape([-1]), last.reshape([-1])], 0)
            });
        passed(report)?;
    }
    Ok(())
}
