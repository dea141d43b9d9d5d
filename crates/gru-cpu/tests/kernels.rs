//! Every instruction set, each forced, against the float64 oracle: states, saved gates and every gradient, from saved
//! and from recomputed gates. The sizes do not fill a vector or a tile, and the buffers start as NaN.

mod support;
#[path = "support/trials.rs"]
mod trials;

use gru_cpu::{
    Gru,
    spec::{Activation, GruSpec, Reset, Sizes},
    testing::Isa,
};
use gru_testkit::activations::ACTIVATIONS;
use support::{Case, agree, rules};
use trials::{with_any_isa, with_each_isa};

fn main() {
    trials::run([
        with_each_isa(odd_sizes),
        with_each_isa(no_inputs_at_all),
        with_each_isa(every_rule_layout_and_direction),
        with_each_isa(masks_skipped_steps_zoneout_starts_and_projected_inputs),
        with_each_isa(uncommon_activations_and_clips),
        with_each_isa(a_scaled_tanh_of_any_size),
        with_each_isa(long_sequences),
        with_each_isa(long_products),
        with_any_isa(this_machine_has_more_than_one),
    ]);
}

const USUAL: [&str; 4] = ["h0", "w_ih", "b_ih", "b_hh"];

/// The rule of the recorded cases, and 1e-7 times as much in float64.
const F32: [f64; 2] = [2e-6, 5e-6];
const F64: [f64; 2] = [2e-13, 5e-13];

fn compare(isa: Isa, sizes: Sizes, spec: GruSpec, present: &[&str]) {
    compare_in(isa, Gru::new(sizes, spec), present);
}

fn compare_in(isa: Isa, gru: Gru, present: &[&str]) {
    let mut case = Case::of(gru, present);
    let expected = case.plain();
    case.poison_skipped();
    for lean in [false, true] {
        let id = format!("lean {lean} {gru:?} {present:?}");
        let single = isa.run(|| case.cast::<f32>().run(lean));
        agree(&id, F32, &single, &expected);
        let double = isa.run(|| case.run(lean));
        agree(&id, F64, &double, &expected);
    }
}

fn resets() -> [GruSpec; 2] {
    [Reset::AfterMatmul, Reset::BeforeMatmul].map(|reset| GruSpec::default().with_reset(reset))
}

fn this_machine_has_more_than_one() {
    assert!(Isa::Scalar.is_available());
    let wanted = cfg!(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_feature = "simd128"
    ));
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    assert!(
        !wanted || available.count() > 1,
        "only the scalar path is tested"
    );
}

fn odd_sizes(isa: Isa) {
    for h in [1, 3, 7, 15, 16, 17, 33, 65] {
        for n in [1, 5, 13] {
            for t in [1, 2, 3, 4, 7] {
                for spec in resets() {
                    compare(isa, Sizes { n, t, i: 2, h }, spec, &USUAL);
                }
            }
        }
    }
}

fn no_inputs_at_all(isa: Isa) {
    for spec in resets() {
        let (n, t, i, h) = (5, 3, 0, 17);
        compare(isa, Sizes { n, t, i, h }, spec, &USUAL);
    }
}

fn every_rule_layout_and_direction(isa: Isa) {
    for (n, t, i, h) in [(11, 6, 5, 35), (2, 3, 1, 9)] {
        for (spec, order) in rules() {
            let gru = Gru::new(Sizes { n, t, i, h }, spec);
            for present in [&USUAL[..], &USUAL[1..], &USUAL[..2]] {
                compare_in(isa, Gru { order, ..gru }, present);
            }
        }
    }
}

fn masks_skipped_steps_zoneout_starts_and_projected_inputs(isa: Isa) {
    let (n, t, i, h) = (6, 5, 3, 21);
    let sizes = Sizes { n, t, i, h };
    let some = [
        "h0",
        "w_ih",
        "recurrent_mask",
        "step_mask",
        "zoneout",
        "starts",
        "start_state",
    ];
    for (spec, order) in rules() {
        for bits in 0..128 {
            let chosen = some.iter().enumerate().filter(|(k, _)| bits >> k & 1 == 0);
            let mut present: Vec<&str> = chosen.map(|(_, name)| *name).collect();
            if present.contains(&"start_state") && !present.contains(&"starts") {
                continue;
            }
            present.extend(["b_ih", "b_hh"]);
            compare_in(isa, Gru { sizes, order, spec }, &present);
        }
    }
}

fn uncommon_activations_and_clips(isa: Isa) {
    // Each activation as every gate.
    let all = ACTIVATIONS;
    let sets = (0..all.len()).map(|k| [0, 4, 8].map(|gate| all[(k + gate) % all.len()]));
    for activations in sets {
        for (gates, state) in [(None, None), (Some(0.6), None), (None, Some(0.4))] {
            for spec in resets() {
                let spec = spec.with_activations(activations.into());
                let spec = spec.with_clip_gates(gates).with_clip_state(state);
                let (n, t, i, h) = (9, 4, 2, 19);
                compare(isa, Sizes { n, t, i, h }, spec, &USUAL);
            }
        }
    }
}

fn long_sequences(isa: Isa) {
    let with_starts = [&USUAL[..], &["starts", "start_state"]].concat();
    for spec in resets() {
        // A single row has separate code for its steps.
        for n in [1, 2] {
            for present in [&USUAL[..], &with_starts] {
                // The first steps of 392 are a round of few rows in the backward pass, after full rounds.
                for t in [392, 700] {
                    let (i, h) = (3, 20);
                    compare(isa, Sizes { n, t, i, h }, spec, present);
                }
            }
        }
    }
}

/// A tile that prefetches what it writes computes its products in parts of 64 k.
fn long_products(isa: Isa) {
    for spec in resets() {
        let (n, t, i, h) = (13, 5, 70, 133);
        compare(isa, Sizes { n, t, i, h }, spec, &USUAL);
    }
}

/// The square of alpha is zero or infinite in float32, and the slopes are about one.
fn a_scaled_tanh_of_any_size(isa: Isa) {
    for (alpha, size) in [(1e-25, 1e-25), (1e25, 1.0)] {
        for mut spec in resets() {
            spec.activations.candidate = Activation::ScaledTanh {
                alpha,
                beta: 1.0 / alpha,
            };
            let (n, t, i, h) = (9, 4, 2, 19);
            let mut case = Case::new(Sizes { n, t, i, h }, spec, &["w_ih"]);
            case.tensor("x").iter_mut().for_each(|x| *x *= size);
            let (expected, single) = (case.plain(), case.cast::<f32>());
            for lean in [false, true] {
                let id = format!("lean {lean} {spec:?}");
                agree(&id, F32, &isa.run(|| single.run(lean)), &expected);
            }
        }
    }
}
