//! The oracle itself, against the recorded vectors of other frameworks: what every other suite
//! trusts is not only our own reading of the equations.

use gru_op::{Activation, Activations, Direction, Layout, Reset, Update};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    conformance::{Case, CaseSpec},
    inputs::Inputs,
    oracle,
    problem::Problem,
};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use super::{backends::TestBackend, vectors};

/// One trial per case that a single direction without lengths and masks can express.
pub fn trials(_: &[TestBackend]) -> Vec<Trial> {
    let grad_f64 = vectors::of_kind("grad_f64").into_iter();
    let onnx = vectors::of_kind("onnx_gru").into_iter();
    let mps = vectors::of_kind("mpsgraph_gru").into_iter();
    let mut trials: Vec<Trial> = grad_f64
        .map(|spec| trial(spec, check_grad_f64))
        .chain(onnx.filter(is_plain).map(|spec| trial(spec, check_onnx)))
        .chain(mps.filter(is_plain).map(|spec| trial(spec, check_mps)))
        .collect();
    let count = trials.len();
    trials.push(Trial::test("oracle/number-of-cases", move || {
        // 6 grad_f64, 46 onnx less 6 with lengths, 35 mpsgraph less 4 masked, 3 without input
        // weight and 4 more in two directions.
        match count {
            70 => Ok(()),
            _ => Err(Failed::from(format!("{count} cases, expected 70"))),
        }
    }));
    trials
}

fn trial(spec: CaseSpec, check: fn(&Case) -> Result<(), String>) -> Trial {
    Trial::test(format!("oracle/{}", spec.name()), move || {
        Ok(check(&spec.load(vectors::directory()))?)
    })
}

fn is_plain(spec: &CaseSpec) -> bool {
    let without_lengths = spec.option("lengths").is_null();
    let mps_extras = spec.flag("mask") == Some(true)
        || spec.flag("inputWeight") == Some(false)
        || spec.flag("bidirectional") == Some(true);
    without_lengths && !mps_extras
}

/// Outputs and gradients.
fn check_grad_f64(case: &Case) -> Result<(), String> {
    let (problem, inputs, expected) = vectors::grad_f64(case, ".f64");
    oracle::outcome(&problem, &inputs).compare(&expected, Tolerance::F64)
}

fn run(problem: &Problem, inputs: &Inputs) -> Outcome {
    let forward = oracle::forward(problem, inputs);
    outputs(forward.y, forward.h_t)
}

fn outputs(y: Vec<f64>, h_t: Vec<f64>) -> Outcome {
    Outcome {
        outputs: Tensors::from([("y".into(), y), ("h_t".into(), h_t)]),
        gradients: Tensors::new(),
    }
}

/// All of ONNX: activations with their parameters, clip, both resets, directions and layouts.
fn check_onnx(case: &Case) -> Result<(), String> {
    let spec = &case.spec;
    let direction = spec.option("direction").as_str().unwrap_or("forward");
    let directions = if direction == "bidirectional" { 2 } else { 1 };
    let activations = onnx_activations(spec, directions);
    let batch_major = spec.number("layout") == Some(1);
    let mut problem = vectors::sizes(spec);
    problem.spec.clip_gates = spec.option("clip").as_f64();
    if batch_major {
        problem.spec.layout = Layout::BatchMajor;
    }
    if spec.number("linear_before_reset") == Some(0) {
        problem.spec.reset = Reset::BeforeMatmul;
    }
    for d in 0..directions {
        if direction == "reverse" || d == 1 {
            problem.spec.direction = Direction::Reverse;
        }
        problem.spec.activations = activations[d];
        let &Problem { n, t, h, .. } = &problem;
        let gates = 3 * h;
        let part = |name: &str| {
            let data = &case.get(name)?.data;
            let len = data.len() / directions;
            Some(&data[d * len..][..len])
        };
        // [.., D, ..] of row after row: the d-th of `directions` at each outer index.
        let strided = |name: &str, outer: usize| -> Option<Vec<f64>> {
            let data = &case.get(name)?.data;
            let inner = data.len() / (outer * directions);
            let rows = data.chunks_exact(inner).skip(d).step_by(directions);
            Some(rows.flatten().copied().collect())
        };
        // Batch-major ONNX has D behind N, time-major before it; outputs have it behind T too.
        let (state_outer, y_outer) = if batch_major { (n, n * t) } else { (1, t) };
        let columns = |rows: &[f64]| vectors::columns(rows, gates, [1, 0, 2]);
        let bias = |half: usize| part("in.B").map(|b| columns(&b[half * gates..][..gates]));
        let inputs = Inputs {
            x: case.tensor("in.X").data.clone(),
            h0: strided("in.initial_h", state_outer),
            w_ih: columns(part("in.W").expect("every case has W")),
            w_hh: columns(part("in.R").expect("every case has R")),
            b_ih: bias(0),
            b_hh: bias(1),
            d_y: Vec::new(),
            d_h_t: Vec::new(),
        };
        let y = strided("out.Y", y_outer).expect("every case has Y");
        let h_t = strided("out.Y_h", state_outer).expect("every case has Y_h");
        run(&problem, &inputs).compare(&outputs(y, h_t), case.tolerance())?;
    }
    Ok(())
}

