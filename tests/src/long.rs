//! Sequences that a GPU splits into several time chunks, with skipped steps and a recurrent mask, with
//! and without zoneout. Covers training with both checkpointing modes, and inference.

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

/// The trials with a different zoneout for each step and unit.
const ZONEOUT: &str = "before-time-reverse-zoneout";

/// The input product of all steps is 5 MiB: two chunks in inference and with kept gates, three chunks
/// with recomputed gates.
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
        (ZONEOUT, before, time_reverse),
        ("after-reverse", after, reverse),
        ("before", before, usual),
    ];
    let mut trials = Vec::new();
    for (name, reset, order) in cases {
        let (inputs, reference) = (
            Arc::new(Inputs::random(&problem(reset, order))),
            Arc::new(OnceLock::new()),
        );
        let with_zoneout = name == ZONEOUT;
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
                        reference.get_or_init(|| truth(&problem, with_zoneout, &inputs));
                    let got = run(&problem, with_zoneout, &inputs, device)?;
                    got.compare(expected, tolerance)?;
                    infer(&problem, with_zoneout, &inputs, device)?
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

/// Zoneout, the recurrent mask, and 1 at valid steps.
fn extras(problem: &Problem) -> [Vec<f64>; 3] {
    let &Problem { n, t, h, .. } = problem;
    let zoneout = (0..n * t * h).map(|k| (k * 37 % 101) as f64 / 100.0);
    let mask = (0..n * h).map(|k| [0.0, 1.25, 1.0][k % 3]);
    let step_mask = (0..n * t).map(|k| f64::from(u8::from(k * k % 7 != 2)));
    [zoneout.collect(), mask.collect(), step_mask.collect()]
}

fn truth(problem: &Problem, with_zoneout: bool, inputs: &Inputs) -> Outcome {
    let [zoneout, mask, step_mask] = extras(problem);
    let call = Call {
        zoneout: with_zoneout.then_some(zoneout),
        recurrent_mask: Some(mask),
        step_mask: Some(step_mask),
        skipped: Skipped::Repeats,
        ..Call::of(problem, inputs)
    };
    call.outcome(&inputs.d_y, &inputs.d_h_t)
}

fn options(
    problem: &Problem,
    with_zoneout: bool,
    h0: Option<Tensor<2>>,
    device: &Device,
) -> SequenceOptions<2> {
    let &Problem { n, h, .. } = problem;
    let shape = problem.sequence_shape(h);
    let [outer, inner, _] = shape;
    let [zoneout, mask, step_mask] = extras(problem);
    let step_mask: Vec<bool> = step_mask.into_iter().map(|valid| valid != 0.0).collect();
    let mask = runs::tensor::<2>(&mask, [n, h], device, DType::F32);
    let zoneout = with_zoneout.then(|| runs::tensor(&zoneout, shape, device, DType::F32));
    let step_mask = TensorData::new(step_mask, [outer, inner]);
    runs::options(problem)
        .state(h0)
        .recurrent_mask(mask)
        .zoneout(zoneout)
        .mask(Tensor::from_data(step_mask, device))
}

fn run(
    problem: &Problem,
    with_zoneout: bool,
    inputs: &Inputs,
    device: &Device,
) -> Result<Outcome, String> {
    let leaves = Leaves::new(problem, inputs, device, DType::F32);
    let h0 = leaves.h0.clone();
    let options = options(problem, with_zoneout, h0, &device.clone().autodiff());
    let (y, h_t) = gru_sequence_with(leaves.x.clone(), &leaves.weights, &problem.spec, options);
    runs::outcome(&leaves, inputs, y, h_t)
}

/// Forward only, nothing tracked.
fn infer(
    problem: &Problem,
    with_zoneout: bool,
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
    let options = options(problem, with_zoneout, leaves.h0.map(Tensor::inner), device);
    let (y, h_t) = gru_sequence_with(leaves.x.inner(), &weights, &problem.spec, options);
    Ok(Outcome {
        gradients: Tensors::new(),
        outputs: Tensors::from([("y".into(), values(y)), ("h_t".into(), values(h_t))]),
    })
}
