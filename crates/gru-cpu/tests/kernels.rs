//! Every instruction set, each forced, against the float64 oracle: states, saved gates and every gradient, from saved
//! and from recomputed gates. The buffers start with a number that no pass writes.
//!
//! A failure lists all cases that failed, the smallest first. One case runs by itself:
//!
//! ```sh
//! GRU_CASE='N5 T13 I9 H33 before' cargo test -p gru-cpu --test kernels
//! ```

mod support;
#[path = "support/trials.rs"]
mod trials;

use gru_cpu::{
    spec::{Activation, Activations, Precision},
    testing::Isa,
};
use gru_testkit::{
    activations::ACTIVATIONS,
    case::Case,
    close::Outcome,
    matrix::{covering, matrix},
    oracle::Skipped,
    passes,
    runs::Known,
};
use std::sync::OnceLock;
use support::{F32, Problem, Results, check, known};
use trials::with_each_isa;

fn main() {
    if std::env::var_os(CASE).is_some() {
        trials::run([with_each_isa(named_case)]);
    }
    trials::run([
        with_each_isa(all_options),
        with_each_isa(tiles_of_every_size),
        with_each_isa(long_sequences_and_products),
        with_each_isa(values_that_are_not_finite),
        with_each_isa(skipped_steps_in_rows_of_different_lengths),
        with_each_isa(clips_of_any_size),
        with_each_isa(a_scaled_tanh_of_any_size),
        with_each_isa(saturated_gates_latch),
        with_each_isa(an_update_gate_near_one_keeps_its_precision),
        with_each_isa(a_state_fades_to_zero),
        with_each_isa(a_gradient_fades_to_zero),
    ]);
}

/// The words of the only case to run.
const CASE: &str = "GRU_CASE";

