//! Strategies for sizes and conventions.

use gru_cpu::spec::{
    Activation, Activations, Direction, GruSpec, Layout, Order, Reset, Sizes, Update,
};
use gru_testkit::activations::ACTIVATIONS;
use proptest::{array::uniform3, prelude::*, sample::select};

/// Sizes, most of them small.
pub fn size() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..=9usize, 2 => 10..=33usize, 1 => 34..=70usize]
}

pub fn sizes() -> impl Strategy<Value = Sizes> {
    let t = prop_oneof![3 => 0..=8usize, 1 => 9..=40usize];
    (size(), t, size(), size()).prop_map(|(n, t, i, h)| Sizes { n, t, i, h })
}

/// One of all activations, and of those whose slope is 0 on the negative side.
pub fn activation(is_chosen: fn(&Activation) -> bool) -> impl Strategy<Value = Activation> {
    let alpha = 0.0;
    let zeros = [Activation::LeakyRelu { alpha }, Activation::Elu { alpha }];
    let all = ACTIVATIONS.into_iter().chain(zeros);
    select(all.filter(is_chosen).collect::<Vec<_>>())
}

/// With other activations a state can exceed float32.
pub fn is_bounded(activation: &Activation) -> bool {
    use Activation::*;
    matches!(
        activation,
        Sigmoid | Tanh | HardSigmoid { .. } | ScaledTanh { .. } | Softsign
    )
}

/// At a kink the last bit of a sum may decide the side.
pub fn is_smooth(activation: &Activation) -> bool {
    use Activation::*;
    is_bounded(activation) && !matches!(activation, HardSigmoid { .. })
        || matches!(activation, Identity | Affine { .. } | Softplus)
}

pub fn activations(
    one: impl Strategy<Value = Activation> + 'static,
) -> impl Strategy<Value = Activations> {
    let any = uniform3(one).prop_map(Activations::from);
    prop_oneof![1 => Just(Activations::default()), 1 => any]
}

/// No clip, a common clip, or one at an end of the float's range.
pub fn clip() -> impl Strategy<Value = Option<f64>> {
    let ends = vec![
        1e-40,
        1e-3,
        1e9,
        f64::from(f32::MAX),
        1e39,
        f64::MAX,
        f64::INFINITY,
    ];
    prop_oneof![
        3 => Just(None),
        1 => (0.2..2.0f64).prop_map(Some),
        1 => select(ends).prop_map(Some),
    ]
}

pub fn spec(
    activations: impl Strategy<Value = Activations>,
) -> impl Strategy<Value = (GruSpec, Order)> {
    (
        select(vec![Reset::AfterMatmul, Reset::BeforeMatmul]),
        select(vec![Update::Keeps, Update::Takes]),
        select(vec![Layout::BatchMajor, Layout::TimeMajor]),
        select(vec![Direction::Forward, Direction::Reverse]),
        activations,
        (clip(), clip()),
    )
        .prop_map(|(reset, update, layout, direction, activations, clips)| {
            // σ is one number within a smaller clip, and the slope of a gate is a function of the gate.
            let clip_gates = clips.0.map(|clip| clip.max(1e-12));
            let spec = GruSpec::default()
                .with_reset(reset)
                .with_update(update)
                .with_activations(activations)
                .with_clip_gates(clip_gates)
                .with_clip_state(clips.1);
            (spec, Order { layout, direction })
        })
}

/// A clip is a kink too, unless it exceeds float32.
pub fn without_kinks(
    spec: impl Strategy<Value = (GruSpec, Order)>,
) -> impl Strategy<Value = (GruSpec, Order)> {
    let clip = |clip: Option<f64>| clip.filter(|&c| c > f32::MAX.into());
    spec.prop_map(move |(spec, order)| {
        let gates = clip(spec.clip_gates);
        let state = clip(spec.clip_state);
        (spec.with_clip_gates(gates).with_clip_state(state), order)
    })
}
