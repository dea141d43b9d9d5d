//! Starts: a row that starts a new sequence forgets its state. Episodes apart equal the row, nothing crosses a
//! boundary.

mod support;

use gru_cpu::{
    Gradients, Gru, Inputs, Sequence, Weights,
    spec::{Direction, GruSpec, Layout, Lengths, NAMES, Order, Reset, Sizes},
};
use std::ops::Range;
use support::{Case, place, rules};

const SIZES: Sizes = Sizes {
    n: 5,
    t: 9,
    i: 3,
    h: 19,
};

/// Gradients that are sums over episodes.
const SUMMED: [&str; 4] = ["d_w_ih", "d_w_hh", "d_b_ih", "d_b_hh"];

fn each_case(mut check: impl FnMut(Case<f64>)) {
    for (spec, order) in rules() {
        for optional in [&NAMES[..], &["w_ih", "starts"], &["h0", "starts"]] {
            let sizes = SIZES;
            check(Case::of(Gru { sizes, order, spec }, optional));
        }
    }
}

/// The times between two starts of a row, in the order of iteration.
fn episodes(case: &mut Case<f64>, n: usize) -> Vec<Range<usize>> {
    let gru = case.gru;
    let starts = case.tensor("starts");
    let mut bounds = vec![0];
    bounds.extend((1..gru.sizes.t).filter(|&t| starts[place(&gru, n, t)] != 0.0));
    bounds.push(gru.sizes.t);
    let mut all: Vec<_> = bounds.windows(2).map(|pair| pair[0]..pair[1]).collect();
    if gru.order.direction == Direction::Reverse {
        all.reverse();
    }
    all
}

/// One row of a case at some times, without starts. `state` is its initial state.
fn episode(case: &Case<f64>, n: usize, times: &Range<usize>, state: Option<Vec<f64>>) -> Case<f64> {
    let (gru, mut case) = (case.gru, case.clone());
    let h = gru.sizes.h;
    let rows: Vec<usize> = times.clone().map(|t| place(&gru, n, t)).collect();
    for name in ["x", "step_mask", "zoneout", "d_states"] {
        if let Some(values) = case.get(name) {
            let width = values.len() / gru.sizes.rows();
            let picked = rows.iter().flat_map(|row| &values[row * width..][..width]);
            *values = picked.copied().collect();
        }
    }
    if let Some(mask) = case.get("recurrent_mask") {
        *mask = mask[n * h..][..h].to_vec();
    }
    *case.slot("h0") = state;
    *case.slot("starts") = None;
    *case.slot("start_state") = None;
    case.gru.sizes = Sizes {
        n: 1,
        t: rows.len(),
        ..gru.sizes
    };
    case
}

/// Runs every episode as a separate call. Returns the largest difference of the states and of every gradient.
fn distance_from_episodes(case: &mut Case<f64>, lean: bool) -> f64 {
    let (gru, h) = (case.gru, case.gru.sizes.h);
    let whole = case.run(lean);
    let features = whole["d_x"].len() / gru.sizes.rows();
    let zeros = |name| vec![0.0; whole[name].len()];
    let (mut d_h0, mut d_start) = (zeros("d_h0"), zeros("d_start_state"));
    let mut sums = SUMMED.map(zeros);
    let mut largest = 0.0f64;
    let mut compare = |got: &[f64], expected: &[f64]| {
        for (got, expected) in got.iter().zip(expected) {
            let off = (got - expected).abs();
            largest = largest.max(if off.is_nan() { f64::INFINITY } else { off });
        }
    };
    for n in 0..gru.sizes.n {
        let row = |values: &[f64]| values[n * h..][..h].to_vec();
        let first_starts = gru.order.direction == Direction::Forward
            && case.tensor("starts")[place(&gru, n, 0)] != 0.0;
        for (k, times) in episodes(case, n).into_iter().enumerate() {
            let is_first = k == 0 && !first_starts;
            let state = case.part(if is_first { "h0" } else { "start_state" });
            let state = state.map(row);
            let apart = episode(case, n, &times, state).run(lean);
            for (at, t) in times.enumerate() {
                let row = place(&gru, n, t);
                compare(
                    &whole["states"][row * h..][..h],
                    &apart["states"][at * h..][..h],
                );
                let (from, to) = (row * features, at * features);
                compare(
                    &whole["d_x"][from..][..features],
                    &apart["d_x"][to..][..features],
                );
            }
            let d_state = if is_first { &mut d_h0 } else { &mut d_start };
            let d_state = d_state.iter_mut().skip(n * h);
            d_state.zip(&apart["d_h0"]).for_each(|(sum, d)| *sum += d);
            for (name, sum) in SUMMED.into_iter().zip(&mut sums) {
                let pairs = sum.iter_mut().zip(&apart[name]);
                pairs.for_each(|(sum, d)| *sum += d);
            }
        }
    }
    compare(&whole["d_h0"], &d_h0);
    compare(&whole["d_start_state"], &d_start);
    for (name, sum) in SUMMED.into_iter().zip(&sums) {
        compare(&whole[name], sum);
    }
    largest
}

