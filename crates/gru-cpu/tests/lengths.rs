//! A slice that is one element too short or too long causes a panic with its name, before anything is written.
#![cfg_attr(panic = "abort", allow(dead_code))]

mod support;

use gru_cpu::{
    CallError, Gradients, PackedWeights, Sequence, Stream, Weights,
    spec::{GruSpec, NAMES, Sizes},
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
    projected.tensors[0] = Some(vec![0.0; DIMS.n * DIMS.t * 3 * DIMS.h]);
    projected.tensors[2] = None;
    let mut buffers = Buffers::of(&projected);
    buffers.d[2] = Buffers::of(&right).d[2].clone();
    buffers.backward(&projected);
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a refusal is a panic")]
fn packed_weights_and_streams() {
    let case = case();
    let (weights, spec) = (case.inputs().weights, &case.gru.spec);
    let (i, h) = (DIMS.i, DIMS.h);
    let packed = Arc::new(PackedWeights::new(spec, i, h, weights));

    // A call with packed weights checks the sequence and the states.
    let states = || vec![0.0; DIMS.n * DIMS.t * h];
    let of_sequence = [
        "x",
        "h0",
        "recurrent_mask",
        "step_mask",
        "zoneout",
        "starts",
        "start_state",
    ];
    for name in of_sequence {
        for (v, lengths) in off_by_one(case.part(name).unwrap()) {
            let mut case = case.clone();
            *case.tensor(name) = v;
            refused("PackedWeights::forward", name, &lengths, || {
                packed.forward(DIMS.n, DIMS.t, case.inputs().sequence, &mut states());
            });
        }
    }
    for (mut v, lengths) in off_by_one(&states()) {
        refused("PackedWeights::forward", "states", &lengths, || {
            packed.forward(DIMS.n, DIMS.t, case.inputs().sequence, &mut v);
        });
    }
    for (x, lengths) in off_by_one(&vec![0.0; DIMS.n * i]) {
        let mut stream = Stream::new(packed.clone(), DIMS.n);
        refused("Stream::step", "x", &lengths, || {
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
                PackedWeights::try_new(spec, i, h, weights).unwrap_err(),
                CallError::Length {
                    tensor,
                    expected,
                    actual
                }
            );
        }
    }
    let bad = GruSpec::default().with_clip_gates(Some(0.0));
    let error = PackedWeights::try_new(&bad, i, h, weights).unwrap_err();
    assert_eq!(error.to_string(), bad.try_check().unwrap_err());
}

/// The getters of packed weights.
#[test]
fn packed_weights_tell_their_sizes() {
    let spec = GruSpec::default().with_clip_state(Some(2.0));
    let (w_ih, w_hh) = (vec![0.0f32; 4 * 15], vec![0.0; 5 * 15]);
    let packed = PackedWeights::new(&spec, 4, 5, Weights::new(Some(&w_ih), &w_hh));
    assert_eq!((packed.features(), packed.units()), (4, 5));
    assert_eq!(*packed.spec(), spec);
    let projected = PackedWeights::new(&spec, 0, 5, Weights::new(None, &w_hh));
    assert_eq!((projected.features(), projected.units()), (15, 5));

    let stream = Stream::new(Arc::new(packed), 3);
    assert_eq!((stream.rows(), stream.state().len()), (3, 15));
    let text = format!("{stream:?}");
    for part in [
        "Stream",
        "n: 3",
        "PackedWeights",
        "features: 4",
        "h: 5",
        "Some(2.0)",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // Without features x is empty, and there are still states of N rows and T steps.
    let mut states = vec![f32::NAN; 2 * 3 * 5];
    let none = PackedWeights::new(&spec, 0, 5, Weights::new(Some(&[]), &w_hh));
    none.forward(2, 3, Sequence::new(&[]), &mut states);
    assert!(states.iter().all(|&v| v == 0.0));
}
