//! Rows of different lengths, padded and packed: each row equals the oracle's row by itself, values and every gradient.
//! What is past the end of a row is neither read nor written. No bit depends on the number of threads.

mod support;

use gru_cpu::{
    Gru, Inputs, Sequence, Weights,
    spec::{Direction, GruSpec, Layout, Lengths, NAMES, Order, Reset, Sizes},
};
use gru_testkit::panics::panic_text;
use support::{Case, RESULTS, Results, place, rules};

/// Tensors with a value for each row and step.
const SEQUENCES: [&str; 5] = ["x", "step_mask", "zoneout", "starts", "d_states"];
/// Tensors with a value for each row.
const OF_ROWS: [&str; 3] = ["h0", "recurrent_mask", "start_state"];
const SIZES: Sizes = Sizes {
    n: 11,
    t: 9,
    i: 3,
    h: 19,
};
/// Results with a value for each row and step, and results of the whole call.
const OF_STEPS: [&str; 3] = ["states", "gates", "d_x"];
const OF_CALL: [&str; 4] = ["d_w_ih", "d_w_hh", "d_b_ih", "d_b_hh"];
/// Unsorted, repeated, zero and full.
const LENGTHS: [usize; 11] = [4, 0, 9, 1, 4, 7, 9, 2, 8, 5, 3];
/// What no pass writes.
const CANARY: f64 = 777.0;

fn each_case(mut check: impl FnMut(&Case<f64>)) {
    for (spec, order) in rules() {
        for optional in [
            &NAMES[..],
            &["w_ih", "starts"],
            &["h0", "b_ih", "recurrent_mask"],
            &["w_ih", "b_hh", "zoneout"],
        ] {
            let sizes = SIZES;
            check(&Case::of(Gru { sizes, order, spec }, optional));
        }
    }
}

/// The call with the valid rows of memory that `places` lists, each with its row and time.
fn with_places(case: &Case<f64>, places: &[(usize, usize)]) -> Case<f64> {
    let (mut new, rows) = (case.clone(), SIZES.rows());
    for name in SEQUENCES {
        let Some(values) = new.get(name) else {
            continue;
        };
        let width = values.len() / rows;
        let of = |&(n, t): &(usize, usize)| place(&case.gru, n, t) * width;
        *values = places
            .iter()
            .flat_map(|place| values[of(place)..][..width].to_vec())
            .collect();
    }
    new
}

/// One row by itself.
fn alone(case: &Case<f64>, n: usize) -> Case<f64> {
    let places: Vec<_> = (0..LENGTHS[n]).map(|t| (n, t)).collect();
    let mut row = with_places(case, &places);
    for name in OF_ROWS {
        if let Some(values) = row.get(name) {
            *values = values[n * SIZES.h..][..SIZES.h].to_vec();
        }
    }
    (row.gru.sizes.n, row.gru.sizes.t) = (1, LENGTHS[n]);
    row
}

/// The tolerance of `kernels` for float64: sums of at most a hundred terms below 1.
fn close(id: &str, got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{id}");
    for (got, expected) in got.iter().zip(expected) {
        let off = (got - expected).abs();
        assert!(
            off <= 1e-12 * expected.abs().max(1.0),
            "{id}: {got}, expected {expected}"
        );
    }
}

