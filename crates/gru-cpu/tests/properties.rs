//! Properties of every GRU, tested with random cases: all conventions, sizes from 0 to 70, values from zero and
//! subnormal to saturating, NaN and infinite.
//!
//! `PROPTEST_CASES=20000 cargo test --release -p gru-cpu --test properties` runs so many cases. A failing case is
//! recorded in `properties.regressions`, and runs first from then on.

mod support;

use gru_cpu::{
    Gru,
    spec::{Activation, Activations, Direction, GruSpec, Layout, Order, Reset, Sizes, Update},
    testing::Isa,
};
use gru_testkit::activations::ACTIVATIONS;
use proptest::{
    prelude::*,
    sample::{select, subsequence},
    test_runner::{Config, FileFailurePersistence, RngSeed},
};
use support::{Case, OPTIONAL, RESULTS, Results, place};

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
    one: impl Strategy<Value = Activation> + Clone + 'static,
) -> impl Strategy<Value = Activations> {
    let any = (one.clone(), one.clone(), one);
    let any = any.prop_map(|(reset, update, candidate)| Activations {
        reset,
        update,
        candidate,
    });
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
    optional: &'static [&'static str],
    range: Range,
) -> impl Strategy<Value = Case<f64>> {
    let scale = select(match range {
        Range::Tame => vec![1.0],
        Range::Wide => vec![1.0, 1.0, 10.0, 100.0],
    });
    let present = subsequence(optional, 0..=optional.len());
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
    of.iter().flatten().all(|v| v.abs() < 1e30)
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
    for (k, name) in RESULTS.iter().enumerate() {
        let exact = &exact[k];
        let largest = exact.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let distance = |of: &mut dyn Iterator<Item = f64>| {
            of.zip(exact).fold(0.0f64, |m, (v, e)| m.max((v - e).abs()))
        };
        let single = |of: &Results<f32>| distance(&mut of[k].iter().map(|&v| f64::from(v)));
        let own = single(plain)
            + moved.iter().fold(0.0f64, |worst, moved| {
                worst.max(distance(&mut moved[k].iter().copied()))
            })
            + 4.0 * f64::from(f32::EPSILON) * largest;
        let of_gates = distance(&mut gates[k].iter().copied());
        // Forward results do not depend on the saved gates.
        let of_gates = if k < 2 { 0.0 } else { of_gates };
        prop_assert!(got[k].iter().all(|v| v.is_finite()), "{name} is not finite");
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

/// Rows of a sequence in another order or number. `rows[k]` is the row of `v`, and the step, of the k-th row of the
/// result.
fn pick(v: &[f64], width: usize, rows: &[usize]) -> Vec<f64> {
    rows.iter()
        .flat_map(|row| v[row * width..][..width].to_vec())
        .collect()
}

/// The case with a selection of its batch and time: the given rows of each tensor, in that order.
fn picked(case: &Case<f64>, batch: &[usize], steps: &[usize]) -> Case<f64> {
    let (gru, h) = (&case.gru, case.gru.sizes.h);
    let sequence: Vec<usize> = match gru.order.layout {
        Layout::BatchMajor => batch
            .iter()
            .flat_map(|&n| steps.iter().map(move |&t| place(gru, n, t)))
            .collect(),
        Layout::TimeMajor => steps
            .iter()
            .flat_map(|&t| batch.iter().map(move |&n| place(gru, n, t)))
            .collect(),
    };
    let mut other = case.clone();
    other.gru.sizes.n = batch.len();
    other.gru.sizes.t = steps.len();
    let features = features(case);
    for (name, width) in [
        ("x", features),
        ("step_mask", 1),
        ("starts", 1),
        ("zoneout", h),
        ("d_states", h),
    ] {
        if let Some(v) = other.get(name) {
            *v = pick(v, width, &sequence);
        }
    }
    for name in ["h0", "recurrent_mask", "start_state"] {
        if let Some(v) = other.get(name) {
            *v = pick(v, h, batch);
        }
    }
    other
}

/// The number of elements of a row of x.
fn features(case: &Case<f64>) -> usize {
    match case.tensors[2] {
        Some(_) => case.gru.sizes.i,
        None => 3 * case.gru.sizes.h,
    }
}

fn all(count: usize) -> Vec<usize> {
    (0..count).collect()
}

/// Sizes without a zero, for properties of tensor contents.
fn some_dims() -> impl Strategy<Value = Sizes> {
    (1..=13usize, 1..=9usize, 0..=7usize, 1..=20usize).prop_map(|(n, t, i, h)| Sizes { n, t, i, h })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn kernels_are_as_exact_as_plain_float32(
        case in case(sizes(), without_kinks(spec(activations(smooth().boxed()))), &OPTIONAL, Range::Wide),
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
        case in case(sizes(), spec(activations(any_activation().boxed())), &OPTIONAL, Range::Tame),
        isa in select(Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect::<Vec<_>>()),
    ) {
        let expected = case.plain();
        // A state that doubles at every step also magnifies every rounding.
        prop_assume!(expected.iter().flatten().all(|v| v.abs() < 1e4));
        for lean in [false, true] {
            let got = isa.run(|| case.run(lean));
            for (name, (got, expected)) in RESULTS.iter().zip(got.iter().zip(&expected)) {
                same(name, got, expected)?;
            }
        }
    }

    #[test]
    fn what_is_not_finite_goes_where_float64_puts_it(
        case in case(sizes(), spec(activations(bounded().boxed())), &OPTIONAL, Range::Tame),
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
            for (name, (got, expected)) in RESULTS.iter().zip(got.iter().zip(&expected)) {
                for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
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

    #[test]
    fn a_sequence_is_its_two_halves(
        case in case(some_dims(), spec(activations(bounded().boxed())), &OPTIONAL, Range::Wide),
        cut in any::<u8>(),
    ) {
        let Sizes { n, t, h, .. } = case.gru.sizes;
        let cut = usize::from(cut) % (t + 1);
        let steps = all(t);
        let (early, late) = steps.split_at(cut);
        let (first, second) = match case.gru.order.direction {
            Direction::Forward => (early, late),
            Direction::Reverse => (late, early),
        };
        // In reverse, a start at the cut is not part of either half.
        let mut case = case;
        if case.gru.order.direction == Direction::Reverse && cut < t {
            for row in 0..n {
                let at = place(&case.gru, row, cut);
                if let Some(starts) = case.get("starts") {
                    starts[at] = 0.0;
                }
            }
        }
        let [whole, ..] = case.run(false);
        let one = picked(&case, &all(n), first);
        let [states, ..] = one.run(false);
        let mut other = picked(&case, &all(n), second);
        if !first.is_empty() {
            let last = match case.gru.order.direction {
                Direction::Forward => first.len() - 1,
                Direction::Reverse => 0,
            };
            let rows: Vec<_> = (0..n).map(|row| place(&one.gru, row, last)).collect();
            other.tensors[1] = Some(pick(&states, h, &rows));
        }
        let [rest, ..] = other.run(false);
        for (part, steps) in [(states, first), (rest, second)] {
            let mut of_whole = case.clone();
            *of_whole.tensor("d_states") = whole.clone();
            same("states", &part, picked(&of_whole, &all(n), steps).tensor("d_states"))?;
        }
    }

    #[test]
    fn reverse_is_forward_of_the_reversed(
        case in case(some_dims(), spec(activations(bounded().boxed())), &OPTIONAL, Range::Wide),
    ) {
        let Sizes { n, t, .. } = case.gru.sizes;
        let mut case = case;
        let gru = case.gru;
        let mut turned_starts = vec![0.0; n * t];
        if let Some(starts) = case.tensors[9].as_mut() {
            for row in 0..n {
                // In reverse no step crosses the boundary before time 0.
                starts[place(&gru, row, 0)] = 0.0;
                for time in 1..t {
                    turned_starts[place(&gru, row, time)] = starts[place(&gru, row, t - time)];
                }
            }
        }
        let backwards: Vec<usize> = all(t).into_iter().rev().collect();
        let mut other = picked(&case, &all(case.gru.sizes.n), &backwards);
        other.gru.order.direction = match case.gru.order.direction {
            Direction::Forward => Direction::Reverse,
            Direction::Reverse => Direction::Forward,
        };
        if let Some(starts) = other.get("starts") {
            *starts = turned_starts;
        }
        let (got, expected) = (other.run(false), case.run(false));
        let mut turned = case.clone();
        *turned.tensor("d_states") = expected[0].clone();
        *turned.tensor("x") = expected[2].clone();
        let mut turned = picked(&turned, &all(case.gru.sizes.n), &backwards);
        same("states", &got[0], turned.tensor("d_states"))?;
        same("d_x", &got[2], turned.tensor("x"))?;
        for k in 3..8 {
            same(RESULTS[k], &got[k], &expected[k])?;
        }
    }

    #[test]
    fn rows_know_nothing_of_each_other(
        case in case(some_dims(), spec(activations(bounded().boxed())), &OPTIONAL, Range::Wide),
        shuffle in any::<u64>(),
    ) {
        let Sizes { n, t, .. } = case.gru.sizes;
        let mut order = all(n);
        order.sort_by_key(|&row| (row as u64 + 1).wrapping_mul(shuffle | 1));
        let together = case.run(false);
        let mut of_rows = case.clone();
        *of_rows.tensor("d_states") = together[0].clone();
        *of_rows.tensor("x") = together[2].clone();
        let permuted = picked(&case, &order, &all(t)).run(false);
        let mut expected = picked(&of_rows, &order, &all(t));
        same("states", &permuted[0], expected.tensor("d_states"))?;
        same("d_x", &permuted[2], expected.tensor("x"))?;
        for row in 0..n {
            let alone = picked(&case, &[row], &all(t)).run(false);
            let mut expected = picked(&of_rows, &[row], &all(t));
            same("states of a row", &alone[0], expected.tensor("d_states"))?;
            same("d_x of a row", &alone[2], expected.tensor("x"))?;
        }
        for k in 4..8 {
            same(RESULTS[k], &permuted[k], &together[k])?;
        }
    }

    #[test]
    fn padding_is_invisible(
        case in case(some_dims(), spec(activations(bounded().boxed())), &OPTIONAL, Range::Wide),
        more in 1..5usize,
    ) {
        let Sizes { n, t, h, .. } = case.gru.sizes;
        let mut case = case;
        case.tensors[7].get_or_insert_with(|| vec![1.0; n * t]);
        // Skipped steps after the others in time order.
        let padded_steps = match case.gru.order.direction {
            Direction::Forward => [all(t), vec![t - 1; more]].concat(),
            Direction::Reverse => [vec![0; more], all(t)].concat(),
        };
        let mut padded = picked(&case, &all(n), &padded_steps);
        let is_padding = |step: usize| match case.gru.order.direction {
            Direction::Forward => step >= t,
            Direction::Reverse => step < more,
        };
        let features = features(&case);
        for row in 0..n {
            for step in (0..t + more).filter(|&step| is_padding(step)) {
                let at = place(&padded.gru, row, step);
                padded.tensor("step_mask")[at] = 0.0;
                padded.tensor("x")[at * features..][..features].fill(f64::NAN);
                padded.tensor("d_states")[at * h..][..h].fill(0.0);
            }
        }
        for lean in [false, true] {
            let (got, expected) = (padded.run(lean), case.run(lean));
            for k in 3..9 {
                same(RESULTS[k], &got[k], &expected[k])?;
            }
        }
    }

    #[test]
    fn backward_is_linear(
        case in case(some_dims(), spec(activations(bounded().boxed())), &OPTIONAL, Range::Wide),
        factor in -3.0..3.0f64,
    ) {
        let mut other = case.clone();
        let d_states = other.tensor("d_states");
        let half = d_states.len() / 2;
        d_states.rotate_left(half);
        let mut both = case.clone();
        let pairs = both.tensor("d_states").iter_mut().zip(&*d_states);
        pairs.for_each(|(a, b)| *a += factor * b);
        let (of_case, of_other, of_both) = (case.run(false), other.run(false), both.run(false));
        for k in 2..9 {
            let pairs = of_case[k].iter().zip(&of_other[k]);
            let sum: Vec<f64> = pairs.map(|(a, b)| a + factor * b).collect();
            same(RESULTS[k], &of_both[k], &sum)?;
        }
    }
}