#[test]
fn episodes_apart_equal_the_row() {
    each_case(|mut case| {
        for lean in [false, true] {
            let distance = distance_from_episodes(&mut case, lean);
            assert!(distance < 1e-12, "{:?}: {distance}", case.gru);
        }
    });
}

/// NaN before a boundary does not change a bit after it, and no gradient crosses it.
#[test]
fn nothing_crosses_a_boundary() {
    const BOUNDARY: usize = 4;
    each_case(|mut case| {
        let (gru, Sizes { n, t, h, .. }) = (case.gru, case.gru.sizes);
        for row in 0..n {
            case.tensor("starts")[place(&gru, row, BOUNDARY)] = 1.0;
        }
        let is_before = |time: usize| match gru.order.direction {
            Direction::Forward => time < BOUNDARY,
            Direction::Reverse => time >= BOUNDARY,
        };
        // No step is skipped, so that the NaN reaches every state of its episode.
        if let Some(mask) = case.get("step_mask") {
            mask.fill(1.0);
        }
        let mut poisoned = case.clone();
        let features = case.tensor("x").len() / (n * t);
        for row in 0..n {
            for time in (0..t).filter(|&time| is_before(time)) {
                let at = place(&gru, row, time);
                poisoned.tensor("x")[at * features..][..features].fill(f64::NAN);
                case.tensor("d_states")[at * h..][..h].fill(0.0);
            }
        }
        let [clean, states] = [&case, &poisoned].map(|case| case.run(false)["states"].clone());
        for lean in [false, true] {
            let got = case.run(lean);
            let (d_x, d_h0) = (&got["d_x"], &got["d_h0"]);
            assert!(d_h0.iter().all(|&d| d == 0.0), "{gru:?}");
            for row in 0..n {
                for time in 0..t {
                    let at = place(&gru, row, time);
                    if is_before(time) {
                        let d_x = &d_x[at * features..][..features];
                        assert!(d_x.iter().all(|&d| d == 0.0), "{gru:?}");
                        assert!(states[at * h..][..h].iter().all(|v| v.is_nan()));
                    } else {
                        assert_eq!(states[at * h..][..h], clean[at * h..][..h], "{gru:?}");
                    }
                }
            }
        }
    });
}

/// If all rows start at the same step, the bits equal two calls. All of them have enough steps to pack the weights.
#[test]
fn a_start_of_all_rows_is_another_call() {
    let (n, t, i, h) = (13, 25, 6, 40);
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        let order = Order {
            layout: Layout::TimeMajor,
            ..Order::default()
        };
        let sizes = Sizes { n, t, i, h };
        let present = ["w_ih", "b_ih", "b_hh", "starts"];
        let mut case = Case::of(Gru { sizes, order, spec }, &present);
        case.tensor("starts").fill(0.0);
        case.tensor("starts")[12 * n..][..n].fill(1.0);
        let whole = case.cast::<f32>().states();
        for times in [0..12, 12..25] {
            let mut part = case.clone();
            part.gru.sizes.t = times.len();
            for name in ["x", "starts", "d_states"] {
                let values = part.tensor(name);
                let width = values.len() / t;
                *values = values[times.start * width..times.end * width].to_vec();
            }
            *part.slot("starts") = None;
            let states = part.cast::<f32>().states();
            assert_eq!(whole[times.start * n * h..times.end * n * h], states);
        }
    }
}

#[test]
#[should_panic(expected = "start_state requires starts")]
fn a_start_state_without_starts_is_an_error() {
    let (x, w, state) = ([0.5f32; 2], [0.1f32; 3], [0.25f32]);
    let (n, t, i, h) = (1, 2, 1, 1);
    let gru = Gru::new(Sizes { n, t, i, h }, GruSpec::default());
    let inputs = Inputs {
        sequence: Sequence {
            start_state: Some(&state),
            ..Sequence::new(&x)
        },
        weights: Weights::new(Some(&w), &w),
    };
    gru.forward(&inputs, &mut [0.0; 2], None);
}

/// Also with lengths.
#[test]
fn without_hidden_units_the_gradient_of_x_is_zero() {
    let (n, t, i, h) = (1, 2, 3, 0);
    let gru = Gru::new(Sizes { n, t, i, h }, GruSpec::default());
    let x = [0.5f32; 6];
    let inputs = Inputs {
        sequence: Sequence::new(&x),
        weights: Weights::new(Some(&[]), &[]),
    };
    for lengths in [Lengths::All, Lengths::Padded([2].into())] {
        let mut d_x = [7.0; 6];
        let to = Gradients {
            x: Some(&mut d_x[..]),
            ..Gradients::default()
        };
        gru.backward_ragged(&lengths, &inputs, &[], Some(&[]), &[], to);
        assert_eq!(d_x, [0.0; 6]);
    }
}
