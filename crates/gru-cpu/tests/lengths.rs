//! A slice that is one element too short or too long, spoilt lengths, and sizes that exceed the address space cause a panic
//! with the name, before anything is written.
#![cfg_attr(panic = "abort", allow(dead_code))]

mod support;

use gru_cpu::{
    CallError, Gradients, Gru, Inputs, Sequence, Stack, StackInputs, StackLayer, StackStream,
    Weights,
    spec::{self, GruSpec, Layout, Lengths, NAMES, Precision, Sizes},
};
use gru_testkit::panics::{panic_text, panics};
use std::sync::Arc;
use support::Problem;

const DIMS: Sizes = Sizes {
    n: 2,
    t: 3,
    i: 4,
    h: 5,
};

/// A call with all optional tensors.
fn problem() -> Problem<f32> {
    Problem::of("N2 T3 I4 H5 mask skips zoneout-per-unit start-states")
}

/// The inputs of a call with another slice for one of them.
fn with(problem: &Problem<f32>, name: &str, slice: Vec<f32>) -> Problem<f32> {
    let mut slots = problem.inputs.clone().into_slots();
    let at = NAMES.iter().position(|of| *of == name);
    slots[at.expect("an input")] = Some(slice);
    Problem {
        inputs: spec::Inputs::from_slots(slots).expect("nothing was removed"),
        ..problem.clone()
    }
}

/// The results of a call, zeros: states, saved gates, the upstream gradient, and all gradients. One of them has another
/// length.
struct Buffers(Vec<Vec<f32>>);

impl Buffers {
    fn new() -> Self {
        let (inputs, units) = (problem().inputs, DIMS.places() * DIMS.h);
        let d = inputs.differentiable().into_array().into_iter().flatten();
        let lens = [units, 4 * units, units].into_iter().chain(d.map(Vec::len));
        Self(lens.map(|len| vec![0.0; len]).collect())
    }

    fn forward(mut self, of: &Problem<f32>) {
        let [states, saved, ..] = &mut self.0[..] else {
            unreachable!("all are there")
        };
        of.gru.forward(&of.inputs(), states, Some(saved));
    }

    fn backward(mut self, of: &Problem<f32>) {
        let [states, saved, d_states, d @ ..] = &mut self.0[..] else {
            unreachable!("all are there")
        };
        let mut d = d.iter_mut().map(|d| &mut d[..]);
        let to = Gradients::from_array(std::array::from_fn(|_| d.next()));
        of.gru
            .backward(&of.inputs(), states, Some(saved), d_states, to);
    }
}

/// The vector with one element less, and with one more, and its lengths before and after.
fn off_by_one(v: &[f32]) -> [(Vec<f32>, String); 2] {
    [v.len() - 1, v.len() + 1].map(|len| {
        let mut v = v.to_vec();
        let text = format!("expected {}, got {len}", v.len());
        v.resize(len, 0.0);
        (v, text)
    })
}

