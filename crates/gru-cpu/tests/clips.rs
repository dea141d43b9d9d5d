//! A clip that is not finite in the element type has no effect, and a finite clip of any size bounds: kernels of
//! every instruction set.

mod support;
#[path = "support/trials.rs"]
mod trials;

use gru_cpu::{
    Element, Stack, StackInputs, StackLayer,
    spec::{Activation, Activations, GruSpec, Layout, Precision, Reset, Sizes},
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
        with_each_isa(an_update_gate_near_one_keeps_its_precision),
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

/// `1 − z` comes from σ, also with a clip or with other activations of r and n.
fn an_update_gate_near_one_keeps_its_precision(isa: Isa) {
    let usual = GruSpec::default();
    let softsign = Activations {
        reset: Activation::Softsign,
        ..Activations::default()
    };
    for spec in [
        usual,
        usual.with_clip_gates(Some(30.0)),
        usual.with_activations(softsign),
    ] {
        // From a state of zero without weights, the state is (1 − σ(17))·tanh(1).
        let Sizes { n, i, h, .. } = DIMS;
        let sizes = Sizes { t: 1, ..DIMS };
        let mut case = Case::new(sizes, spec, &["w_ih", "b_ih"]).cast::<f32>();
        for name in ["w_ih", "w_hh", "b_ih"] {
            case.tensor(name).fill(0.0);
        }
        case.tensor("b_ih")[h..2 * h].fill(17.0);
        case.tensor("b_ih")[2 * h..].fill(1.0);
        let mut all = isa.run(|| case.states());
        let sequence = case.inputs().sequence;
        let layer = StackLayer {
            spec,
            ..StackLayer::new(case.inputs().weights)
        };
        for precision in [Precision::Full, Precision::Bf16, Precision::Int8] {
            let (mut y, mut last) = (vec![f32::NAN; n * h], vec![f32::NAN; n * h]);
            isa.run(|| {
                let stack = Stack::new(precision, [i, h], 1, &[layer]);
                let x = StackInputs::new(sequence.x);
                stack.forward(Layout::BatchMajor, [n, 1], x, &mut y, &mut last);
            });
            all.extend(y);
        }
        let expected = 1f64.tanh() / (1.0 + 17f64.exp());
        for state in all {
            let error = (f64::from(state) / expected - 1.0).abs();
            assert!(error < 1e-6, "{spec:?}: {state:e}, expected {expected:e}");
        }
    }
}