/// Compares a call, whose rows of memory are listed in order, with the oracle's rows.
fn equals_the_rows(case: &Case<f64>, got: &Results<f64>, place: impl Fn(usize, usize) -> usize) {
    let mut sums = OF_CALL.map(|name| vec![0.0; got[name].len()]);
    let mut written = vec![false; got["states"].len() / SIZES.h];
    for n in 0..SIZES.n {
        let row = alone(case, n);
        let id = |name: &str| format!("{name} of row {n}, {:?}", case.gru);
        if LENGTHS[n] == 0 {
            for name in ["d_h0", "d_start_state"] {
                let none = got[name].get(n * SIZES.h..(n + 1) * SIZES.h);
                assert!(
                    none.is_none_or(|d| d.iter().all(|&d| d == 0.0)),
                    "{}",
                    id(name)
                );
            }
            continue;
        }
        let expected = row.plain();
        for t in 0..LENGTHS[n] {
            written[place(n, t)] = true;
            for name in OF_STEPS {
                let width = expected[name].len() / LENGTHS[n];
                let got = &got[name][place(n, t) * width..][..width];
                close(&id(name), got, &expected[name][t * width..][..width]);
            }
        }
        for name in ["d_h0", "d_start_state"] {
            if !got[name].is_empty() {
                let got = &got[name][n * SIZES.h..][..SIZES.h];
                close(&id(name), got, &expected[name]);
            }
        }
        for (name, sum) in OF_CALL.into_iter().zip(&mut sums) {
            let pairs = sum.iter_mut().zip(&expected[name]);
            pairs.for_each(|(sum, d)| *sum += d);
        }
    }
    for (name, sum) in OF_CALL.into_iter().zip(&sums) {
        close(&format!("{name} {:?}", case.gru), &got[name], sum);
    }
    for (at, _) in written.iter().enumerate().filter(|(_, written)| !**written) {
        for name in OF_STEPS {
            let width = got[name].len() / written.len();
            let padding = &got[name][at * width..][..width];
            let is_untouched = padding.iter().all(|&v| v == CANARY);
            assert!(is_untouched, "{name} {:?}", case.gru);
        }
    }
}

#[test]
fn padded_rows_equal_the_rows_alone() {
    each_case(|case| {
        let mut poisoned = case.clone();
        for name in SEQUENCES {
            let Some(values) = poisoned.get(name) else {
                continue;
            };
            let width = values.len() / SIZES.rows();
            for n in 0..SIZES.n {
                for t in LENGTHS[n]..SIZES.t {
                    values[place(&case.gru, n, t) * width..][..width].fill(f64::NAN);
                }
            }
        }
        let lengths = Lengths::Padded(LENGTHS.into());
        for lean in [false, true] {
            let got = poisoned.run_ragged(&lengths, lean, CANARY);
            equals_the_rows(case, &got, |n, t| place(&case.gru, n, t));
        }
    });
}

#[test]
fn packed_rows_equal_the_rows_alone() {
    each_case(|case| {
        if case.gru.order.layout == Layout::TimeMajor {
            return;
        }
        let places: Vec<_> = (0..SIZES.n)
            .flat_map(|n| (0..LENGTHS[n]).map(move |t| (n, t)))
            .collect();
        let packed = with_places(case, &places);
        let first = |n: usize| LENGTHS[..n].iter().sum::<usize>();
        let lengths = Lengths::Packed(LENGTHS.into());
        for lean in [false, true] {
            let got = packed.run_ragged(&lengths, lean, CANARY);
            equals_the_rows(case, &got, |n, t| first(n) + t);
        }
    });
}

/// Rows, units and rounds that do not fill a tile, and lengths that groups cannot share evenly.
#[test]
#[cfg_attr(target_family = "wasm", ignore = "no threads")]
fn bits_do_not_depend_on_the_number_of_threads() {
    let uneven: Vec<usize> = (0..37)
        .map(|n| if n == 5 { 20 } else { 1 + n % 3 })
        .collect();
    let mixed: Vec<usize> = (0..37).map(|n| n * 7 % 21).collect();
    for lengths in [uneven, mixed] {
        for (reset, direction) in [
            (Reset::AfterMatmul, Direction::Forward),
            (Reset::BeforeMatmul, Direction::Reverse),
        ] {
            let order = Order {
                direction,
                ..Order::default()
            };
            let (n, t, i, h) = (37, 20, 8, 130);
            let spec = GruSpec::default().with_reset(reset);
            let sizes = Sizes { n, t, i, h };
            let present = ["h0", "w_ih", "b_ih", "b_hh", "recurrent_mask"];
            let case = Case::of(Gru { sizes, order, spec }, &present);
            let lengths = Lengths::Padded(lengths.as_slice().into());
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                pool.expect("a pool")
                    .install(|| [false, true].map(|lean| case.run_ragged(&lengths, lean, CANARY)))
            };
            let expected = run(1);
            for threads in [2, 3, 3, 5, 8] {
                for (got, expected) in run(threads).iter().zip(&expected) {
                    for name in RESULTS {
                        let mut bits = got[name].iter().zip(&expected[name]);
                        let are_equal = bits.all(|(a, b)| a.to_bits() == b.to_bits());
                        assert!(are_equal, "{threads} threads: {name}");
                    }
                }
            }
        }
    }
}

