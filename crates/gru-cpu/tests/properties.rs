//! Properties of every GRU, tested with random cases: all conventions, sizes from 0 to 70, values from zero and
//! subnormal to saturating, NaN and infinite.
//!
//! `PROPTEST_CASES=20000 cargo test --release -p gru-cpu --test properties` runs so many cases. A failing case is
//! recorded in `properties.regressions`, and runs first from then on.

mod support;

use gru_cpu::{
    Gru,
    spec::{
        Activation, Activations, Direction, GruSpec, Layout, NAMES, Order, Reset, Sizes, Update,
    },
    testing::Isa,
};
use gru_testkit::activations::ACTIVATIONS;
use proptest::{
    array::uniform3,
    prelude::*,
    sample::{select, subsequence},
    test_runner::{Config, FileFailurePersistence, RngSeed},
};
use support::{Case, RESULTS, Results};

fn config() -> Config {
    let default = Config::default();
    Config {
        // A property that requires moderate numbers rejects one case in sixty.
        max_global_rejects: default.cases.max(default.max_global_rejects),
        rng_seed: RngSeed::Fixed(14_061_078),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..default
    }
}

/// Sizes, most of them small.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..=9usize, 2 => 10..=33usize, 1 => 34..=70usize]
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let t = prop_oneof![3 => 0..=8usize, 1 => 9..=40usize];
    (size(), t, size(), size()).prop_map(|(n, t, i, h)| Sizes { n, t, i, h })
}

/// Activations with a bounded output. With the others a state can exceed float32.
fn bounded() -> impl Strategy<Value = Activation> {
    let (alpha, beta) = (0.3, 0.4);
    select(vec![
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::HardSigmoid { alpha, beta },
        Activation::ScaledTanh { alpha, beta },
        Activation::Softsign,
    ])
}

/// Activations without a kink. At a kink the last bit of a sum may decide the side.
fn smooth() -> impl Strategy<Value = Activation> {
    let (alpha, beta) = (0.3, 0.4);
    select(vec![
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::ScaledTanh { alpha, beta },
        Activation::Softsign,
        Activation::Identity,
        Activation::Affine { alpha, beta },
        Activation::Softplus,
    ])
}

fn any_activation() -> impl Strategy<Value = Activation> {
    let alpha = 0.3;
    let kinked = select(vec![
        Activation::Relu,
        Activation::LeakyRelu { alpha },
        Activation::LeakyRelu { alpha: 0.0 },
        Activation::ThresholdedRelu { alpha },
        Activation::Elu { alpha },
    ]);
    prop_oneof![bounded(), smooth(), kinked, select(ACTIVATIONS.to_vec())]
}

fn activations(
    one: impl Strategy<Value = Activation> + 'static,
) -> impl Strategy<Value = Activations> {
    let any = uniform3(one).prop_map(Activations::from);
    prop_oneof![1 => Just(Activations::default()), 1 => any]
}

