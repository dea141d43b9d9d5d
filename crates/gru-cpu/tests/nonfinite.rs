//! NaN and infinities reach the same elements as in the float64 oracle, in every result, on every instruction set and
//! in tiles of every size. A skipped step hides its values.

mod support;
#[path = "support/trials.rs"]
mod trials;

use gru_cpu::{
    spec::{Activations, GruSpec, Reset, Sizes, Update},
    testing::Isa,
};
use gru_testkit::activations::ACTIVATIONS;
use support::{Case, agree, agree_in_kind, units};
use trials::{with_any_isa, with_each_isa};

fn main() {
    trials::run([
        with_each_isa(each_tensor_with_every_spec),
        with_each_isa(tiles_of_every_size),
        with_each_isa(a_weight_shows_at_the_first_step),
        with_each_isa(saturated_gates_latch),
        with_any_isa(skipped_steps_hide_what_they_hold),
    ]);
}

const PRESENT: [&str; 5] = ["h0", "w_ih", "b_ih", "b_hh", "recurrent_mask"];

/// The default activations, sets with all other activations, and clips.
fn specs() -> Vec<GruSpec> {
    // Three at a time. The last set is completed from the first.
    let activations = ACTIVATIONS;
    let sets = (0..activations.len())
        .step_by(3)
        .map(|k| [0, 1, 2].map(|gate| activations[(k + gate) % activations.len()]));
    let mut all = Vec::new();
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        all.push(spec);
        all.push(spec.with_update(Update::Takes));
        all.push(spec.with_clip_gates(Some(0.6)).with_clip_state(Some(0.4)));
        for activations in sets.clone() {
            let spec = spec.with_activations(activations.into());
            all.push(spec);
            all.push(spec.with_clip_gates(Some(0.6)));
        }
    }
    all
}

/// The kernels against the float64 oracle.
fn check(isa: Isa, id: &str, case: &Case<f64>) {
    let expected = case.plain();
    for lean in [false, true] {
        let mode = if lean { "lean" } else { "kept" };
        let id = format!("{id} {mode} {:?} {:?}", case.gru.sizes, case.gru.spec);
        let single = isa.run(|| case.cast::<f32>().run(lean));
        agree_in_kind(&id, units::<f32>(), &single, &expected);
        let double = isa.run(|| case.run(lean));
        agree_in_kind(&id, units::<f64>(), &double, &expected);
    }
}

/// One NaN or infinity in the middle of one tensor.
fn poison(case: &Case<f64>, name: &str, value: f64) -> Case<f64> {
    let mut case = case.clone();
    let tensor = case.tensor(name);
    let at = tensor.len() * 5 / 9;
    tensor[at] = value;
    case
}

const BAD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

fn each_tensor_with_every_spec(isa: Isa) {
    let (n, t, i, h) = (5, 3, 3, 18);
    for spec in specs() {
        let present = [&PRESENT[..], &["zoneout", "starts", "start_state"]].concat();
        let case = Case::new(Sizes { n, t, i, h }, spec, &present);
        let tensors = present.iter().chain(&["x", "w_hh", "d_states"]);
        for (k, name) in tensors.enumerate() {
            // The default gates run with all of them, the other gates with one each.
            if *name == "starts" {
                continue; // It holds flags.
            }
            let bad = if spec.activations == Activations::default() {
                &BAD[..]
            } else {
                &BAD[k % 3..][..1]
            };
            for &bad in bad {
                let poisoned = poison(&case, name, bad);
                check(isa, &format!("{bad} in {name}"), &poisoned);
            }
        }
    }
}

fn tiles_of_every_size(isa: Isa) {
    for n in [1, 2, 3, 4, 7, 8, 9, 13] {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            let (t, i, h) = (4, 2, 17);
            let spec = GruSpec::default().with_reset(reset);
            let case = Case::new(Sizes { n, t, i, h }, spec, &PRESENT);
            for name in ["x", "h0", "w_hh", "d_states"] {
                let poisoned = poison(&case, name, f64::NAN);
                check(isa, &format!("NaN in {name}"), &poisoned);
            }
        }
    }
}