/// Rows of T steps have the bits of a call without lengths, if every tile is full.
#[test]
fn full_rows_are_the_dense_call() {
    let (n, t, i, h) = (16, 5, 6, 40);
    let sizes = Sizes { n, t, i, h };
    let present = ["h0", "w_ih", "b_ih", "b_hh"];
    let case = Case::new(sizes, GruSpec::default(), &present);
    let lengths = Lengths::Padded(vec![t; n].into());
    assert_eq!(case.run_ragged(&lengths, false, CANARY), case.run(false));
}

#[test]
fn rows_without_steps_have_zero_gradients() {
    let mut case = Case::new(SIZES, GruSpec::default(), &NAMES);
    case.tensor("step_mask").fill(f64::NAN); // No flag is read, and no step is skipped.
    let lengths = Lengths::Padded([0; SIZES.n].into());
    let got = case.run_ragged(&lengths, false, CANARY);
    for name in RESULTS {
        let is_untouched = OF_STEPS.contains(&name);
        let expected = if is_untouched { CANARY } else { 0.0 };
        assert!(!got[name].is_empty(), "{name}");
        assert!(got[name].iter().all(|&v| v == expected), "{name}");
    }
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a refusal is a panic")]
fn spoilt_lengths_are_refused_by_name() {
    let case = Case::new(SIZES, GruSpec::default(), &["w_ih"]);
    let refusal = |lengths: Lengths| {
        panic_text(|| case.run_ragged(&lengths, false, CANARY)).expect("a panic")
    };
    let op = "gru_cpu::Gru::forward";
    for of in [Lengths::Padded, Lengths::Packed] {
        let refusal = refusal(of([3; 10].into()));
        assert_eq!(refusal, format!("{op}: lengths [N] must be [11], got [10]"));
    }
    let mut long = LENGTHS;
    long[3] = 10;
    let expected = "lengths[3] must be at most T, expected 0 to 9, got 10";
    assert_eq!(
        refusal(Lengths::Padded(long.into())),
        format!("{op}: {expected}")
    );
    let expected = LENGTHS.iter().sum::<usize>() * SIZES.i;
    let given = case.inputs().sequence.x.len();
    assert_eq!(
        refusal(Lengths::Packed(LENGTHS.into())),
        format!("{op}: x has the wrong number of elements, expected {expected}, got {given}")
    );
}

/// The input product without inputs is zero in every round, not what a buffer had before.
#[test]
fn no_inputs_are_zeros() {
    let gru = |i| {
        let (n, t, h) = (2, 3, 1);
        Gru::new(Sizes { n, t, i, h }, GruSpec::default())
    };
    let lengths = Lengths::Padded([3, 1].into());
    let (h0, w_hh) = ([1.0; 2], [1.0; 3]);
    let states = |gru: Gru, x: &[f32], w_ih| {
        let inputs = Inputs {
            sequence: Sequence {
                h0: Some(&h0),
                ..Sequence::new(x)
            },
            weights: Weights::new(w_ih, &w_hh),
        };
        let mut states = [0.0; 6];
        gru.forward_ragged(&lengths, &inputs, &mut states, None);
        states
    };
    assert_eq!(
        states(gru(0), &[], Some(&[])),
        states(gru(3), &[0.0; 18], None)
    );
}
