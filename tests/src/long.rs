//! Sequences so long that a GPU keeps them in several pieces of time, with rows that skip steps and
//! a mask of the state, with and without zoneout: in training, lean or not, and in inference.

use std::sync::{Arc, OnceLock};

use burn::tensor::{DType, Device, Tensor, TensorData};
use gru_op::{
    Checkpointing, Direction, GruSpec, GruWeights, Layout, Order, Reset, SequenceOptions,
    gru_sequence_with,
};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    inputs::Inputs,
    oracle::{Call, Skipped},
    problem::Problem,
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    runs::{self, Leaves, values},
};

/// The trials with a share for each step and unit.
const SHARES: &str = "before-time-reverse-shares";

/// The input product of all steps is 5 MiB: two pieces in inference and with gates kept, three
/// where they are made anew.
fn problem(reset: Reset, order: Order) -> Problem {
    let spec = GruSpec::default().with_reset(reset);
    Problem::new(64, 107, 5, 64)
        .with_spec(spec)
        .with_order(order)
}

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let (after, before) = (Reset::AfterMatmul, Reset::BeforeMatmul);
    let usual = Order::default();
    let reverse = Order {
        direction: Direction::Reverse,
        ..usual
    };
    let time_reverse = Order {
        layout: Layout::TimeMajor,
        ..reverse
    };
    let cases = [
        ("after", after, usual),
        ("before-time-reverse", before, time_reverse),
        (SHARES, before, time_reverse),
        ("after-reverse", after, reverse),
        ("before", before, usual),
    ];
    let mut trials = Vec::new();
    for (name, reset, order) in cases {
        let (inputs, reference) = (
            Arc::new(Inputs::random(&problem(reset, order))),
            Arc::new(OnceLock::new()),
        );
        let keeps = name == SHARES;
        for backend in backends {
            for (mode, checkpointing) in [
                ("speed", Checkpointing::KeepGates),
                ("lean", Checkpointing::Recompute),
            ] {
                let problem = problem(reset, order).with_checkpointing(checkpointing);
                let id = format!("long/{name}-{mode}/{}", backend.id(DType::F32));
                let tolerance = backend.tolerance(Tolerance::F32);
                let (inputs, reference) = (inputs.clone(), reference.clone());
                trials.push(backend.trial(id.to_lowercase(), move |device| {
                    let expected: &Outcome =
                        reference.get_or_init(|| truth(&problem, keeps, &inputs));
                    let got = run(&problem, keeps, &inputs, device)?;
                    got.compare(expected, tolerance)?;
                    infer(&problem, keeps, &inputs, device)?
                        .compare(&without_gradients(expected), tolerance)
                }));
            }
        }
    }
    trials
}

fn without_gradients(outcome: &Outcome) -> Outcome {
    Outcome {
        outputs: outcome.outputs.clone(),
        gradients: Tensors::new(),
    }
}

/// Kept shares of the state, the recurrent mask, and 1 at valid steps.
fn extras(problem: &Problem) -> [Vec<f64>; 3] {
    let &Problem { n, t, h, .. } = problem;
    let shares = (0..n * t * h).map(|k| (k * 37 % 101) as f64 / 100.0);
    let mask = (0..n * h).map(|k| [0.0, 1.25, 1.0][k % 3]);
    let counts = (0..n * t).map(|k| f64::from(u8::from(k * k % 7 != 2)));
    [shares.collect(), mask.collect(), counts.collect()]
}

fn truth(problem: &Problem, keeps: bool, inputs: &Inputs) -> Outcome {
    let [shares, mask, counts] = extras(problem);
    let call = Call {
        zoneout: keeps.then_some(shares),
        recurrent_mask: Some(mask),
        step_mask: Some(counts),
        skipped: Skipped::Repeats,
        ..Call::of(problem, inputs)
    };
    call.outcome(&inputs.d_y, &inputs.d_h_t)
}

fn options(
    problem: &Problem,
    keeps: bool,
    h0: Option<Tensor<2>>,
    device: &Device,
) -> SequenceOptions<2> {
    let &Problem { n, h, .. } = problem;
    let shape = problem.sequence_shape(h);
    let [outer, inner, _] = shape;
    let [shares, mask, counts] = extras(problem);
    let counts: Vec<bool> = counts.into_iter().map(|count| count != 0.0).collect();
    let mask = runs::tensor::<2>(&mask, [n, h], device, DType::F32);
    let zoneout = keeps.then(|| runs::tensor(&shares, shape, device, DType::F32));
    let counts = TensorData::new(counts, [outer, inner]);
    runs::options(problem)
        .state(h0)
        .recurrent_mask(mask)
        .zoneout(zoneout)
        .mask(Tensor::from_data(counts, device))
}

/// Forward and backward.
fn run(
    problem: &Problem,
    keeps: bool,
    inputs: &Inputs,
    device: &Device,
) -> Result<Outcome, String> {
    let leaves = Leaves::new(problem, inputs, device, DType::F32);
    let h0 = leaves.h0.clone();
    let options = options(problem, keeps, h0, &device.clone().autodiff());
    let (y, h_t) = gru_sequence_with(leaves.x.clone(), &leaves.weights, &problem.spec, options);
    runs::outcome(&leaves, inputs, y, h_t)
}

/// Forward alone, nothing tracked.
fn infer(
    problem: &Problem,
    keeps: bool,
    inputs: &Inputs,
    device: &Device,
) -> Result<Outcome, String> {
    let leaves = Leaves::new(problem, inputs, device, DType::F32);
    let weights = GruWeights::new(
        leaves.weights.w_ih.map(Tensor::inner),
        leaves.weights.w_hh.inner(),
    )
    .with_b_ih(leaves.weights.b_ih.map(Tensor::inner))
    .with_b_hh(leaves.weights.b_hh.map(Tensor::inner));
    let options = options(problem, keeps, leaves.h0.map(Tensor::inner), device);
    let (y, h_t) = gru_sequence_with(leaves.x.inner(), &weights, &problem.spec, options);
    Ok(Outcome {
        gradients: Tensors::new(),
        outputs: Tensors::from([("y".into(), values(y)), ("h_t".into(), values(h_t))]),
    })
}
