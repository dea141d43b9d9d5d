//! NaN and infinities through Burn. Every result of the kernels has the same kind (NaN, ±∞ or finite) as
//! the result of the float64 oracle and of PyTorch. WGSL gives no guarantees about NaN, so on a GPU these tests
//! depend on the driver.

use burn::tensor::{DType, Device};
use gru_op::{Activation, Activations, Checkpointing, GruSpec, Reset};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    conformance::transposed,
    inputs::Inputs,
    oracle::{self, Call},
    problem::Problem,
};
use libtest_mimic::Trial;
use safetensors::SafeTensors;

use super::{
    backends::TestBackend,
    call::{self, How},
};

const TENSORS: [&str; 7] = ["x", "h0", "w_ih", "w_hh", "b_ih", "b_hh", "d_y"];
const MODES: [(&str, Checkpointing); 2] = [
    ("speed", Checkpointing::KeepGates),
    ("lean", Checkpointing::Recompute),
];
const BAD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// One trial for each tensor with a non-finite value, reset form and checkpointing mode, PyTorch's runs, and two
/// trials with zoneout.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in backends {
        for (mode, checkpointing) in MODES {
            let id = format!("nonfinite/pytorch-{mode}/{}", backend.id(DType::F32));
            trials.push(backend.trial(id, move |device| check_pytorch(checkpointing, device)));
        }
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            for (mode, checkpointing) in MODES {
                for name in TENSORS {
                    let id = format!("nonfinite/{reset:?}-{mode}-{name}").to_lowercase();
                    let id = format!("{id}/{}", backend.id(DType::F32));
                    let spec = GruSpec::default().with_reset(reset);
                    let problem = Problem::new(3, 4, 2, 18)
                        .with_spec(spec)
                        .with_checkpointing(checkpointing);
                    trials.push(backend.trial(id, move |device| {
                        BAD.into_iter()
                            .try_for_each(|bad| check(name, bad, &problem, device))
                    }));
                }
            }
        }
        for (name, problem) in with_zoneout() {
            let id = format!("nonfinite/zoneout-{name}/{}", backend.id(DType::F32));
            trials.push(backend.trial(id, move |device| {
                let mut places = TENSORS.into_iter().chain(["idle h0"]);
                places.try_for_each(|place| check_zoneout(place, &problem, device))
            }));
        }
    }
    trials
}

/// Both reset forms, each with one checkpointing mode. Their clips and activations compare numbers.
fn with_zoneout() -> [(&'static str, Problem); 2] {
    let choosing = Activations {
        reset: Activation::HardSigmoid {
            alpha: 0.2,
            beta: 0.5,
        },
        update: Activation::Sigmoid,
        candidate: Activation::Relu,
    };
    let after = GruSpec::default().with_clip_gates(Some(3.0));
    let before = GruSpec::default()
        .with_reset(Reset::BeforeMatmul)
        .with_activations(choosing)
        .with_clip_state(Some(3.0));
    let problem = Problem::new(3, 4, 2, 18);
    let lean = problem.with_checkpointing(Checkpointing::Recompute);
    [
        ("after", problem.with_spec(after)),
        ("before", lean.with_spec(before)),
    ]
}

/// The number in the middle of a tensor, or the last number of `h0`, which is of row 2.
fn number<'a>(inputs: &'a mut Inputs, place: &str) -> &'a mut f64 {
    let tensor = match place {
        "x" => Some(&mut inputs.x),
        "h0" | "idle h0" => inputs.h0.as_mut(),
        "w_ih" => Some(&mut inputs.w_ih),
        "w_hh" => Some(&mut inputs.w_hh),
        "b_ih" => inputs.b_ih.as_mut(),
        "b_hh" => inputs.b_hh.as_mut(),
        _ => Some(&mut inputs.d_y),
    };
    let tensor = tensor.expect("the problem has every tensor");
    let at = match place {
        "idle h0" => tensor.len() - 1,
        _ => tensor.len() * 5 / 9,
    };
    &mut tensor[at]
}

fn check(name: &str, bad: f64, problem: &Problem, device: &Device) -> Result<(), String> {
    let mut inputs = Inputs::random(problem);
    *number(&mut inputs, name) = bad;
    let expected = oracle::outcome(problem, &inputs);
    let got = call::of(problem, &inputs, device, DType::F32)?;
    same_kinds(&got, &expected, kind).map_err(|e| format!("{bad} in {name}: {e}"))
}