/// Without an initial state a weight is multiplied by zeros, and a NaN in it still shows.
fn a_weight_shows_at_the_first_step(isa: Isa) {
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let (n, t, i, h) = (2, 1, 3, 18);
        let spec = GruSpec::default().with_reset(reset);
        let case = Case::new(Sizes { n, t, i, h }, spec, &["w_ih"]);
        let poisoned = poison(&case, "w_hh", f64::NAN);
        check(isa, "NaN in w_hh", &poisoned);
        let got = isa.run(|| poisoned.run(false));
        assert!(got["states"].iter().any(|state| state.is_nan()));
    }
}

fn skipped_steps_hide_what_they_hold() {
    for spec in specs() {
        let (n, t, i, h) = (6, 4, 3, 18);
        let present = [&PRESENT[..], &["step_mask"]].concat();
        let mut case = Case::new(Sizes { n, t, i, h }, spec, &present);
        // One row has no valid step.
        case.tensor("step_mask")[2 * t..3 * t].fill(0.0);
        let clean = case.clone();
        case.poison_skipped();
        let expected = clean.plain();
        for lean in [false, true] {
            let got = case.cast::<f32>().run(lean);
            let id = format!("lean {lean} {spec:?}");
            agree(&id, units::<f32>(), &got, &expected);
        }
        // A NaN in a weight or state does not reach a row without a valid step.
        for name in ["w_ih", "w_hh", "b_hh"] {
            let got = poison(&clean, name, f64::NAN).run(false);
            let of_row = |v: &[f64], width: usize| v[2 * width..3 * width].to_vec();
            let finite = |v: Vec<f64>| v.iter().all(|v| v.is_finite());
            assert!(finite(of_row(&got["states"], t * h)), "{name} {spec:?}");
            assert!(
                of_row(&got["d_x"], t * i).iter().all(|d| *d == 0.0),
                "{name} {spec:?}"
            );
            assert!(finite(of_row(&got["d_h0"], h)), "{name} {spec:?}");
        }
        let mut case = clean.clone();
        case.tensor("h0")[2 * h] = f64::NAN;
        for lean in [false, true] {
            let got = case.run(lean);
            for name in ["d_w_ih", "d_w_hh", "d_b_ih", "d_b_hh"] {
                assert!(!got[name].is_empty(), "{name}");
                let are_finite = got[name].iter().all(|d| d.is_finite());
                assert!(are_finite, "{name}, lean {lean} {spec:?}");
            }
        }
    }
}

/// A gate that is saturated in float64 is saturated in float32, and stays closed.
fn saturated_gates_latch(isa: Isa) {
    for (reset, update) in [
        (Reset::AfterMatmul, Update::Keeps),
        (Reset::BeforeMatmul, Update::Keeps),
        (Reset::AfterMatmul, Update::Takes),
    ] {
        let spec = GruSpec::default().with_reset(reset).with_update(update);
        let (n, t, i, h) = (3, 1000, 1, 18);
        let mut case = Case::new(Sizes { n, t, i, h }, spec, &["h0", "w_ih", "b_ih"]);
        let open = if update == Update::Keeps { 40.0 } else { -40.0 };
        case.tensor("b_ih")[h..2 * h].fill(open);
        let h0 = case.tensor("h0").clone();
        let got = isa.run(|| case.cast::<f32>().run(false));
        let [states, d_h0, d_w_ih, d_w_hh] =
            ["states", "d_h0", "d_w_ih", "d_w_hh"].map(|name| &got[name]);
        for row in 0..n {
            let last = &states[(row * t + t - 1) * h..][..h];
            let last: Vec<f64> = last.iter().map(|&v| v.into()).collect();
            assert_eq!(last, h0[row * h..][..h], "{spec:?}: a latched state drifts");
        }
        assert_eq!((d_w_ih.len(), d_w_hh.len()), (i * 3 * h, h * 3 * h));
        let closed = d_w_ih.iter().chain(d_w_hh).all(|d| d.abs() < 1e-12);
        assert!(closed, "{spec:?}: a closed gate has a gradient");
        assert_eq!(d_h0.len(), n * h);
        assert!(d_h0.iter().all(|d| d.is_finite()));
    }
}
