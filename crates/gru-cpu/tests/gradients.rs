//! The hand-written backward pass against central differences of the forward pass, in float64, for every option of
//! a call, with kept and with recomputed gates.

mod support;

use gru_cpu::{
    Gradients, Gru,
    spec::{
        Activation, Activations, Direction, GruSpec, Layout, NAMES, Order, Reset, Sizes, Update,
    },
};
use support::{Case, OPTIONAL, rules};

const USUAL: [&str; 4] = ["h0", "w_ih", "b_ih", "b_hh"];

fn loss(case: &Case<f64>) -> f64 {
    let states = case.states();
    states.iter().zip(case.d_states()).map(|(y, d)| y * d).sum()
}

fn check(gru: Gru, present: &[&str]) {
    let mut case = Case::of(gru, present);
    for lean in [false, true] {
        let [_, _, d @ ..] = case.run(lean);
        for (name, written) in NAMES.iter().zip(d) {
            for (k, written) in written.into_iter().enumerate() {
                let at = case.tensor(name)[k];
                let mut differ = |d: f64| {
                    let mut loss = |v: f64| {
                        case.tensor(name)[k] = v;
                        loss(&case)
                    };
                    let numeric = (loss(at + d) - loss(at - d)) / (2.0 * d);
                    case.tensor(name)[k] = at;
                    (numeric - written).abs() / numeric.abs().max(1.0)
                };
                // The error of a difference is d² times the third derivative, plus 1e-16/d. The finer
                // difference is for a kink (relu, a clip) within the first step.
                let (coarse, fine) = (differ(1e-5), differ(1e-7));
                assert!(
                    coarse < 1e-7 || fine < 1e-6,
                    "lean {lean} {gru:?} {present:?}: gradient of {name}[{k}] = {written} is off by {coarse}, {fine}"
                );
            }
        }
    }
}

const SMALL: Sizes = Sizes {
    n: 3,
    t: 4,
    i: 2,
    h: 3,
};

#[test]
fn every_rule_layout_and_direction() {
    for (spec, order) in rules() {
        let sizes = SMALL;
        check(Gru { sizes, order, spec }, &USUAL);
    }
}

#[test]
fn one_step_one_row_one_unit() {
    for (n, t, i, h) in [(1, 1, 1, 1), (2, 1, 3, 2), (1, 5, 1, 2), (4, 2, 1, 1)] {
        for (spec, order) in rules() {
            let sizes = Sizes { n, t, i, h };
            check(Gru { sizes, order, spec }, &USUAL);
        }
    }
}

#[test]
fn every_option_absent_or_present() {
    for bits in 0..256 {
        // The start state is present with the starts.
        let chosen = OPTIONAL.into_iter().enumerate();
        let chosen = chosen.filter(|(k, _)| bits >> k.min(&7) & 1 == 1);
        let present: Vec<_> = chosen.map(|(_, name)| name).collect();
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            let spec = GruSpec::default().with_reset(reset);
            check(Gru::new(SMALL, spec), &present);
            let order = Order {
                layout: Layout::TimeMajor,
                direction: Direction::Reverse,
            };
            let gru = Gru::new(SMALL, spec.with_update(Update::Takes));
            check(Gru { order, ..gru }, &present);
        }
    }
}

#[test]
fn activations_and_clips() {
    let (alpha, beta) = (0.7, 0.3);
    let sets = [
        [
            Activation::HardSigmoid { alpha, beta },
            Activation::Softsign,
            Activation::Elu { alpha },
        ],
        [
            Activation::Tanh,
            Activation::Affine { alpha, beta },
            Activation::ScaledTanh { alpha, beta },
        ],
        [
            Activation::LeakyRelu { alpha: 0.1 },
            Activation::Sigmoid,
            Activation::Softplus,
        ],
        [
            Activation::Softplus,
            Activation::ThresholdedRelu { alpha: 0.2 },
            Activation::Relu,
        ],
        [
            Activation::Sigmoid,
            Activation::Sigmoid,
            Activation::Identity,
        ],
    ];
    for [reset, update, candidate] in sets {
        let activations = Activations {
            reset,
            update,
            candidate,
        };
        for (clip_gates, clip_state) in [(None, None), (Some(0.6), None), (None, Some(0.4))] {
            for (spec, order) in rules() {
                let spec = spec
                    .with_activations(activations)
                    .with_clip_gates(clip_gates)
                    .with_clip_state(clip_state);
                let sizes = SMALL;
                check(Gru { sizes, order, spec }, &USUAL);
            }
        }
    }
}

#[test]
fn empty_batch_and_empty_sequence_give_zero_gradients() {
    for (n, t) in [(0, 3), (2, 0)] {
        let case = Case::new(Sizes { n, t, i: 2, h: 3 }, GruSpec::default(), &USUAL);
        let mut d_w = vec![f64::NAN; 27];
        let to = Gradients {
            w_hh: Some(&mut d_w),
            ..Gradients::default()
        };
        case.gru.backward(&case.inputs(), &[], None, &[], to);
        assert!(d_w.iter().all(|&d| d == 0.0));
    }
}