/// No clip, a common clip, or one at an end of the float's range.
fn clip() -> impl Strategy<Value = Option<f64>> {
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

fn spec(
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
fn without_kinks(
    spec: impl Strategy<Value = (GruSpec, Order)>,
) -> impl Strategy<Value = (GruSpec, Order)> {
    let clip = |clip: Option<f64>| clip.filter(|&c| c > f32::MAX.into());
    spec.prop_map(move |(spec, order)| {
        let gates = clip(spec.clip_gates);
        let state = clip(spec.clip_state);
        (spec.with_clip_gates(gates).with_clip_state(state), order)
    })
}

/// The magnitude of the numbers.
#[derive(Clone, Copy, PartialEq)]
enum Range {
    /// About one, or zero.
    Tame,
    /// From subnormals to numbers that saturate every gate.
    Wide,
}

/// A replacement for some numbers of a tensor.
const ODD: [f64; 6] = [0.0, -0.0, 1e-40, -1e-44, 1.0, -1.0];

fn case(
    sizes: impl Strategy<Value = Sizes>,
    spec: impl Strategy<Value = (GruSpec, Order)>,
    range: Range,
) -> impl Strategy<Value = Case<f64>> {
    let scale = select(match range {
        Range::Tame => vec![1.0],
        Range::Wide => vec![1.0, 1.0, 10.0, 100.0],
    });
    let present = subsequence(NAMES.to_vec(), 0..=NAMES.len());
    let odd = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec((select(ODD.to_vec()), 0..NUMBERS.len(), any::<u16>()), 1..20)];
    (sizes, spec, present, scale, odd).prop_map(move |(sizes, spec, mut present, scale, odd)| {
        if !present.contains(&"starts") {
            present.retain(|&name| name != "start_state");
        }
        let (spec, order) = spec;
        let gru = Gru { sizes, order, spec };
        let mut case = Case::of(gru, &present);
        for name in ["x", "h0", "b_ih", "start_state", "d_states"] {
            let numbers = case.get(name).into_iter().flatten();
            numbers.for_each(|v| *v *= scale);
        }
        for (value, tensor, at) in odd {
            // Rounded to float32: a subnormal number differs in float64.
            let value = f64::from(value as f32);
            let is_too_small = range == Range::Tame && value.abs() < 1e-37;
            let value = if is_too_small { 0.0 } else { value };
            replace(&mut case, NUMBERS[tensor], at, value);
        }
        case
    })
}

/// Tensors of numbers, not of flags.
const NUMBERS: [&str; 10] = [
    "x",
    "h0",
    "w_ih",
    "w_hh",
    "b_ih",
    "b_hh",
    "recurrent_mask",
    "zoneout",
    "start_state",
    "d_states",
];

/// Writes a number to some element of a tensor, if the tensor is present and not empty.
fn replace(case: &mut Case<f64>, tensor: &str, at: u16, value: f64) {
    if let Some(tensor) = case.get(tensor)
        && !tensor.is_empty()
    {
        let at = usize::from(at) % tensor.len();
        tensor[at] = value;
    }
}

/// Whether all numbers of a case stay far below the largest float32.
fn is_tame(of: &Results<f32>) -> bool {
    of.0.iter().flatten().all(|v| v.abs() < 1e30)
}

/// The same call with every number moved by up to half a unit of its last place. `draw` decides the direction.
fn jiggled(case: &Case<f64>, draw: u64) -> Case<f64> {
    let mut other = case.clone();
    for (k, name) in NUMBERS.into_iter().enumerate() {
        for (at, v) in other.get(name).into_iter().flatten().enumerate() {
            let at = at as u64 + draw * 977;
            let up = (at * 0x9e37_79b9 + k as u64 * 0x85eb_ca6b) >> 13 & 1 == 1;
            let half = f64::from(f32::EPSILON) / 2.0;
            *v *= if up { 1.0 + half } else { 1.0 - half };
        }
    }
    other
}

/// So many draws miss a third of all outcomes with a probability of 2 in a million.
const DRAWS: u64 = 32;

/// Moves a gate by two units of the last place, the largest error of an activation (`simd::math` tests all float32
/// arguments). The bits of the gate decide the direction.
fn move_gate(gate: f64) -> f64 {
    let up = gate.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1;
    let two = 2.0 * f64::from(f32::EPSILON);
    gate * if up { 1.0 + two } else { 1.0 - two }
}

/// The measures for the error of a float32 run.
struct Scale {
    /// No error.
    exact: Results<f64>,
    /// The oracle in float32: plain code with the same sums has the same rounding errors.
    plain: Results<f32>,
    /// The effect of rounding the inputs, once or several times. In a sequence that magnifies every error, the effect
    /// of one rounding is random.
    moved: Vec<Results<f64>>,
    /// The effect of activation errors on gradients. The slope of a nearly saturated gate is a small difference,
    /// `1 − y²`, and depends on the last place of y.
    gates: Results<f64>,
}

/// `got` is closer to `exact` than a multiple of these errors. The factor allows for other orders of sums. The error
/// of activations is known and counts twice, because its signs are unknown.
fn close(got: &Results<f32>, scale: &Scale) -> Result<(), TestCaseError> {
    let Scale {
        exact,
        plain,
        moved,
        gates,
    } = scale;
    for name in RESULTS {
        let exact = &exact[name];
        let largest = exact.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let distance = |of: &mut dyn Iterator<Item = f64>| {
            of.zip(exact).fold(0.0f64, |m, (v, e)| m.max((v - e).abs()))
        };
        let single = |of: &Results<f32>| distance(&mut of[name].iter().map(|&v| f64::from(v)));
        let own = single(plain)
            + moved.iter().fold(0.0f64, |worst, moved| {
                worst.max(distance(&mut moved[name].iter().copied()))
            })
            + 4.0 * f64::from(f32::EPSILON) * largest;
        let of_gates = distance(&mut gates[name].iter().copied());
        // Forward results do not depend on the saved gates.
        let of_gates = if name.starts_with("d_") {
            of_gates
        } else {
            0.0
        };
        prop_assert!(
            got[name].iter().all(|v| v.is_finite()),
            "{name} is not finite"
        );
        let (error, allowed) = (single(got), 8.0 * own + 2.0 * of_gates + 1e-36);
        prop_assert!(
            error <= allowed,
            "{name}: off by {error:e}, allowed {allowed:e}"
        );
    }
    Ok(())
}

/// Float64 results, equal to rounding.
fn same(what: &str, got: &[f64], expected: &[f64]) -> Result<(), TestCaseError> {
    prop_assert_eq!(got.len(), expected.len());
    let largest = expected.iter().fold(1.0f64, |m, v| m.max(v.abs()));
    for (got, expected) in got.iter().zip(expected) {
        let error = (got - expected).abs();
        prop_assert!(error <= 1e-9 * largest, "{what}: {got} is not {expected}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn kernels_are_as_exact_as_plain_float32(
        case in case(sizes(), without_kinks(spec(activations(smooth().boxed()))), Range::Wide),
        isa in select(Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect::<Vec<_>>()),
    ) {
        let single = case.cast::<f32>();
        let moved = |draw| jiggled(&case, draw).plain();
        let mut scale = Scale {
            exact: case.plain(),
            plain: single.plain(),
            moved: vec![moved(0)],
            gates: case.plain_with(Some(move_gate)),
        };
        if is_tame(&scale.plain) {
            for lean in [false, true] {
                let got = isa.run(|| single.run(lean));
                if close(&got, &scale).is_err() && scale.moved.len() == 1 {
                    // One draw does not show the spread. In the second case of `properties.regressions`
                    // a third of all draws has a hundred times the error of the others, in any order of sums.
                    scale.moved.extend((1..DRAWS).map(moved));
                }
                close(&got, &scale)?;
            }
        }
    }

    #[test]
    fn float64_kernels_are_the_oracle(
        case in prop_oneof![
            case(sizes(), spec(activations(any_activation().boxed())), Range::Tame),
            case(sizes(), spec(activations(bounded().boxed())), Range::Wide),
        ],
        isa in select(Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect::<Vec<_>>()),
    ) {
        let mut case = case;
        case.poison_skipped();
        let expected = case.plain();
        // A state that doubles at every step also magnifies every rounding.
        prop_assume!(expected["states"].iter().all(|v| v.abs() < 1e4));
        prop_assume!(expected.0.iter().flatten().all(|v| v.abs() < 1e8));
        for lean in [false, true] {
            let got = isa.run(|| case.run(lean));
            for name in RESULTS {
                same(name, &got[name], &expected[name])?;
            }
        }
    }

    #[test]
    fn what_is_not_finite_goes_where_float64_puts_it(
        case in case(sizes(), spec(activations(bounded().boxed())), Range::Tame),
        isa in select(Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect::<Vec<_>>()),
        bad in select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
        tensor in select(NUMBERS.to_vec()),
        at in any::<u16>(),
    ) {
        let mut case = case;
        replace(&mut case, tensor, at, bad);
        let expected = case.plain();
        for lean in [false, true] {
            let got = isa.run(|| case.run(lean));
            for name in RESULTS {
                for (at, (got, expected)) in got[name].iter().zip(&expected[name]).enumerate() {
                    let same = if expected.is_finite() {
                        got.is_finite()
                    } else {
                        got == expected || got.is_nan() && expected.is_nan()
                    };
                    prop_assert!(same, "lean {lean}: {name}[{at}] = {got}, expected {expected}");
                }
            }
        }
    }
}
