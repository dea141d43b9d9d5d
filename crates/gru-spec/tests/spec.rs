//! Activations, setters, and invalid specs.

use std::ops::Range;

use gru_spec::{Activation, Activations, Direction, GruSpec, Layout, Reset, Update};
use gru_testkit::activations::ACTIVATIONS;

#[test]
fn layouts_and_directions_are_their_own_inverse() {
    for layout in [Layout::BatchMajor, Layout::TimeMajor] {
        let [n, t] = layout.split(layout.split(["n", "t"]));
        assert_eq!([n, t], ["n", "t"]);
        assert_eq!(layout.split(["n", "t"])[layout.time_dim()], "t");
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let walked = |steps: Range<usize>| steps.map(|s| direction.time(s, 7));
        for steps in [0..7, 2..5, 6..7, 3..3] {
            let mut times: Vec<_> = walked(steps.clone()).collect();
            times.sort_unstable();
            assert!(direction.times(steps, 7).eq(times));
        }
        assert!(walked(0..7).map(|t| direction.time(t, 7)).eq(0..7));
    }
}

#[test]
fn slopes_agree_with_central_differences_away_from_kinks() {
    let kinks = [-1.5, 0.0, 0.3, 11.0 / 6.0];
    for activation in ACTIVATIONS {
        for k in -40..=40 {
            let a = k as f64 * 0.11 + 0.013;
            if kinks.iter().any(|kink| (a - kink).abs() < 1e-3) {
                continue;
            }
            let d = 1e-5;
            let numeric = (activation.value(a + d) - activation.value(a - d)) / (2.0 * d);
            let written = activation.slope(activation.value(a));
            assert!(
                (numeric - written).abs() < 1e-8,
                "{activation:?} at {a}: {numeric} against {written}"
            );
        }
    }
}

#[test]
fn large_and_bad_pre_activations_keep_their_kind() {
    for activation in ACTIVATIONS {
        for a in [-1e4, 1e4] {
            let y = activation.value(a);
            assert!(
                y.is_finite() && activation.slope(y).is_finite(),
                "{activation:?} at {a}"
            );
        }
        assert!(activation.value(f64::NAN).is_nan(), "{activation:?}");
        assert!(activation.slope(f64::NAN).is_nan(), "{activation:?}");
    }
}

/// A spec that differs from the default in every field.
fn non_default() -> GruSpec {
    let activations = Activations {
        reset: Activation::Softsign,
        update: Activation::Relu,
        candidate: Activation::Identity,
    };
    let spec = GruSpec::default().with_reset(Reset::BeforeMatmul);
    let spec = spec
        .with_update(Update::Takes)
        .with_activations(activations);
    spec.with_clip_gates(Some(2.0)).with_clip_state(Some(3.0))
}

#[test]
fn setters() {
    let all = non_default();
    let set = GruSpec::default()
        .with_reset(all.reset)
        .with_update(all.update)
        .with_activations(all.activations)
        .with_clip_gates(all.clip_gates)
        .with_clip_state(all.clip_state);
    assert_eq!(set, all);
}

#[test]
fn parameters_without_a_backward_are_rejected_by_name() {
    use Activation::*;
    let hard = |alpha, beta| HardSigmoid { alpha, beta };
    let affine = |alpha, beta| Affine { alpha, beta };
    let scaled = |alpha, beta| ScaledTanh { alpha, beta };
    let of_one = |alpha| {
        [
            LeakyRelu { alpha },
            ThresholdedRelu { alpha },
            Elu { alpha },
        ]
    };
    let mut refused = of_one(-0.1).to_vec();
    refused.push(scaled(0.0, 1.0));
    for c in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        refused.extend(of_one(c));
        refused.extend([hard(c, 0.5), hard(0.2, c), affine(c, 0.5), affine(0.2, c)]);
        refused.extend([scaled(c, 1.0), scaled(1.0, c)]);
    }
    let mut at_the_edge = of_one(0.0).to_vec();
    at_the_edge.extend([hard(0.0, 0.0), affine(0.0, -1.0), scaled(-1.0, 0.0)]);
    let places = |activation| {
        let at = |gate: fn(&mut Activations) -> &mut Activation| {
            let mut activations = Activations::default();
            *gate(&mut activations) = activation;
            activations
        };
        [
            ("reset", at(|all| &mut all.reset)),
            ("update", at(|all| &mut all.update)),
            ("candidate", at(|all| &mut all.candidate)),
        ]
    };
    for activation in refused {
        for (name, activations) in places(activation) {
            let spec = GruSpec::default().with_activations(activations);
            let reason = spec.try_check().expect_err("refused").to_string();
            let start = format!("GruSpec: {name} activation {activation:?}: ");
            assert!(reason.starts_with(&start), "{reason}");
            assert!(reason.contains("must be finite"), "{reason}");
        }
    }
    for activation in ACTIVATIONS.into_iter().chain(at_the_edge) {
        for (_, activations) in places(activation) {
            GruSpec::default().with_activations(activations).check();
        }
    }
}

#[test]
fn clips_are_positive() {
    let usual = GruSpec::default();
    for c in [0.0, -0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
        let reason = usual
            .with_clip_gates(Some(c))
            .try_check()
            .unwrap_err()
            .to_string();
        assert!(reason.starts_with("GruSpec: clip_gates must be positive"));
        let reason = usual
            .with_clip_state(Some(c))
            .try_check()
            .unwrap_err()
            .to_string();
        assert!(reason.starts_with("GruSpec: clip_state must be positive"));
    }
    for c in [f64::MIN_POSITIVE, 1.0, f64::INFINITY] {
        usual
            .with_clip_gates(Some(c))
            .with_clip_state(Some(c))
            .check();
    }
}

#[test]
#[should_panic(expected = "clip_gates must be positive, expected > 0, got -1")]
fn check_panics_with_the_reason() {
    GruSpec::default().with_clip_gates(Some(-1.0)).check();
}
