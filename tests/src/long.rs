//! Sequences that a GPU splits into several time chunks, with a recurrent mask and skipped steps, with and without
//! zoneout and starts, or with lengths. Covers training with both checkpointing modes, and inference.

use std::sync::{Arc, OnceLock};

use burn::tensor::{DType, Device, Tensor, TensorData};
use gru_op::{
    Checkpointing, Direction, GruSpec, Layout, Order, Reset, SequenceOptions, gru_sequence_with,
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
    runs::{self, Leaves, gradient, loss, values},
};

/// The options of a trial, next to a recurrent mask.
#[derive(Clone, Copy, PartialEq, Eq)]
enum With {
    Mask,
    /// A mask, a different zoneout for each step and unit, starts, and a start state.
    All,
    /// Rows that end within the first chunk, or at its end.
    Lengths,
}

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
        ("after", after, usual, With::Mask),
        ("before-time-reverse", before, time_reverse, With::Mask),
        (
            "before-time-reverse-zoneout-starts",
            before,
            time_reverse,
            With::All,
        ),
        ("after-reverse", after, reverse, With::Mask),
        ("before", before, usual, With::Mask),
        ("after-lengths", after, usual, With::Lengths),
        (
            "before-time-reverse-lengths",
            before,
            time_reverse,
            With::Lengths,
        ),
    ];
    let mut trials = Vec::new();
    for (name, reset, order, with) in cases {
        let (inputs, reference) = (
            Arc::new(Inputs::random(&problem(reset, order))),
            Arc::new(OnceLock::new()),
        );
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
                        reference.get_or_init(|| truth(&problem, with, &inputs));
                    let got = run(&problem, with, &inputs, device)?;
                    got.compare(expected, tolerance)?;
                    infer(&problem, with, &inputs, device)?
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

fn lengths(problem: &Problem) -> Vec<usize> {
    (0..problem.n).map(|row| row * 7 % 37).collect()
}

/// Zoneout, the recurrent mask, 1 at valid steps, 1 at starts, and the start state.
fn extras(problem: &Problem, with: With) -> [Vec<f64>; 5] {
    let &Problem { n, t, h, .. } = problem;
    let zoneout = (0..n * t * h).map(|k| (k * 37 % 101) as f64 / 100.0);
    let mask = (0..n * h).map(|k| [0.0, 1.25, 1.0][k % 3]);
    let lengths = lengths(problem);
    let step_mask = (0..n * t).map(|k| {
        let is_valid = match (with, problem.order.layout) {
            (With::Lengths, Layout::BatchMajor) => k % t < lengths[k / t],
            (With::Lengths, Layout::TimeMajor) => k / n < lengths[k % n],
            (With::Mask | With::All, _) => k * k % 7 != 2,
        };
        f64::from(u8::from(is_valid))
    });
    let starts = (0..n * t).map(|k| f64::from(u8::from(k % 23 == 5)));
    let start_state = (0..n * h).map(|k| (k * 29 % 97) as f64 / 97.0 - 0.5);
    [
        zoneout.collect(),
        mask.collect(),
        step_mask.collect(),
        starts.collect(),
        start_state.collect(),
    ]
}

fn truth(problem: &Problem, with: With, inputs: &Inputs) -> Outcome {
    let [zoneout, mask, step_mask, starts, start_state] = extras(problem, with);
    let call = Call {
        zoneout: (with == With::All).then_some(zoneout),
        starts: (with == With::All).then_some(starts),
        start_state: (with == With::All).then_some(start_state),
        recurrent_mask: Some(mask),
        step_mask: Some(step_mask),
        skipped: match with {
            With::Lengths => Skipped::Zero,
            With::Mask | With::All => Skipped::Repeats,
        },
        ..Call::of(problem, inputs)
    };
    call.outcome(&inputs.d_y, &inputs.d_h_t)
}

fn options(
    problem: &Problem,
    with: With,
    [h0, start_state]: [Option<Tensor<2>>; 2],
    device: &Device,
) -> SequenceOptions<2> {
    let &Problem { n, h, .. } = problem;
    let shape = problem.sequence_shape(h);
    let [outer, inner, _] = shape;
    let [zoneout, mask, step_mask, starts, _] = extras(problem, with);
    let flags = |flags: Vec<f64>| {
        let flags: Vec<bool> = flags.into_iter().map(|flag| flag != 0.0).collect();
        Tensor::from_data(TensorData::new(flags, [outer, inner]), device)
    };
    let mask = runs::tensor::<2>(&mask, [n, h], device, DType::F32);
    let zoneout = (with == With::All).then(|| runs::tensor(&zoneout, shape, device, DType::F32));
    let options = runs::options(problem)
        .state(h0)
        .recurrent_mask(mask)
        .zoneout(zoneout)
        .starts(start_state.is_some().then(|| flags(starts)))
        .start_state(start_state);
    match with {
        With::Lengths => options.lengths(&lengths(problem)),
        With::Mask | With::All => options.mask(flags(step_mask)),
    }
}

/// The start state, if the trial has one.
fn start_state(problem: &Problem, with: With, device: &Device) -> Option<Tensor<2>> {
    let &Problem { n, h, .. } = problem;
    let [.., start_state] = extras(problem, with);
    (with == With::All).then(|| runs::tensor(&start_state, [n, h], device, DType::F32))
}

fn run(problem: &Problem, with: With, inputs: &Inputs, device: &Device) -> Result<Outcome, String> {
    let leaves = Leaves::new(problem, inputs, device, DType::F32);
    let device = &device.clone().autodiff();
    let start_state = start_state(problem, with, device).map(Tensor::require_grad);
    let states = [leaves.h0.clone(), start_state.clone()];
    let options = options(problem, with, states, device);
    let (y, h_t) = gru_sequence_with(leaves.x.clone(), &leaves.weights, &problem.spec, options);
    let gradients = (loss(&y, &inputs.d_y) + loss(&h_t, &inputs.d_h_t)).backward();
    let mut named = leaves.gradients(&gradients)?;
    if let Some(start_state) = &start_state {
        let name = "start_state";
        named.insert(name.into(), gradient(name, start_state, &gradients)?);
    }
    Ok(Outcome {
        gradients: named,
        outputs: Tensors::from([("y".into(), values(y)), ("h_t".into(), values(h_t))]),
    })
}

/// Forward only, nothing tracked.
fn infer(
    problem: &Problem,
    with: With,
    inputs: &Inputs,
    device: &Device,
) -> Result<Outcome, String> {
    let leaves = Leaves::new(problem, inputs, device, DType::F32).inner();
    let start_state = start_state(problem, with, device);
    let options = options(problem, with, [leaves.h0, start_state], device);
    let (y, h_t) = gru_sequence_with(leaves.x, &leaves.weights, &problem.spec, options);
    Ok(Outcome {
        gradients: Tensors::new(),
        outputs: Tensors::from([("y".into(), values(y)), ("h_t".into(), values(h_t))]),
    })
}
