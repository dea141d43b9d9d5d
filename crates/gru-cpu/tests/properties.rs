//! Properties of every GRU, tested with random cases: all conventions, sizes from 0 to 70, values from zero and
//! subnormal to saturating, NaN and infinite.
//!
//! `PROPTEST_CASES=20000 cargo test --release -p gru-cpu --test properties` runs so many cases. A failing case is
//! recorded in `properties.regressions`, and runs first from then on.

#[path = "support/specs.rs"]
mod specs;
mod support;

use gru_cpu::{
    Gru,
    spec::{self, GruSpec, NAMES, Order, Sizes},
    testing::Isa,
};
use gru_testkit::{
    close::{Outcome, Tolerance},
    random::SplitMix64,
};
use proptest::{
    prelude::*,
    sample::{select, subsequence},
    test_runner::{Config, FileFailurePersistence, RngSeed},
};
use specs::{activation, activations, is_bounded, is_smooth, sizes, spec, without_kinks};
use support::Problem;

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

/// Values that are exact in float32: all within (−1, 1), weights divided by √H, about every third step skipped.
fn problem(gru: Gru, present: &[&str]) -> Problem<f64> {
    let draw = |at: usize, len: usize, scale: f64| -> Vec<f64> {
        let mut random = SplitMix64(at as u64 + 1);
        let draw = |_| f64::from((random.uniform(1.0) * scale) as f32);
        (0..len).map(draw).collect()
    };
    let (units, rows) = (gru.sizes.h, gru.sizes.places());
    let shapes = gru.sizes.shapes(gru.order.layout);
    let mut shapes = shapes.map(|shape| shape.elements());
    if !present.contains(&"w_ih") {
        shapes.sequence.x = rows * 3 * units;
    }
    let mut at = 0;
    let slots = shapes.into_slots().map(|len| {
        let name = NAMES[at];
        at += 1;
        if !["x", "w_hh"].contains(&name) && !present.contains(&name) {
            return None;
        }
        let scale = match name {
            "w_ih" | "w_hh" => 1.0 / (units.next_power_of_two() as f64).sqrt().floor(),
            _ => 1.0,
        };
        let values = draw(at, len?, scale).into_iter();
        Some(match name {
            "step_mask" => values.map(|v| f64::from(v > -0.4)).collect(),
            "starts" => values.map(|v| f64::from(v > 0.3)).collect(),
            "zoneout" => values.map(f64::abs).collect(),
            _ => values.collect(),
        })
    });
    let inputs = spec::Inputs::from_slots(slots).expect("x and w_hh are always there");
    Problem::dense(gru, inputs, draw(NAMES.len(), rows * units, 1.0))
}

fn case(
    sizes: impl Strategy<Value = Sizes>,
    spec: impl Strategy<Value = (GruSpec, Order)>,
    range: Range,
) -> impl Strategy<Value = Problem<f64>> {
    let scale = select(match range {
        Range::Tame => vec![1.0],
        Range::Wide => vec![1.0, 1.0, 10.0, 100.0],
    });
    let present = subsequence(NAMES.to_vec(), 0..=NAMES.len());
    let odd = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec((select(ODD.to_vec()), 0..numbers().len(), any::<u16>()), 1..20)];
    (sizes, spec, present, scale, odd).prop_map(move |(sizes, spec, mut present, scale, odd)| {
        if !present.contains(&"starts") {
            present.retain(|&name| name != "start_state");
        }
        let (spec, order) = spec;
        let mut case = problem(Gru { sizes, order, spec }, &present);
        each_number(&mut case, |name, values| {
            if ["x", "h0", "b_ih", "start_state", "d_states"].contains(&name) {
                values.iter_mut().for_each(|v| *v *= scale);
            }
        });
        for (value, tensor, at) in odd {
            // Rounded to float32: a subnormal number differs in float64.
            let value = f64::from(value as f32);
            let is_too_small = range == Range::Tame && value.abs() < 1e-37;
            let value = if is_too_small { 0.0 } else { value };
            replace(&mut case, numbers()[tensor], at, value);
        }
        case
    })
}

/// Tensors of numbers, not of flags.
fn numbers() -> Vec<&'static str> {
    let inputs = NAMES
        .into_iter()
        .filter(|name| !["step_mask", "starts"].contains(name));
    inputs.chain(["d_states"]).collect()
}

/// Changes the tensors of [`numbers`] that are present.
fn each_number(case: &mut Problem<f64>, mut change: impl FnMut(&str, &mut Vec<f64>)) {
    let mut slots = case.inputs.clone().into_slots();
    for (name, slot) in NAMES.into_iter().zip(&mut slots) {
        if let Some(values) = slot
            && numbers().contains(&name)
        {
            change(name, values);
        }
    }
    case.inputs = spec::Inputs::from_slots(slots).expect("nothing was removed");
    change("d_states", &mut case.d_states);
}

/// Writes a number to some element of a tensor, if the tensor is present and not empty.
fn replace(case: &mut Problem<f64>, tensor: &str, at: u16, value: f64) {
    each_number(case, |name, values| {
        if name == tensor && !values.is_empty() {
            let at = usize::from(at) % values.len();
            values[at] = value;
        }
    });
}

/// All results by name.
fn results(of: &Outcome) -> impl Iterator<Item = (&String, &Vec<f64>)> {
    of.outputs.iter().chain(&of.gradients)
}

/// The results of the kernels.
fn run<E: gru_cpu::Element>(isa: Isa, case: &Problem<E>, is_lean: bool) -> Outcome {
    case.outcome(&isa.run(|| case.run(is_lean)))
}

