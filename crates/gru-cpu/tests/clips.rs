//! A clip that is not finite in the element type has no effect, and a finite clip of any size bounds: kernels of
//! every instruction set.

mod support;
#[path = "support/trials.rs"]
mod trials;

use gru_cpu::{
    Element,
    spec::{Activation, GruSpec, Reset, Sizes},
    testing::Isa,
};
use gru_testkit::activations::ACTIVATIONS;
use support::{Case, RESULTS, agree, units};
use trials::with_each_isa;

fn main() {
    trials::run([
        with_each_isa(one_that_float32_does_not_hold_is_none_in_float32),
        with_each_isa(an_infinite_one_is_none_in_float64),
        with_each_isa(a_large_finite_one_changes_nothing),
    ]);
}

const DIMS: Sizes = Sizes {
    n: 3,
    t: 4,
    i: 2,
    h: 19,
};

/// Every activation as every gate, and the two whose slope is 0 on the negative side.
fn specs() -> impl Iterator<Item = GruSpec> {
    let zero = [
        Activation::LeakyRelu { alpha: 0.0 },
        Activation::Elu { alpha: 0.0 },
    ];
    let all = [&ACTIVATIONS[..], &zero].concat();
    let resets = [Reset::AfterMatmul, Reset::BeforeMatmul];
    (0..all.len())
        .zip(resets.into_iter().cycle())
        .map(move |(k, reset)| {
            let activations = [0, 5, 10].map(|gate| all[(k + gate) % all.len()]);
            GruSpec::default()
                .with_reset(reset)
                .with_activations(activations.into())
        })
}

fn case(spec: GruSpec) -> Case<f64> {
    Case::new(DIMS, spec, &["h0", "w_ih", "b_ih", "b_hh"])
}

fn with_clips(spec: GruSpec, clip: f64) -> [GruSpec; 3] {
    let clip = Some(clip);
    [
        spec.with_clip_gates(clip),
        spec.with_clip_state(clip),
        spec.with_clip_gates(clip).with_clip_state(clip),
    ]
}

/// Bits, so that two NaNs are equal.
fn bits<E: Element>(of: &[E]) -> Vec<u64> {
    let bits = |v: &E| v.to_f64().expect("a float").to_bits();
    of.iter().map(bits).collect()
}

fn is_none<E: Element>(isa: Isa, clip: f64) {
    for spec in specs().chain([GruSpec::default()]) {
        let run = |spec, lean| isa.run(|| case(spec).cast::<E>().run(lean));
        for clipped in with_clips(spec, clip) {
            for lean in [false, true] {
                let [got, expected] = [clipped, spec].map(|spec| run(spec, lean));
                for name in RESULTS {
                    let same = bits(&got[name]) == bits(&expected[name]);
                    assert!(same, "lean {lean}, {clipped:?}: {name} differs");
                }
            }
        }
    }
}

fn one_that_float32_does_not_hold_is_none_in_float32(isa: Isa) {
    for clip in [f64::INFINITY, f64::MAX, 1e39] {
        is_none::<f32>(isa, clip);
    }
}

fn an_infinite_one_is_none_in_float64(isa: Isa) {
    is_none::<f64>(isa, f64::INFINITY);
}

/// The largest finite clips do not bound here, so the results are the results without a clip, up to rounding: the
/// default gates have different code with a clip.
fn a_large_finite_one_changes_nothing(isa: Isa) {
    for spec in specs().chain([GruSpec::default()]) {
        let expected = case(spec).plain();
        for clipped in [1e9, f64::from(f32::MAX)]
            .map(|clip| with_clips(spec, clip))
            .concat()
        {
            let id = |float: &str| format!("{float} {clipped:?}");
            let single = isa.run(|| case(clipped).cast::<f32>().run(false));
            agree(&id("float32"), units::<f32>(), &single, &expected);
            let double = isa.run(|| case(clipped).run(false));
            agree(&id("float64"), units::<f64>(), &double, &expected);
        }
    }
}
