//! Sequences that a GPU splits into several time chunks, with a recurrent mask and skipped steps, with and without
//! zoneout and starts, or with lengths. Covers training with both checkpointing modes, and inference.

use std::sync::{Arc, OnceLock};

use burn::tensor::DType;
use gru_op::{Checkpointing, Direction, GruSpec, Layout, Order, Reset};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    inputs::Inputs,
    oracle::{Call, Skipped},
    problem::Problem,
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    call::{self, How},
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
        let known = Arc::new(OnceLock::new());
        for backend in backends {
            for (mode, checkpointing) in [
                ("speed", Checkpointing::KeepGates),
                ("lean", Checkpointing::Recompute),
            ] {
                let id = format!("long/{name}-{mode}/{}", backend.id(DType::F32));
                let (known, tolerance) = (known.clone(), backend.tolerance(Tolerance::F32));
                trials.push(backend.trial(id, move |device| {
                    let (call, inputs, expected) = known.get_or_init(|| truth(reset, order, with));
                    let lengths = lengths(call);
                    let how = How {
                        lengths: (with == With::Lengths).then_some(&lengths[..]),
                        checkpointing,
                        ..How::default()
                    };
                    let upstream = [&inputs.d_y[..], &inputs.d_h_t];
                    let got = call::on(device, DType::F32, call, upstream, &how)?;
                    got.compare(expected, tolerance)?;
                    let expected = Outcome {
                        outputs: expected.outputs.clone(),
                        gradients: Tensors::new(),
                    };
                    call::infer(device, DType::F32, call, &how)?.compare(&expected, tolerance)
                }));
            }
        }
    }
    trials
}

fn lengths(call: &Call) -> Vec<usize> {
    (0..call.n).map(|row| row * 7 % 37).collect()
}

/// A call and its results. The input product of all steps is 5 MiB: two chunks in inference and with kept gates, three
/// chunks with recomputed gates.
fn truth(reset: Reset, order: Order, with: With) -> (Call, Inputs, Outcome) {
    let (n, t, h) = (64, 107, 64);
    let spec = GruSpec::default().with_reset(reset);
    let problem = Problem::new(n, t, 5, h).with_spec(spec).with_order(order);
    let inputs = Inputs::random(&problem);
    let all = with == With::All;
    let flags = |flag: fn(usize) -> bool| (0..n * t).map(|k| f64::from(flag(k))).collect();
    let call = Call {
        recurrent_mask: Some((0..n * h).map(|k| [0.0, 1.25, 1.0][k % 3]).collect()),
        step_mask: Some(flags(|k| k * k % 7 != 2)),
        skipped: Skipped::Repeats,
        zoneout: all.then(|| {
            (0..n * t * h)
                .map(|k| (k * 37 % 101) as f64 / 100.0)
                .collect()
        }),
        starts: all.then(|| flags(|k| k % 23 == 5)),
        start_state: all.then(|| {
            (0..n * h)
                .map(|k| (k * 29 % 97) as f64 / 97.0 - 0.5)
                .collect()
        }),
        ..Call::of(&problem, &inputs)
    };
    let call = match with {
        With::Lengths => {
            let lengths = lengths(&call);
            call::with_lengths(call, &lengths)
        }
        With::Mask | With::All => call,
    };
    let expected = call.outcome(&inputs.d_y, &inputs.d_h_t);
    (call, inputs, expected)
}
