//! NaN where zoneout keeps nothing of the previous state, through the kernels. WGSL gives no guarantees
//! about NaN, so on a GPU these tests depend on the driver.

use burn::tensor::{DType, Device, Tensor};
use gru_op::{Activation, Activations, Checkpointing, GruSpec, Reset, gru_sequence_with};
use gru_testkit::{inputs::Inputs, problem::Problem};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    runs::{self, Leaves, loss, values},
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
                .with_clip_state(Some(3.0)),
        ),
    ];
    let mut trials = Vec::new();
    for backend in backends {
        for (name, spec) in specs {
            let id = format!("zoneout-nan/{name}/{}", backend.name);
            trials.push(backend.trial(id, move |device| every_input(device, spec)));
        }
    }
    trials
}

/// NaN in one input appears in every output and gradient, but not in other rows. Row 2 has no valid
/// steps: no NaN reaches it, and only its final state depends on its initial state.
fn every_input(device: &Device, spec: GruSpec) -> Result<(), String> {
    // Each reset form with one checkpointing mode.
    let checkpointing = match spec.reset {
        Reset::AfterMatmul => Checkpointing::KeepGates,
        Reset::BeforeMatmul => Checkpointing::Recompute,
    };
    let problem = Problem::new(N, T, 2, 4)
        .with_spec(spec)
        .with_checkpointing(checkpointing);
    let of_row_0 = ["x", "h0"];
    let of_row_2 = ["padding", "idle h0"];
    let of_all = ["w_ih", "w_hh", "b_ih", "b_hh"];
    for place in [&of_row_0[..], &of_row_2, &of_all].concat() {
        let mut inputs = Inputs::random(&problem);
        for (name, numbers) in inputs.differentiable_mut() {
            match (place, name) {
                ("padding", "x") | ("idle h0", "h0") => *numbers.last_mut().unwrap() = f64::NAN,
                _ if name == place => numbers[1] = f64::NAN,
                _ => {}
            }
        }
        for (name, numbers) in run(&problem, &inputs, device)? {
            let by_row = ["y", "h_t", "d_x", "d_h0"].contains(&name);
            let rows = numbers.chunks(numbers.len() / if by_row { N } else { 1 });
            let is_nan: Vec<bool> = rows.map(|row| row.iter().any(|x| x.is_nan())).collect();
            let expected = match (by_row, place) {
                (false, place) => vec![!of_row_2.contains(&place)],
                (true, "idle h0") => vec![false, false, name == "h_t"],
                (true, "padding") => vec![false; N],
                (true, place) => vec![true, of_all.contains(&place), false],
            };
            if is_nan != expected {
                return Err(format!("NaN in {place}: {name} is {numbers:?}"));
            }
        }
    }
    Ok(())
}

/// States and gradients with a zoneout of zero.
fn run(
    problem: &Problem,
    inputs: &Inputs,
    device: &Device,
) -> Result<Vec<(&'static str, Vec<f64>)>, String> {
    let leaves = Leaves::new(problem, inputs, device, DType::F32);
    let options = runs::options(problem)
        .state(leaves.h0.clone())
        .zoneout(Tensor::<3>::zeros([N, T, 1], &leaves.x.device()))
        .lengths(&[T, T, 0]);
    let (x, spec) = (leaves.x.clone(), &problem.spec);
    let (y, h_t) = gru_sequence_with(x, &leaves.weights, spec, options);
    let loss = loss(&y, &inputs.d_y) + loss(&h_t, &inputs.d_h_t);
    let gradients = leaves.gradients(&loss.backward())?;
    let names = [
        ("d_x", "x"),
        ("d_h0", "h0"),
        ("d_w_ih", "w_ih"),
        ("d_w_hh", "w_hh"),
        ("d_b_ih", "b_ih"),
        ("d_b_hh", "b_hh"),
    ];
    let gradients = names.map(|(name, of)| (name, gradients[of].clone()));
    let outputs = [("y", values(y)), ("h_t", values(h_t))];
    Ok(outputs.into_iter().chain(gradients).collect())
}
