//! Subnormals: as inputs they have almost no effect, and a state or gradient that decays becomes zero instead of
//! staying subnormal.

mod support;
#[path = "support/trials.rs"]
mod trials;

use gru_cpu::{
    spec::{GruSpec, Reset, Sizes, Update},
    testing::Isa,
};
use support::{Case, RESULTS, Results};
use trials::with_each_isa;

fn main() {
    trials::run([
        with_each_isa(as_inputs_they_change_next_to_nothing),
        with_each_isa(a_state_fades_to_zero),
        with_each_isa(a_gradient_fades_to_zero),
    ]);
}

fn as_inputs_they_change_next_to_nothing(isa: Isa) {
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        let (n, t, i, h) = (33, 6, 8, 64);
        let mut case = Case::new(Sizes { n, t, i, h }, spec, &["h0", "w_ih"]);
        for name in ["x", "h0", "d_states"] {
            case.tensor(name).iter_mut().for_each(|v| *v *= 1e-39);
        }
        let single = case.cast::<f32>();
        let expected = single.plain();
        for lean in [false, true] {
            let got = isa.run(|| single.run(lean));
            for name in RESULTS {
                let (got, expected) = (&got[name], &expected[name]);
                assert_eq!(got.len(), expected.len(), "{name}");
                for (got, expected) in got.iter().zip(expected) {
                    // Gates of zero inputs are one half; everything else is almost zero.
                    let close = (got - expected).abs() <= 1e-7 * expected.abs() + 1e-36;
                    let id = format!("lean {lean} {spec:?}: {name}");
                    assert!(close, "{id}: {got}, expected {expected}");
                }
            }
        }
    }
}

/// Enough steps for a number that loses a twentieth per step to become subnormal. Rounded to the nearest subnormal
/// it would stay at ten times the smallest one.
const STEPS: usize = 2200;

/// An update gate of 0.95, a candidate of zero, and a gradient of the last state only.
fn fading(reset: Reset, update: Update) -> Case<f32> {
    let (n, t, i, h) = (5, STEPS, 2, 19);
    let spec = GruSpec::default().with_reset(reset).with_update(update);
    let mut case = Case::new(Sizes { n, t, i, h }, spec, &["h0", "w_ih", "b_ih"]);
    case.tensor("x").fill(0.0);
    case.tensor("w_hh").fill(0.0);
    case.tensor("b_ih").fill(0.0);
    let kept = if update == Update::Keeps { 3.0 } else { -3.0 };
    case.tensor("b_ih")[h..2 * h].fill(kept);
    for row in case.tensor("d_states").chunks_exact_mut(t * h) {
        row[..(t - 1) * h].fill(0.0);
    }
    case.cast()
}

fn each_fading(isa: Isa, check: impl Fn(&Case<f32>, Results<f32>, Results<f32>)) {
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        for update in [Update::Keeps, Update::Takes] {
            for lean in [false, true] {
                let case = fading(reset, update);
                check(&case, isa.run(|| case.run(lean)), case.plain());
            }
        }
    }
}

fn a_state_fades_to_zero(isa: Isa) {
    each_fading(isa, |case, got, plain| {
        let (states, plain) = (&got["states"], &plain["states"]);
        let Sizes { n, t, h, .. } = case.gru.sizes;
        assert_eq!((states.len(), plain.len()), (n * t * h, n * t * h));
        // The oracle rounds as IEEE 754 requires.
        assert!(plain.iter().any(|v| v.is_subnormal()));
        for (got, expected) in states.iter().zip(plain) {
            assert!(!got.is_subnormal(), "{got:e} in {:?}", case.gru.spec);
            // In each step z has an error of one or two units of the last place, and both passes round.
            let allowed = (4 * STEPS) as f32 * f32::EPSILON * expected.abs() + f32::MIN_POSITIVE;
            let error = (got - expected).abs();
            assert!(error <= allowed, "{got:e}, expected {expected:e}");
        }
        for row in 0..n {
            let last = &states[(row * t + t - 1) * h..][..h];
            assert!(
                last.iter().all(|v| *v == 0.0),
                "{last:?} in {:?}",
                case.gru.spec
            );
        }
    });
}

fn a_gradient_fades_to_zero(isa: Isa) {
    each_fading(isa, |case, got, plain| {
        let (d_x, d_h0, plain) = (&got["d_x"], &got["d_h0"], &plain["d_x"]);
        let Sizes { n, t, i, h } = case.gru.sizes;
        assert_eq!((d_x.len(), d_h0.len()), (n * t * i, n * h));
        assert!(plain.iter().any(|v| v.is_subnormal()));
        assert!(d_x.iter().any(|v| *v != 0.0));
        for row in 0..n {
            let first = &d_x[row * t * i..][..i];
            assert!(
                first.iter().all(|v| *v == 0.0),
                "{first:?} in {:?}",
                case.gru.spec
            );
        }
        assert!(
            d_h0.iter().all(|v| *v == 0.0),
            "{d_h0:?} in {:?}",
            case.gru.spec
        );
    });
}