fn refused(op: &str, name: &str, lengths: &str, call: impl FnOnce()) {
    let expected = format!("gru_cpu::{op}: {name} has the wrong number of elements, {lengths}");
    assert_eq!(panic_text(call), Ok(expected));
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a refusal is a panic")]
fn inputs() {
    for (name, slice) in problem().inputs.named() {
        for (slice, lengths) in off_by_one(slice) {
            let of = with(&problem(), name, slice);
            let [forward, backward] = ["Gru::forward", "Gru::backward"];
            refused(forward, name, &lengths, || Buffers::new().forward(&of));
            refused(backward, name, &lengths, || Buffers::new().backward(&of));
        }
    }
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a refusal is a panic")]
fn results() {
    let gradients = NAMES[..7].iter().map(|name| format!("gradient of {name}"));
    let names = ["states", "saved", "d_states"].map(String::from);
    for (at, name) in names.into_iter().chain(gradients).enumerate() {
        for (slice, lengths) in off_by_one(&Buffers::new().0[at]) {
            let spoilt = || {
                let mut buffers = Buffers::new();
                buffers.0[at].clone_from(&slice);
                buffers
            };
            let (forward, backward) = (spoilt(), spoilt());
            refused("Gru::backward", &name, &lengths, || {
                backward.backward(&problem())
            });
            if at < 2 {
                refused("Gru::forward", &name, &lengths, || {
                    forward.forward(&problem())
                });
            }
        }
    }
}

#[test]
#[should_panic(expected = "a gradient of w_ih is requested, but the input is already projected")]
fn a_gradient_of_an_absent_weight() {
    let mut projected = problem();
    projected.inputs.sequence.x = vec![0.0; DIMS.places() * 3 * DIMS.h];
    projected.inputs.weights.w_ih = None;
    let mut buffers = Buffers::new();
    buffers.0[3] = vec![0.0; DIMS.places() * 3 * DIMS.h];
    buffers.backward(&projected);
}

#[test]
#[should_panic(expected = "start_state requires starts")]
fn a_start_state_without_starts() {
    let mut problem = problem();
    problem.inputs.sequence.starts = None;
    problem.states();
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a refusal is a panic")]
fn spoilt_lengths() {
    let mut problem = problem();
    let mut refusal = |lengths: Lengths| {
        problem.lengths = lengths;
        panic_text(|| problem.states()).expect("a panic")
    };
    let op = "gru_cpu::Gru::forward";
    for of in [Lengths::Padded, Lengths::Packed] {
        let expected = format!("{op}: lengths [N] must be [2], got [3]");
        assert_eq!(refusal(of([3; 3].into())), expected);
        let expected = "lengths[1] must be at most T, expected 0 to 3, got 4";
        assert_eq!(refusal(of([2, 4].into())), format!("{op}: {expected}"));
    }
    let expected = "x has the wrong number of elements, expected 12, got 24";
    let packed = Lengths::Packed([2, 1].into());
    assert_eq!(refusal(packed), format!("{op}: {expected}"));
}

fn try_stack(weights: Weights<'_, f32>, spec: GruSpec) -> Result<Stack, CallError> {
    let layer = StackLayer {
        spec,
        ..StackLayer::new(weights)
    };
    Stack::try_new(Precision::Full, [DIMS.i, DIMS.h], 1, &[layer])
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a refusal is a panic")]
fn stacks_and_streams() {
    let of = problem();
    let Sizes { n, t, i, h } = DIMS;
    let stack = Arc::new(try_stack(of.inputs().weights, of.gru.spec).unwrap());
    let run = |of: &Problem<f32>, y: usize, last: usize| {
        let (mut y, mut last) = (vec![0.0; y], vec![0.0; last]);
        let inputs = of.stack_inputs();
        stack.forward(Layout::BatchMajor, [n, t], inputs, &mut y, &mut last);
    };
    let (op, states, last) = ("Stack::forward", n * t * h, n * h);
    for (name, slice) in of.inputs.named() {
        let of_stack = match name {
            "h0" => "state",
            "x" | "step_mask" | "starts" | "start_state" => name,
            _ => continue,
        };
        for (slice, lengths) in off_by_one(slice) {
            let of = with(&of, name, slice);
            refused(op, of_stack, &lengths, || run(&of, states, last));
        }
    }
    for (v, lengths) in off_by_one(&vec![0.0; states]) {
        refused(op, "y", &lengths, || run(&of, v.len(), last));
    }
    for (v, lengths) in off_by_one(&vec![0.0; last]) {
        refused(op, "last", &lengths, || run(&of, states, v.len()));
    }
    for (x, lengths) in off_by_one(&vec![0.0; n * i]) {
        let mut stream = StackStream::new(stack.clone(), n);
        let step = || {
            stream.step(&x);
        };
        refused("StackStream::step", "x", &lengths, step);
    }

    // Weights from a file return an error instead of a panic.
    for (tensor, slice) in of.inputs.named() {
        if !tensor.starts_with("w_") && !tensor.starts_with("b_") {
            continue;
        }
        for (wrong, _) in off_by_one(slice) {
            let (expected, actual) = (slice.len(), wrong.len());
            let wrong = with(&of, tensor, wrong);
            let error = CallError::Length {
                tensor,
                expected,
                actual,
            };
            let got = try_stack(wrong.inputs().weights, of.gru.spec);
            assert_eq!(got.unwrap_err(), error);
        }
    }
    let bad = GruSpec::default().with_clip_gates(Some(0.0));
    let error = try_stack(of.inputs().weights, bad).unwrap_err();
    assert_eq!(error.to_string(), bad.try_check().unwrap_err().to_string());
}

const HALF: usize = 1 << (usize::BITS - 1);

/// H·3H wraps around to 3, and T·N·H to 4. Without a check these slices would be accepted.
#[test]
#[cfg_attr(panic = "abort", ignore = "a message is a panic")]
fn sizes_that_exceed_the_address_space() {
    let max = usize::MAX;
    for (n, t, i, h, states) in [
        (1, 4, 0, HALF + 1, 4),
        (HALF, 2, 1, 1, 0),
        (1, 1, HALF, 1, 1),
        (max, max, max, max, 1),
    ] {
        let gru = Gru::new(Sizes { n, t, i, h }, GruSpec::default());
        let inputs = Inputs::<f64> {
            sequence: Sequence::new(&[]),
            weights: Weights::new(None, &[0.0; 3]),
        };
        let mut out = vec![0.0; states];
        let says = "gru_cpu::Gru::forward: the sizes exceed the address space";
        let forward = || gru.forward(&inputs, &mut out, None);
        assert_eq!(panics(forward, says), Ok(()), "{:?}", gru.sizes);
        let states = vec![0.0; states];
        let says = "gru_cpu::Gru::backward: the sizes exceed the address space";
        let backward = || gru.backward(&inputs, &states, None, &states, Gradients::default());
        assert_eq!(panics(backward, says), Ok(()), "{:?}", gru.sizes);
    }
    let layer = StackLayer::new(Weights::new(Some(&[]), &[0.0; 3]));
    let stack = Stack::new(Precision::Full, [0, 1], 1, &[layer]);
    let call = || {
        let x = StackInputs::new(&[]);
        stack.forward(Layout::BatchMajor, [max, 2], x, &mut [], &mut []);
    };
    let says = "gru_cpu::Stack::forward: the sizes exceed the address space";
    assert_eq!(panics(call, says), Ok(()));
}