fn named_case(isa: Isa) {
    let words = std::env::var(CASE).expect("main read it");
    let case = Known::for_kernels(Case::new(&words));
    check(isa, &case).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Checks cases, whose expected results are computed once for all instruction sets.
fn check_all(isa: Isa, all: &OnceLock<Vec<Known>>, cases: impl FnOnce() -> Vec<Case>) {
    let all = all.get_or_init(|| known(cases()));
    assert!(!all.is_empty());
    let failure = |known: &Known| Some((known.case.sizes, check(isa, known).err()?));
    let mut failures: Vec<_> = all.iter().filter_map(failure).collect();
    failures.sort_by_key(|(sizes, _)| sizes.n * sizes.t * (sizes.i + sizes.h) * sizes.h);
    let texts: Vec<_> = failures.into_iter().map(|(_, text)| text).collect();
    assert!(
        texts.is_empty(),
        "{} of {} cases failed:\n{}",
        texts.len(),
        all.len(),
        texts.join("\n")
    );
}

fn all_options(isa: Isa) {
    static KNOWN: OnceLock<Vec<Known>> = OnceLock::new();
    check_all(isa, &KNOWN, || matrix(3));
}

/// Rows, steps and units that do not fill a tile, a round or a vector. A NaN stays in its row.
fn tiles_of_every_size(isa: Isa) {
    static KNOWN: OnceLock<Vec<Known>> = OnceLock::new();
    check_all(isa, &KNOWN, || {
        let n: &[&str] = &["N1", "N2", "N3", "N4", "N5", "N7", "N8", "N9", "N13"];
        let h = ["H1", "H3", "H7", "H15", "H16", "H17", "H33", "H35", "H65"];
        let t = ["T1", "T2", "T3", "T4", "T7"];
        let edges = ["", "nan-in-x", "nan-in-h0", "nan-in-w_hh", "nan-in-d_y"];
        let rules = ["", "before", "lean", "before lean"];
        covering(&[n, &h, &t, &rules, &edges], 3)
    });
}

fn long_sequences_and_products(isa: Isa) {
    static KNOWN: OnceLock<Vec<Known>> = OnceLock::new();
    check_all(isa, &KNOWN, || {
        let rules: &[&str] = &["", "before", "lean", "before lean"];
        // A single row has separate code for its steps. The first steps of 392 are a round of few rows in the backward
        // pass, after full rounds.
        let sequences = ["N1 T392", "N1 T700", "N2 T392", "N2 T700"];
        let mut all = covering(&[&sequences, &["H20"], rules, &["", "start-states"]], 2);
        // A tile that prefetches what it writes computes its products in parts of 64 k.
        all.extend(covering(&[&["N13 T5 I70 H133"], rules], 2));
        // No row has a step.
        all.extend(covering(
            &[&["T2 short-lengths mask", "N2 T3 I0 H1 lengths"], rules],
            2,
        ));
        all
    });
}

/// NaN and infinities reach the same elements as in the oracle. A skipped step hides its values, a start ends the effect of
/// the steps before it, and without an initial state a weight is multiplied by zeros.
fn values_that_are_not_finite(isa: Isa) {
    static KNOWN: OnceLock<Vec<Known>> = OnceLock::new();
    check_all(isa, &KNOWN, || {
        let rules: &[&str] = &["", "before", "lean", "before lean"];
        let takes = ["", "takes", "clip-gates clip-state"];
        let bad = ["nan", "inf", "neginf"];
        let activations = (0..ACTIVATIONS.len()).map(|k| format!("N2 T3 H18 activations-{k}"));
        let activations: Vec<String> = activations.collect();
        let activations: Vec<&str> = activations.iter().map(String::as_str).collect();
        let of = |tensor: &str| bad.map(|bad| format!("{bad}-in-{tensor}"));
        let values = ["x", "b_ih"].map(of).concat();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let mut all = covering(&[&activations, &values, &["", "clip-gates"], rules], 2);
        let hidden = [
            "nan-in-w_ih",
            "nan-in-w_hh",
            "nan-in-b_hh",
            "nan-in-last-of-h0",
        ];
        all.extend(covering(
            &[&["N2 H18 skips", "H18 skips"], &hidden, &takes, rules],
            2,
        ));
        let crossing = [
            "nan-in-x",
            "nan-in-h0",
            "nan-in-start_state",
            "mask nan-in-recurrent_mask",
            "zoneout-per-unit nan-in-zoneout",
            "inf-in-d_y",
        ];
        let order = ["", "reverse", "time", "reverse time"];
        let starts = ["H18 start-states", "N1 H18 start-states"];
        all.extend(covering(&[&starts, &crossing, &order, &takes, rules], 2));
        all.extend(covering(&[&["N2 T1 H18 no-h0 nan-in-w_hh"], rules], 2));
        all
    });
}

/// A case has skipped steps or lengths, a call may have both.
fn skipped_steps_in_rows_of_different_lengths(isa: Isa) {
    for words in ["", "reverse", "before lean", "before time reverse"] {
        let words = format!("H18 lengths mask zoneout-per-unit start-states {words}");
        let known = Known::for_kernels(Case::new(&words));
        let (drawn, is_lean) = (&known.truth().0, known.case.has("lean"));
        let mut problem = Problem::<f32>::new(drawn);
        let mut call = drawn.call.clone();
        let skipped = |k: usize| k % 4 == 1;
        let valid = call.inputs.sequence.step_mask.as_mut().expect("lengths");
        let mask = problem.inputs.sequence.step_mask.as_mut().expect("lengths");
        for k in (0..valid.len()).filter(|&k| skipped(k)) {
            (valid[k], mask[k]) = (0.0, 0.0);
        }
        call.skipped = Skipped::State;
        let forward = call.forward();
        let (mut gates, mut states) = (forward.saved(&call), forward.y.clone());
        drawn.fill_skipped(&mut states, 0.0);
        let mut got = problem.outcome(&isa.run(|| problem.run(is_lean)));
        for all in [&mut gates, got.outputs.get_mut("gates").expect("gates")] {
            let width = all.len() / call.sizes.places();
            let rows = all.chunks_exact_mut(width).enumerate();
            let rows = rows.filter(|(k, _)| skipped(*k));
            rows.for_each(|(_, gates)| gates.fill(f64::NAN));
        }
        let expected = Outcome {
            outputs: [("states".into(), states), ("gates".into(), gates)].into(),
            gradients: forward.gradients(&drawn.d_y, &[]),
        };
        let compared = got.compare(&expected, F32);
        compared.unwrap_or_else(|error| panic!("{words}: {error}"));
    }
}

/// Clips that are not finite in float32 have no effect there. The largest finite clips do not bound here either, but the
/// default gates have different code with a clip.
fn clips_of_any_size(isa: Isa) {
    static KNOWN: OnceLock<Vec<Known>> = OnceLock::new();
    check_all(isa, &KNOWN, || {
        let zeros = [
            Activation::LeakyRelu { alpha: 0.0 },
            Activation::Elu { alpha: 0.0 },
        ];
        let all = [&ACTIVATIONS[..], &zeros].concat();
        let sets =
            (0..all.len()).map(|k| [0, 5, 10].map(|gate| all[(k + gate) % all.len()]).into());
        let sets = sets.chain([Activations::default()]);
        let largest = f64::from(f32::MAX);
        let clips = [f64::INFINITY, f64::MAX, 1e39, largest, 1e9];
        let with = |(k, activations): (usize, Activations)| {
            clips.map(|clip| {
                let clip = Some(clip);
                let words = ["", "before", "lean", "before lean"][k % 4];
                let mut case = Case::new(&format!("N2 T3 I2 H19 {words} +{k}-{clip:?}"));
                case.spec = case.spec.with_activations(activations);
                case.spec = match k % 3 {
                    0 => case.spec.with_clip_gates(clip),
                    1 => case.spec.with_clip_state(clip),
                    _ => case.spec.with_clip_gates(clip).with_clip_state(clip),
                };
                case
            })
        };
        sets.enumerate().flat_map(with).collect()
    });
}

/// The square of alpha is zero or infinite in float32, and the slopes are about one.
fn a_scaled_tanh_of_any_size(isa: Isa) {
    for (alpha, size) in [(1e-25, 1e-25), (1e25, 1.0)] {
        for words in ["", "before", "lean", "before lean"] {
            let mut problem = Problem::of(&format!("N9 T4 I2 H19 no-h0 no-b_ih no-b_hh {words}"));
            let beta = 1.0 / alpha;
            problem.gru.spec.activations.candidate = Activation::ScaledTanh { alpha, beta };
            let x = problem.inputs.sequence.x.iter_mut();
            x.for_each(|x| *x = f64::from((*x * size) as f32));
            let (expected, single) = (problem.plain(None), problem.cast::<f32>());
            let results = isa.run(|| single.run(words.contains("lean")));
            let compared = single.outcome(&results).compare(&expected, F32);
            compared.unwrap_or_else(|error| panic!("{alpha:e} {words}: {error}"));
        }
    }
}

/// A gate that is saturated in float64 is saturated in float32, and stays closed.
fn saturated_gates_latch(isa: Isa) {
    for words in ["", "before", "takes"] {
        let mut problem = Problem::<f32>::of(&format!("N3 T1000 I1 H18 no-b_hh {words}"));
        let (t, h) = (1000, 18);
        let open = if words == "takes" { -80.0 } else { 80.0 };
        problem.inputs.weights.b_ih.as_mut().expect("b_ih")[h..2 * h].fill(open);
        let got = isa.run(|| problem.run(false));
        let h0 = problem.inputs.sequence.h0.expect("h0");
        for (states, h0) in got.states.chunks_exact(t * h).zip(h0.chunks_exact(h)) {
            assert_eq!(
                states[(t - 1) * h..],
                *h0,
                "{words}: a latched state drifts"
            );
        }
        let [d_h0, d_w_ih, d_w_hh] = [got.d.h0, got.d.w_ih, got.d.w_hh].map(|d| d.expect("given"));
        let closed = d_w_ih.iter().chain(&d_w_hh).all(|d| d.abs() < 1e-12);
        assert!(closed, "{words}: a closed gate has a gradient");
        assert!(d_h0.iter().all(|d| d.is_finite()));
    }
}

/// `1 − z` comes from σ, also with a clip or with another activation of r: in a call, and in layers of every precision.
fn an_update_gate_near_one_keeps_its_precision(isa: Isa) {
    let sigmoid = Activation::Sigmoid;
    for (clip, reset) in [
        (None, sigmoid),
        (Some(30.0), sigmoid),
        (None, Activation::Softsign),
    ] {
        // From a state of zero without weights, the state is (1 − σ(17))·tanh(1).
        let mut case = Case::new("N3 T1 I2 H19 no-h0 no-b_hh");
        case.spec = case.spec.with_clip_gates(clip);
        case.spec.activations.reset = reset;
        let mut problem = Problem::<f32>::new(&case.draw());
        let h = problem.gru.sizes.h;
        let weights = &mut problem.inputs.weights;
        weights.w_ih.as_mut().expect("w_ih").fill(0.0);
        weights.w_hh.fill(0.0);
        let b_ih = weights.b_ih.as_mut().expect("b_ih");
        b_ih.fill(0.0);
        b_ih[h..2 * h].fill(17.0);
        b_ih[2 * h..].fill(1.0);
        let mut all = isa.run(|| problem.states());
        for precision in [Precision::Full, Precision::Bf16, Precision::Int8] {
            all.extend(isa.run(|| {
                let stack = problem.stack(precision);
                problem.stack_states(&stack, problem.stack_inputs())
            }));
        }
        let expected = 1f64.tanh() / (1.0 + 17f64.exp());
        for state in all {
            let error = (f64::from(state) / expected - 1.0).abs();
            assert!(
                error < 1e-6,
                "{clip:?} {reset:?}: {state:e}, expected {expected:e}"
            );
        }
    }
}

/// A state or gradient that decays becomes zero instead of staying subnormal. These are enough steps for a number that loses
/// a twentieth per step to become subnormal. Rounded to the nearest subnormal
/// it would stay at ten times the smallest one.
const STEPS: usize = 2200;
const UNITS: usize = 19;

/// An update gate of 0.95, a candidate of zero, and a gradient of the last state only.
fn fading(words: &str) -> Problem<f32> {
    let sizes = format!("N5 T{STEPS} I2 H{UNITS} no-b_hh");
    let mut problem = Problem::of(&format!("{sizes} {words}"));
    let b_ih = problem.inputs.weights.b_ih.as_mut().expect("b_ih");
    b_ih.fill(0.0);
    b_ih[UNITS..2 * UNITS].fill(if words.contains("takes") { -3.0 } else { 3.0 });
    problem.inputs.sequence.x.fill(0.0);
    problem.inputs.weights.w_hh.fill(0.0);
    for row in problem.d_states.chunks_exact_mut(STEPS * UNITS) {
        row[..(STEPS - 1) * UNITS].fill(0.0);
    }
    problem
}

/// The results of the kernels, and the oracle's states and gradient of x, rounded as IEEE 754 requires.
fn each_fading(isa: Isa, check: impl Fn(&str, Results<f32>, &[f64], &[f64])) {
    for words in ["", "takes", "before", "before takes"] {
        let problem = fading(words);
        let forward = passes::call(&problem.gru, &problem.inputs()).forward();
        let d_states: Vec<f64> = problem.d_states.iter().map(|&v| v.into()).collect();
        let d_x = &forward.gradients(&d_states, &[])["x"];
        for is_lean in [false, true] {
            check(words, isa.run(|| problem.run(is_lean)), &forward.y, d_x);
        }
    }
}

fn has_subnormal(plain: &[f64]) -> bool {
    plain.iter().any(|&v| (v as f32).is_subnormal())
}

fn a_state_fades_to_zero(isa: Isa) {
    each_fading(isa, |words, got, plain, _| {
        assert_eq!(
            (got.states.len(), plain.len()),
            (5 * STEPS * UNITS, got.states.len())
        );
        assert!(has_subnormal(plain));
        for (got, &expected) in got.states.iter().zip(plain) {
            assert!(!got.is_subnormal(), "{got:e}, {words}");
            // In each step z has an error of one or two units of the last place, and both passes round.
            let allowed = (4 * STEPS) as f32 * f32::EPSILON * expected.abs() as f32;
            let error = (got - expected as f32).abs();
            let id = format!("{got:e}, expected {expected:e}");
            assert!(error <= allowed + f32::MIN_POSITIVE, "{id}");
        }
        for row in got.states.chunks_exact(STEPS * UNITS) {
            let last = &row[(STEPS - 1) * UNITS..];
            assert!(last.iter().all(|v| *v == 0.0), "{last:?}, {words}");
        }
    });
}

fn a_gradient_fades_to_zero(isa: Isa) {
    each_fading(isa, |words, got, _, plain| {
        let (d_x, d_h0) = (got.d.x.expect("x"), got.d.h0.expect("h0"));
        assert!(has_subnormal(plain));
        assert!(d_x.iter().any(|v| *v != 0.0));
        for row in d_x.chunks_exact(STEPS * 2) {
            assert!(row[..2].iter().all(|v| *v == 0.0), "{words}");
        }
        assert!(d_h0.iter().all(|v| *v == 0.0), "{d_h0:?}, {words}");
    });
}