/// Whether all numbers of a case stay below a bound. Gates of skipped steps are NaN.
fn is_below(bound: f64, of: &Outcome) -> bool {
    let mut all = results(of).flat_map(|(_, values)| values);
    all.all(|v| v.abs() < bound || v.is_nan())
}

/// The same call with every number moved by up to half a unit of its last place. `draw` decides the direction.
fn jiggled(case: &Problem<f64>, draw: u64) -> Problem<f64> {
    let mut other = case.clone();
    let mut k = 0;
    each_number(&mut other, |_, values| {
        k += 1;
        for (at, v) in values.iter_mut().enumerate() {
            let at = at as u64 + draw * 977;
            let up = (at * 0x9e37_79b9 + k * 0x85eb_ca6b) >> 13 & 1 == 1;
            let half = f64::from(f32::EPSILON) / 2.0;
            *v *= if up { 1.0 + half } else { 1.0 - half };
        }
    });
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
    exact: Outcome,
    /// The oracle in float32: plain code with the same sums has the same rounding errors.
    plain: Outcome,
    /// The effect of rounding the inputs, once or several times. In a sequence that magnifies every error, the effect
    /// of one rounding is random.
    moved: Vec<Outcome>,
    /// The effect of activation errors on gradients. The slope of a nearly saturated gate is a small difference,
    /// `1 − y²`, and depends on the last place of y.
    gates: Outcome,
}

/// `got` is closer to the exact results than a multiple of these errors. The factor allows for other orders of sums. The
/// error of activations is known and counts twice, because its signs are unknown.
fn close(got: &Outcome, scale: &Scale) -> Result<(), TestCaseError> {
    for (name, exact) in results(&scale.exact) {
        let named = |of: &Outcome| match results(of).find(|(other, _)| *other == name) {
            Some((_, values)) => values.clone(),
            None => Vec::new(),
        };
        // Maxima ignore NaN: gates of skipped steps are NaN.
        let distance = |of: &Outcome| {
            let pairs = named(of).into_iter().zip(exact);
            pairs.fold(0.0f64, |most, (v, exact)| most.max((v - exact).abs()))
        };
        let largest = exact.iter().fold(0.0f64, |most, v| most.max(v.abs()));
        let moved = scale.moved.iter().map(distance).fold(0.0, f64::max);
        let own = distance(&scale.plain) + moved + 4.0 * f64::from(f32::EPSILON) * largest;
        // Forward results do not depend on the saved gates.
        let is_gradient = scale.exact.gradients.contains_key(name);
        let of_gates = if is_gradient {
            distance(&scale.gates)
        } else {
            0.0
        };
        let values = named(got);
        prop_assert_eq!(values.len(), exact.len());
        let mut pairs = values.iter().zip(exact);
        let are_finite = pairs.all(|(v, exact)| v.is_finite() || exact.is_nan());
        prop_assert!(are_finite, "{name} is not finite");
        let (error, allowed) = (distance(got), 8.0 * own + 2.0 * of_gates + 1e-36);
        prop_assert!(
            error <= allowed,
            "{name}: off by {error:e}, allowed {allowed:e}"
        );
    }
    Ok(())
}

/// Float64 results, equal to rounding.
const ROUNDING: Tolerance = Tolerance {
    forward: 1e-9,
    gradient: 1e-9,
};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn kernels_are_as_exact_as_plain_float32(
        case in case(sizes(), without_kinks(spec(activations(activation(is_smooth)))), Range::Wide),
        isa in select(Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect::<Vec<_>>()),
    ) {
        let single = case.cast::<f32>();
        let moved = |draw| jiggled(&case, draw).plain(None);
        let mut scale = Scale {
            exact: case.plain(None),
            plain: single.plain(None),
            moved: vec![moved(0)],
            gates: case.plain(Some(move_gate)),
        };
        if is_below(1e30, &scale.plain) {
            for is_lean in [false, true] {
                let got = run(isa, &single, is_lean);
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
            case(sizes(), spec(activations(activation(|_| true))), Range::Tame),
            case(sizes(), spec(activations(activation(is_bounded))), Range::Wide),
        ],
        isa in select(Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect::<Vec<_>>()),
    ) {
        let mut case = case;
        case.poison_skipped();
        let expected = case.plain(None);
        // A state that doubles at every step also magnifies every rounding.
        prop_assume!(expected.outputs["states"].iter().all(|v| v.abs() < 1e4));
        prop_assume!(is_below(1e8, &expected));
        for is_lean in [false, true] {
            let compared = run(isa, &case, is_lean).compare(&expected, ROUNDING);
            prop_assert!(compared.is_ok(), "{compared:?}");
        }
    }

    #[test]
    fn what_is_not_finite_goes_where_float64_puts_it(
        case in case(sizes(), spec(activations(activation(is_bounded))), Range::Tame),
        isa in select(Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect::<Vec<_>>()),
        bad in select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
        tensor in select(numbers()),
        at in any::<u16>(),
    ) {
        let mut case = case;
        replace(&mut case, tensor, at, bad);
        let expected = case.plain(None);
        for is_lean in [false, true] {
            let got = run(isa, &case, is_lean);
            for ((name, got), (_, expected)) in results(&got).zip(results(&expected)) {
                for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
                    let same = if expected.is_finite() {
                        got.is_finite()
                    } else {
                        got == expected || got.is_nan() && expected.is_nan()
                    };
                    prop_assert!(same, "lean {is_lean}: {name}[{at}] = {got}, expected {expected}");
                }
            }
        }
    }
}
