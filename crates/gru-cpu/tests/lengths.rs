//! A slice that is one element too short or too long causes a panic with its name, before anything is written.
#![cfg_attr(panic = "abort", allow(dead_code))]

mod support;

use gru_cpu::{
    CallError, Gradients, Stack, StackInputs, StackLayer, StackStream, Weights,
    spec::{GruSpec, Layout, NAMES, Precision, Sizes},
};
use gru_testkit::panics::panic_text;
use std::sync::Arc;
use support::Case;

const DIMS: Sizes = Sizes {
    n: 2,
    t: 3,
    i: 4,
    h: 5,
};

/// The slices of a call in addition to its inputs. One of them has another length.
struct Buffers {
    states: Vec<f32>,
    saved: Vec<f32>,
    d_states: Vec<f32>,
    d: [Vec<f32>; 7],
}

impl Buffers {
    fn of(case: &Case<f32>) -> Self {
        let (inputs, units) = (case.inputs(), DIMS.rows() * DIMS.h);
        let d = inputs.differentiable();
        Self {
            states: vec![0.0; units],
            saved: vec![0.0; units * case.gru.spec.saved_per_unit()],
            d_states: vec![0.0; units],
            d: d.map(|of| vec![0.0; of.map_or(0, |of| of.len())])
                .into_array(),
        }
    }

    fn forward(mut self, case: &Case<f32>) {
        let saved = Some(self.saved.as_mut_slice());
        case.gru.forward(&case.inputs(), &mut self.states, saved);
    }

    fn backward(mut self, case: &Case<f32>) {
        let to = Gradients::from_array(self.d.each_mut().map(|d| Some(d.as_mut_slice())));
        let (saved, inputs) = (Some(self.saved.as_slice()), case.inputs());
        let (states, d_states) = (&self.states, &self.d_states);
        case.gru.backward(&inputs, states, saved, d_states, to);
    }
}

/// A call with all optional tensors.
fn case() -> Case<f32> {
    Case::new(DIMS, GruSpec::default(), &NAMES).cast()
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
fn what_fits_is_taken() {
    let case = case();
    Buffers::of(&case).forward(&case);
    Buffers::of(&case).backward(&case);
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a refusal is a panic")]
fn inputs() {
    let right = case();
    for name in NAMES {
        for (v, lengths) in off_by_one(right.part(name).unwrap()) {
            let mut case = right.clone();
            *case.tensor(name) = v;
            let buffers = || Buffers::of(&right);
            refused("Gru::forward", name, &lengths, || buffers().forward(&case));
            refused("Gru::backward", name, &lengths, || {
                buffers().backward(&case)
            });
        }
    }
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a refusal is a panic")]
fn results() {
    let case = case();
    type Which = fn(&mut Buffers) -> &mut Vec<f32>;
    let forward: [(_, Which); 2] = [("states", |b| &mut b.states), ("saved", |b| &mut b.saved)];
    let backward: [(_, Which); 3] = [forward[0], forward[1], ("d_states", |b| &mut b.d_states)];
    for (name, which) in forward {
        for (v, lengths) in off_by_one(which(&mut Buffers::of(&case))) {
            let mut buffers = Buffers::of(&case);
            *which(&mut buffers) = v;
            refused("Gru::forward", name, &lengths, || buffers.forward(&case));
        }
    }
    for (name, which) in backward {
        for (v, lengths) in off_by_one(which(&mut Buffers::of(&case))) {
            let mut buffers = Buffers::of(&case);
            *which(&mut buffers) = v;
            refused("Gru::backward", name, &lengths, || buffers.backward(&case));
        }
    }
    for (at, input) in NAMES[..7].iter().enumerate() {
        for (v, lengths) in off_by_one(&Buffers::of(&case).d[at]) {
            let mut buffers = Buffers::of(&case);
            buffers.d[at] = v;
            let name = format!("gradient of {input}");
            refused("Gru::backward", &name, &lengths, || buffers.backward(&case));
        }
    }
}

#[test]
#[should_panic(expected = "a gradient of w_ih is requested, but the input is already projected")]
fn a_gradient_of_an_absent_weight() {
    let right = case();
    let mut projected = right.clone();
    *projected.tensor("x") = vec![0.0; DIMS.n * DIMS.t * 3 * DIMS.h];
    *projected.slot("w_ih") = None;
    let mut buffers = Buffers::of(&projected);
    buffers.d[2] = Buffers::of(&right).d[2].clone();
    buffers.backward(&projected);
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
    let case = case();
    let (weights, spec) = (case.inputs().weights, case.gru.spec);
    let Sizes { n, t, i, h } = DIMS;
    let stack = Arc::new(try_stack(weights, spec).unwrap());

    let run = |case: &Case<f32>, y: usize, last: usize| {
        let sequence = case.inputs().sequence;
        let inputs = StackInputs {
            state: sequence.h0,
            step_mask: sequence.step_mask,
            starts: sequence.starts,
            start_state: sequence.start_state,
            ..StackInputs::new(sequence.x)
        };
        let (mut y, mut last) = (vec![0.0; y], vec![0.0; last]);
        stack.forward(Layout::BatchMajor, [n, t], inputs, &mut y, &mut last);
    };
    let (states, last) = (n * t * h, n * h);
    for (tensor, name) in [
        ("x", "x"),
        ("h0", "state"),
        ("step_mask", "step_mask"),
        ("starts", "starts"),
        ("start_state", "start_state"),
    ] {
        for (v, lengths) in off_by_one(case.part(tensor).unwrap()) {
            let mut case = case.clone();
            *case.tensor(tensor) = v;
            refused("Stack::forward", name, &lengths, || {
                run(&case, states, last)
            });
        }
    }
    for (v, lengths) in off_by_one(&vec![0.0; states]) {
        refused("Stack::forward", "y", &lengths, || {
            run(&case, v.len(), last)
        });
    }
    for (v, lengths) in off_by_one(&vec![0.0; last]) {
        refused("Stack::forward", "last", &lengths, || {
            run(&case, states, v.len())
        });
    }
    for (x, lengths) in off_by_one(&vec![0.0; n * i]) {
        let mut stream = StackStream::new(stack.clone(), n);
        refused("StackStream::step", "x", &lengths, || {
            stream.step(&x);
        });
    }

    // Weights from a file return an error instead of a panic.
    let given = [weights.w_ih, Some(weights.w_hh), weights.b_ih, weights.b_hh];
    for (at, tensor) in ["w_ih", "w_hh", "b_ih", "b_hh"].into_iter().enumerate() {
        for (v, _) in off_by_one(given[at].unwrap()) {
            let mut all = given;
            all[at] = Some(&v);
            let [w_ih, w_hh, b_ih, b_hh] = all;
            let weights = Weights {
                b_ih,
                b_hh,
                ..Weights::new(w_ih, w_hh.unwrap())
            };
            let (expected, actual) = (given[at].unwrap().len(), v.len());
            assert_eq!(
                try_stack(weights, spec).unwrap_err(),
                CallError::Length {
                    tensor,
                    expected,
                    actual
                }
            );
        }
    }
    let bad = GruSpec::default().with_clip_gates(Some(0.0));
    let error = try_stack(weights, bad).unwrap_err();
    assert_eq!(error.to_string(), bad.try_check().unwrap_err());
}
