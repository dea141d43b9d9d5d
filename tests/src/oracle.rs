//! Compares the oracle itself with recorded vectors of other frameworks. All other suites rely on the
//! oracle.

use gru_op::{Activation, Activations, Direction, Layout, Reset, Update};
use gru_testkit::{
    close::{Tolerance, close},
    conformance::{Case, CaseSpec},
    oracle::{self, Call, Skipped},
    problem::Problem,
};
use libtest_mimic::Trial;

use super::{backends::TestBackend, conformance::mps_graph, vectors};

pub fn trials(_: &[TestBackend]) -> Vec<Trial> {
    let of = |kind, check: fn(&Case) -> Result<(), String>| {
        let specs = vectors::of_kind(kind).into_iter();
        specs.map(move |spec| trial(spec, check))
    };
    of("grad_f64", check_grad_f64)
        .chain(of("onnx_gru", check_onnx))
        .chain(of("mpsgraph_gru", check_mps))
        .collect()
}

fn trial(spec: CaseSpec, check: fn(&Case) -> Result<(), String>) -> Trial {
    Trial::test(format!("oracle/{}", spec.name()), move || {
        Ok(check(&spec.load(vectors::directory()))?)
    })
}

fn check_grad_f64(case: &Case) -> Result<(), String> {
    let (problem, inputs, expected) = vectors::grad_f64(case, ".f64");
    oracle::outcome(&problem, &inputs).compare(&expected, Tolerance::F64)
}

/// Part `d` of `directions` of every row.
fn part(data: &[f64], rows: usize, d: usize, directions: usize) -> Vec<f64> {
    let len = data.len() / (rows * directions);
    let parts = data.chunks_exact(len).skip(d).step_by(directions);
    parts.flatten().copied().collect()
}

/// All of ONNX: activations with parameters, clip, lengths, both reset forms, directions and layouts.
fn check_onnx(case: &Case) -> Result<(), String> {
    let spec = &case.spec;
    let direction = spec.option("direction").as_str().unwrap_or("forward");
    let directions = if direction == "bidirectional" { 2 } else { 1 };
    let activations = onnx_activations(spec, directions);
    let batch_major = spec.number("layout") == Some(1);
    let mut problem = vectors::sizes(spec);
    problem.spec.clip_gates = spec.option("clip").as_f64();
    if batch_major {
        problem.order.layout = Layout::BatchMajor;
    }
    if spec.number("linear_before_reset") == Some(0) {
        problem.spec.reset = Reset::BeforeMatmul;
    }
    for (d, &activations) in activations.iter().enumerate() {
        if direction == "reverse" || d == 1 {
            problem.order.direction = Direction::Reverse;
        }
        problem.spec.activations = activations;
        let &Problem { n, t, h, .. } = &problem;
        // Batch-major ONNX has D after N, time-major has D before N. Outputs also have D after T.
        let (state_rows, y_rows) = if batch_major { (n, n * t) } else { (1, t) };
        let of = |name: &str, rows| Some(part(&case.get(name)?.data, rows, d, directions));
        let columns = |rows: &[f64]| vectors::columns(rows, 3 * h, [1, 0, 2]);
        let weight = |name| columns(&of(name, 1).expect("every case has weights"));
        let bias = |half: usize| of("in.B", 1).map(|b| columns(&b[half * 3 * h..][..3 * h]));
        let valid = case.get("in.sequence_lens").map(|lens| {
            let steps = (0..t).flat_map(|time| lens.data.iter().map(move |&len| len > time as f64));
            steps.map(f64::from).collect::<Vec<f64>>()
        });
        let (x, w_hh) = (case.tensor("in.X").data.clone(), weight("in.R"));
        let call = Call {
            h0: of("in.initial_h", state_rows),
            w_ih: Some(weight("in.W")),
            b_ih: bias(0),
            b_hh: bias(1),
            step_mask: valid,
            skipped: Skipped::Zero,
            order: problem.order,
            ..Call::new(problem.spec, [n, t, h], x, w_hh)
        };
        let run = call.forward();
        let tolerance = case.tolerance().forward;
        for (name, got, rows) in [("Y", run.y, y_rows), ("Y_h", run.h_t, state_rows)] {
            let expected = of(&format!("out.{name}"), rows).expect("every case has outputs");
            close(name, &got, &expected, tolerance)?;
        }
    }
    Ok(())
}

/// `f` for r and z, `g` for n, per direction. Activations with parameters use them in order.
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

/// Both update rules, one activation per gate, both gate orders, reverse, bidirectional, recurrent
/// masks, projected sources. The records include the gates.
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
    problem.spec.activations = Activations {
        reset: mps_graph::activation(spec, "resetGateActivation", Activation::Sigmoid),
        update: mps_graph::activation(spec, "updateGateActivation", Activation::Sigmoid),
        candidate: mps_graph::activation(spec, "outputGateActivation", Activation::Tanh),
    };
    let order = if flag("resetGateFirst") {
        [0, 1, 2]
    } else {
        [1, 0, 2]
    };
    let &Problem { n, t, h, .. } = &problem;
    let directions = if flag("bidirectional") { 2 } else { 1 };
    for d in 0..directions {
        if flag("reverse") || d == 1 {
            problem.order.direction = Direction::Reverse;
        }
        let of = |name: &str, rows| Some(part(&case.get(name)?.data, rows, d, directions));
        let columns = |name: &str| Some(vectors::columns(&of(name, 1)?, 3 * h, order));
        let w_ih = columns("in.inputWeight");
        let x = match w_ih {
            Some(_) => case.tensor("in.source").data.clone(),
            None => {
                let source = of("in.source", t * n).expect("every case has a source");
                let rows = source.chunks_exact(3 * h);
                rows.flat_map(|row| order.map(|gate| &row[gate * h..][..h]).concat())
                    .collect()
            }
        };
        let w_hh = columns("in.recurrentWeight").expect("every case has one");
        let call = Call {
            h0: of("in.initState", n),
            w_ih,
            b_ih: columns("in.bias"),
            // The secondary bias is of the candidate.
            b_hh: of("in.secondaryBias", 1).map(|b| [vec![0.0; 2 * h], b].concat()),
            recurrent_mask: of("in.mask", n),
            order: problem.order,
            ..Call::new(problem.spec, [n, t, h], x, w_hh)
        };
        let run = call.forward();
        let [r, z, candidate] = run.gates;
        for (name, got) in [
            ("out.h", run.y),
            ("aux.r", r),
            ("aux.z", z),
            ("aux.o", candidate),
        ] {
            let expected = of(name, t * n).expect("every case has states and gates");
            close(name, &got, &expected, case.tolerance().forward)?;
        }
    }
    Ok(())
}