/// `f` for r and z, `g` for n, per direction. Parameters are consumed in order by the activations
/// that have them.
fn onnx_activations(spec: &CaseSpec, directions: usize) -> Vec<Activations> {
    let list = |name: &str| spec.option(name).as_array().cloned().unwrap_or_default();
    let numbers = |name: &str| {
        list(name)
            .into_iter()
            .map(|v| v.as_f64().expect("a number"))
    };
    let (mut alphas, mut betas) = (numbers("activation_alpha"), numbers("activation_beta"));
    let parsed: Vec<Activation> = list("activations")
        .iter()
        .map(|name| {
            let mut alpha = |default| alphas.next().unwrap_or(default);
            let mut beta = |default| betas.next().unwrap_or(default);
            match name.as_str().expect("a name") {
                "Sigmoid" => Activation::Sigmoid,
                "Tanh" => Activation::Tanh,
                "Relu" => Activation::Relu,
                "Softsign" => Activation::Softsign,
                "Softplus" => Activation::Softplus,
                "HardSigmoid" => Activation::HardSigmoid {
                    alpha: alpha(0.2),
                    beta: beta(0.5),
                },
                "Affine" => Activation::Affine {
                    alpha: alpha(1.0),
                    beta: beta(0.0),
                },
                "ScaledTanh" => Activation::ScaledTanh {
                    alpha: alpha(1.0),
                    beta: beta(1.0),
                },
                "LeakyRelu" => Activation::LeakyRelu { alpha: alpha(0.01) },
                "ThresholdedRelu" => Activation::ThresholdedRelu { alpha: alpha(1.0) },
                "Elu" => Activation::Elu { alpha: alpha(1.0) },
                other => panic!("{}: activation {other}", spec.name()),
            }
        })
        .collect();
    let of_direction = |pair: &[Activation]| Activations {
        reset: pair[0],
        update: pair[0],
        candidate: pair[1],
    };
    if parsed.is_empty() {
        return vec![Activations::default(); directions];
    }
    parsed.chunks_exact(2).map(of_direction).collect()
}

/// Both update rules, one activation per gate, either gate order, reverse.
fn check_mps(case: &Case) -> Result<(), String> {
    let spec = &case.spec;
    let flag = |name: &str| spec.flag(name) == Some(true);
    let mut problem = vectors::sizes(spec);
    problem.spec.update = match spec.option("update_rule").as_str() {
        Some("z*h+(1-z)*o") => Update::Keeps,
        Some("(1-z)*h+z*o") => Update::Takes,
        other => panic!("{}: update_rule {other:?}", spec.name()),
    };
    if !flag("resetAfter") {
        problem.spec.reset = Reset::BeforeMatmul;
    }
    if flag("reverse") {
        problem.spec.direction = Direction::Reverse;
    }
    problem.spec.activations = Activations {
        reset: mps_activation(spec, "resetGateActivation", Activation::Sigmoid),
        update: mps_activation(spec, "updateGateActivation", Activation::Sigmoid),
        candidate: mps_activation(spec, "outputGateActivation", Activation::Tanh),
    };
    let order = if flag("resetGateFirst") {
        [0, 1, 2]
    } else {
        [1, 0, 2]
    };
    let &Problem { n, h, .. } = &problem;
    let columns = |name: &str| Some(vectors::columns(&case.get(name)?.data, 3 * h, order));
    let data = |name: &str| Some(case.get(name)?.data.clone());
    // The second bias belongs to the candidate alone.
    let b_hh = data("in.secondaryBias").map(|bias| [vec![0.0; 2 * h], bias].concat());
    let inputs = Inputs {
        x: case.tensor("in.source").data.clone(),
        h0: data("in.initState"),
        w_ih: columns("in.inputWeight").expect("cases without are left out"),
        w_hh: columns("in.recurrentWeight").expect("every case has one"),
        b_ih: columns("in.bias"),
        b_hh,
        d_y: Vec::new(),
        d_h_t: Vec::new(),
    };
    let y = case.tensor("out.h").data.clone();
    let end = match problem.spec.direction {
        Direction::Forward => y.len() - n * h,
        Direction::Reverse => 0,
    };
    let h_t = y[end..][..n * h].to_vec();
    run(&problem, &inputs).compare(&outputs(y, h_t), case.tolerance())
}

fn mps_activation(spec: &CaseSpec, gate: &str, default: Activation) -> Activation {
    let parameter = |index: usize| spec.option("hardSigmoid")[index].as_f64();
    match spec.option(gate) {
        Value::Null => default,
        Value::String(name) => match name.as_str() {
            "sigmoid" => Activation::Sigmoid,
            "tanh" => Activation::Tanh,
            "relu" => Activation::Relu,
            "none" => Activation::Identity,
            "hardSigmoid" => Activation::HardSigmoid {
                alpha: parameter(0).unwrap_or(0.2),
                beta: parameter(1).unwrap_or(0.5),
            },
            other => panic!("{}: activation {other}", spec.name()),
        },
        other => panic!("{}: activation {other}", spec.name()),
    }
}