/// The same for NaN, with a zoneout that keeps nothing of the previous state. Row 2 has no valid steps: no NaN reaches
/// it, and only its final state depends on its initial state.
fn check_zoneout(place: &str, problem: &Problem, device: &Device) -> Result<(), String> {
    let &Problem { n, t, .. } = problem;
    let mut inputs = Inputs::random(problem);
    *number(&mut inputs, place) = f64::NAN;
    let call = Call {
        zoneout: Some(vec![0.0; n * t]),
        ..Call::of(problem, &inputs)
    };
    let call = call::with_lengths(call, &[t, t, 0]);
    let how = How {
        lengths: Some(&[t, t, 0]),
        checkpointing: problem.checkpointing,
        ..How::default()
    };
    let upstream = [&inputs.d_y[..], &inputs.d_h_t];
    let got = call::on(device, DType::F32, &call, upstream, &how)?;
    same_kinds(&got, &call::expected(&call, upstream, &how), kind)
        .map_err(|e| format!("NaN in {place}: {e}"))
}

/// Every run that `tests/data/nonfinite/generate.py` recorded.
fn check_pytorch(checkpointing: Checkpointing, device: &Device) -> Result<(), String> {
    let path = crate::data().join("nonfinite/torch.safetensors");
    let bytes = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|e| e.to_string())?;
    let problem = Problem::new(3, 4, 2, 5).with_checkpointing(checkpointing);
    let &Problem { n, i, h, .. } = &problem;
    let mut cases: Vec<&str> = file
        .names()
        .iter()
        .filter_map(|name| name.split('/').next())
        .collect();
    cases.sort_unstable();
    cases.dedup();
    if cases.len() != TENSORS.len() * BAD.len() {
        return Err(format!("{} cases", cases.len()));
    }
    for case in cases {
        let numbers = |name: &str| -> Result<Vec<f64>, String> {
            let tensor = file
                .tensor(&format!("{case}/{name}"))
                .map_err(|e| e.to_string())?;
            let (numbers, _) = tensor.data().as_chunks();
            Ok(numbers
                .iter()
                .map(|b| f32::from_le_bytes(*b).into())
                .collect())
        };
        // PyTorch's weights have gates as rows.
        let turned = |name: &str, columns| {
            Ok(transposed(&numbers(name)?, 3 * h, columns)) as Result<_, String>
        };
        let inputs = Inputs {
            x: numbers("in.x")?,
            h0: Some(numbers("in.h0")?),
            w_ih: turned("in.w_ih", i)?,
            w_hh: turned("in.w_hh", h)?,
            b_ih: Some(numbers("in.b_ih")?),
            b_hh: Some(numbers("in.b_hh")?),
            d_y: numbers("in.d_y")?,
            d_h_t: vec![0.0; n * h],
        };
        let mut expected = Outcome::default();
        for name in ["y", "h_t"] {
            expected
                .outputs
                .insert(name.into(), numbers(&format!("out.{name}"))?);
        }
        expected.gradients = Tensors::from([
            ("x".into(), numbers("grad.x")?),
            ("h0".into(), numbers("grad.h0")?),
            ("w_ih".into(), turned("grad.w_ih", i)?),
            ("w_hh".into(), turned("grad.w_hh", h)?),
            ("b_ih".into(), numbers("grad.b_ih")?),
            ("b_hh".into(), numbers("grad.b_hh")?),
        ]);
        let got = call::of(&problem, &inputs, device, DType::F32)?;
        // If a gradient is infinite, PyTorch's form of the blend, `n + z (h − n)`, gives NaN: ∞ − z·∞.
        let finite_or_not = |v: f64| if v.is_finite() { 0.0 } else { f64::NAN };
        same_kinds(&got, &expected, finite_or_not).map_err(|e| format!("{case}: {e}"))?;
    }
    Ok(())
}

/// Compares which values are NaN, and which are infinite with which sign. Other suites compare the values.
fn same_kinds(
    got: &Outcome,
    expected: &Outcome,
    of_gradient: fn(f64) -> f64,
) -> Result<(), String> {
    let of = |tensors: &Tensors, of_value: fn(f64) -> f64| -> Tensors {
        let kinds = |values: &Vec<f64>| values.iter().map(|&v| of_value(v)).collect();
        let tensors = tensors.iter();
        tensors.map(|(name, v)| (name.clone(), kinds(v))).collect()
    };
    let kinds = |outcome: &Outcome| Outcome {
        outputs: of(&outcome.outputs, kind),
        gradients: of(&outcome.gradients, of_gradient),
    };
    let exact = Tolerance {
        forward: 0.0,
        gradient: 0.0,
    };
    kinds(got).compare(&kinds(expected), exact)
}

/// NaN, an infinity, or 0 for a finite value.
fn kind(v: f64) -> f64 {
    if v.is_finite() { 0.0 } else { v }
}
