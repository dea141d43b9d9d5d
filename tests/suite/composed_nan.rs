//! NaN through the passes that are composed of Burn's operations: what runs where there is no
//! kernel, as blended states on a GPU. WGSL promises nothing of NaN: there these are tests of this
//! driver.

use burn::tensor::{DType, Device, Tensor};
use gru_op::{
    Activation, Activations, GruOptions, GruSpec, Memory, Reset, Steps, gru_sequence_with,
};
use gru_testkit::{inputs::Inputs, problem::Problem};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    runs::{Leaves, loss, values},
};

const N: usize = 3;
const T: usize = 3;

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let choosing = Activations {
        reset: Activation::HardSigmoid {
            alpha: 0.2,
            beta: 0.5,
        },
        update: Activation::Sigmoid,
        candidate: Activation::Relu,
    };
    let specs = [
        ("after", GruSpec::default().with_clip_gates(Some(3.0))),
        (
            "before",
            GruSpec::default()
                .with_reset(Reset::BeforeMatmul)
                .with_activations(choosing)
                .with_clip_state(Some(3.0))
                .with_memory(Memory::Lean),
        ),
    ];
    let mut trials = Vec::new();
    for backend in backends.iter().filter(|backend| backend.slow) {
        for (name, spec) in specs {
            let id = format!("composed-nan/{name}/{}", backend.name);
            trials.push(backend.trial(id, move |device| every_input(device, spec)));
        }
    }
    trials
}

/// NaN in each input shows in the states and in its own gradient, and of x and h0 in no other row;
/// at a skipped step it shows nowhere.
fn every_input(device: &Device, spec: GruSpec) -> Result<(), String> {
    let problem = Problem::new(N, T, 2, 4).with_spec(spec);
    for place in [
        "nothing", "x", "h0", "w_ih", "w_hh", "b_ih", "b_hh", "padding",
    ] {
        let mut inputs = Inputs::random(&problem);
        for (name, numbers) in inputs.differentiable_mut() {
            match name {
                // Row 2 skips its last step.
                "x" if place == "padding" => *numbers.last_mut().unwrap() = f64::NAN,
                _ if name == place => numbers[1] = f64::NAN,
                _ => {}
            }
        }
        let outcome = run(&problem, &inputs, device)?;
        let is_nan = |numbers: &[f64]| numbers.iter().any(|x| x.is_nan());
        let is_clean = ["nothing", "padding"].contains(&place);
        for (name, numbers) in &outcome {
            // NaN in a row's input is in its own part of what belongs to rows.
            let of_row = numbers.len() / N;
            let by_row = matches!(*name, "y" | "x" | "h0") && matches!(place, "x" | "h0");
            if is_nan(numbers) == is_clean {
                return Err(format!("NaN in {place}: {name} is {numbers:?}"));
            }
            if by_row && is_nan(&numbers[of_row..]) {
                return Err(format!("NaN in row 0 of {place}: {name} is {numbers:?}"));
            }
        }
    }
    Ok(())
}

/// States and gradients with all of the new state taken, which no GPU kernel does.
fn run(
    problem: &Problem,
    inputs: &Inputs,
    device: &Device,
) -> Result<Vec<(&'static str, Vec<f64>)>, String> {
    let leaves = Leaves::new(problem, inputs, device, DType::F32);
    let options = GruOptions {
        h0: leaves.h0.clone(),
        take: Some(Tensor::ones([N, T, 1], &leaves.x.device())),
        steps: Steps::Lengths(vec![T, T, T - 1]),
        ..Default::default()
    };
    let (x, spec) = (leaves.x.clone(), &problem.spec);
    let (y, _) = gru_sequence_with(x, &leaves.weights, spec, options);
    let gradients = loss(&y, &inputs.d_y).backward();
    let of = |name: &'static str| {
        (
            name,
            leaves.gradients(&gradients).map(|all| all[name].clone()),
        )
    };
    let mut outcome = vec![("y", values(y))];
    for (name, numbers) in ["x", "h0", "w_ih", "w_hh", "b_ih", "b_hh"].map(of) {
        outcome.push((name, numbers?));
    }
    Ok(outcome)
}
