//! Stacks of layers in every precision: compared with the oracle, and with other ways to compute the same.

mod lengths;
mod problem;

use self::problem::{Problem, problems, specs};
use gru_cpu::{
    Stack, StackInputs, StackLayer, StackStream, Weights,
    spec::{Direction, Layout, Precision, Sizes},
    testing::Isa,
};
use gru_testkit::{
    close::{Outcome, Tolerance},
    passes,
};
use std::sync::Arc;

const ALL: [Precision; 3] = [Precision::Full, Precision::Bf16, Precision::Int8];

fn each_isa(run: impl Fn()) {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        isa.run(&run);
    }
}

/// The nearest bfloat16, from its definition in float64.
fn bf16(v: f32) -> f32 {
    let step = 2f64.powi(f64::from(v).abs().log2().floor() as i32 - 7);
    if v == 0.0 {
        0.0
    } else {
        ((f64::from(v) / step).round_ties_even() * step) as f32
    }
}

#[test]
fn full_and_bf16_are_the_oracle_with_their_weights() {
    let full: fn(f32) -> f32 = |v| v;
    for (precision, round) in [(Precision::Full, full), (Precision::Bf16, bf16)] {
        problems()
            .iter()
            .for_each(|of| oracle(of, precision, round));
    }
}

fn oracle(problem: &Problem, precision: Precision, round: fn(f32) -> f32) {
    let expected = problem.by(|owned, gru, sequence| {
        let round = |w: &[f32]| w.iter().copied().map(round).collect::<Vec<_>>();
        let (w_ih, w_hh) = (round(&owned.w_ih), round(&owned.w_hh));
        let weights = Weights {
            w_ih: Some(&w_ih[..]),
            w_hh: &w_hh,
            ..owned.layer().weights
        };
        let inputs = gru_cpu::Inputs { sequence, weights };
        let y = passes::call(&gru, &inputs).forward().y;
        y.into_iter().map(|v| v as f32).collect()
    });
    each_isa(|| {
        let got = problem.run(&problem.stack(precision));
        let outcome = |[y, last]: &[Vec<f32>; 2]| {
            let wide = |v: &[f32]| v.iter().copied().map(f64::from).collect();
            Outcome {
                outputs: [("y".into(), wide(y)), ("last".into(), wide(last))].into(),
                ..Outcome::default()
            }
        };
        let compared = outcome(&got).compare(&outcome(&expected), Tolerance::F32);
        compared.unwrap_or_else(|error| panic!("{precision:?}, {:?}: {error}", problem.sizes));
    });
}

/// A sequence is its steps: skipped steps are left out, starts set the state, reverse runs backwards. A step of
/// int8 is compared with its definition in the crate.
#[test]
fn sequences_are_steps_one_by_one() {
    for precision in ALL {
        for problem in problems() {
            let expected = problem.by(|owned, gru, sequence| {
                let Sizes { n, t, i, h } = gru.sizes;
                let layer = StackLayer {
                    direction: Direction::Forward,
                    ..owned.layer()
                };
                let stack = Arc::new(Stack::new(precision, [i, h], 1, &[layer]));
                let mut y = vec![f32::NAN; n * t * h];
                for row in 0..n {
                    let at = |time: usize| problem.at(row, time);
                    let state = |from: Option<&[f32]>| match from {
                        Some(from) => from[row * h..][..h].to_vec(),
                        None => vec![0.0; h],
                    };
                    let mut stream = StackStream::new(stack.clone(), 1);
                    stream.state_mut().copy_from_slice(&state(sequence.h0));
                    for s in 0..t {
                        let time = gru.order.direction.time(s, t);
                        let starts = gru.order.direction.boundary(s, t);
                        let is_set = |flags: Option<&[f32]>, time: usize, default: bool| {
                            flags.map_or(default, |flags| flags[at(time)] != 0.0)
                        };
                        if starts.is_some_and(|time| is_set(sequence.starts, time, false)) {
                            stream
                                .state_mut()
                                .copy_from_slice(&state(sequence.start_state));
                        }
                        if is_set(sequence.step_mask, time, true) {
                            stream.step(&sequence.x[at(time) * i..][..i]);
                        }
                        y[at(time) * h..][..h].copy_from_slice(stream.state());
                    }
                }
                y
            });
            // float32 adds in an order that depends on the number of rows and steps.
            if precision == Precision::Full {
                let got = problem.run(&problem.stack(precision));
                let pairs = got.iter().flatten().zip(expected.iter().flatten());
                pairs.for_each(|(got, expected)| assert!((got - expected).abs() < 2e-6));
            } else {
                // The steps ran on the same, best instruction set.
                let got = problem.run(&problem.stack(precision));
                assert_eq!(got, expected, "{precision:?}, {:?}", problem.sizes);
            }
        }
    }
}

#[test]
fn a_stream_runs_all_layers() {
    for precision in ALL {
        let sizes = [3, 7, 5, 34];
        let mut problem = Problem::new(sizes, 3, 1, &specs(), false);
        problem.layers[1].zoneout = 0.3;
        problem.layout = Layout::TimeMajor;
        let stack = Arc::new(problem.stack(precision));
        let [y, last] = problem.run(&stack);
        let mut stream = StackStream::new(stack, 3);
        let mut got = Vec::new();
        for x in problem.x.chunks_exact(3 * 5) {
            got.extend_from_slice(stream.step(x));
        }
        let close = |a: &[f32], b: &[f32]| {
            assert_eq!(a.len(), b.len());
            // See above: float32 adds in another order.
            let most = if precision == Precision::Full {
                2e-6
            } else {
                0.0
            };
            a.iter()
                .zip(b)
                .for_each(|(a, b)| assert!((a - b).abs() <= most, "{precision:?}"));
        };
        close(&got, &y);
        close(stream.state(), &last);
        // Row 1 starts again, the others go on.
        stream.restart(1);
        for (at, state) in stream.state().chunks_exact(34).enumerate() {
            assert_eq!(
                state.iter().all(|&v| v == 0.0),
                at % 3 == 1,
                "{precision:?}, row {at}"
            );
        }
    }
}

#[test]
fn nan_reaches_its_row_only_and_no_skipped_step() {
    for precision in ALL {
        let sizes = [3, 4, 5, 34];
        let mut problem = Problem::new(sizes, 1, 1, &specs(), false);
        // Step 2 of row 1 is skipped, step 3 of row 2 is not.
        problem.step_mask = Some((0..12).map(|at| f32::from(at != 4 + 2)).collect());
        problem.x[(4 + 2) * 5] = f32::NAN;
        problem.x[(2 * 4 + 3) * 5 + 4] = f32::INFINITY;
        let [y, _] = problem.run(&problem.stack(precision));
        for (at, state) in y.chunks_exact(34).enumerate() {
            if at != 2 * 4 + 3 {
                assert!(
                    state.iter().all(|v| v.is_finite()),
                    "{precision:?}, step {at}"
                );
            } else if precision == Precision::Int8 {
                // In float32 an infinite input may saturate the gates.
                assert!(state.iter().all(|v| v.is_nan()), "step {at}");
            }
        }
    }
}

#[test]
fn bytes_and_rounding_are_stated() {
    let problem = Problem::new([1, 1, 128, 128], 2, 1, &specs()[..1], false);
    let [full, bf16, int8] = ALL.map(|precision| problem.stack(precision));
    let weights = 4 * 3 * 128 * 128;
    for (stack, bytes) in [(&full, 4.0), (&bf16, 2.0), (&int8, 1.0625)] {
        let share = stack.bytes() as f64 / (f64::from(weights) * bytes);
        assert!((1.0..1.03).contains(&share), "{stack:?}: {share}");
    }
    // With the reset before the product, the candidate has a matrix of its own.
    let before = Problem::new([1, 1, 128, 128], 2, 1, &specs()[1..2], false);
    for (precision, after) in ALL.into_iter().zip([&full, &bf16, &int8]) {
        let before = before.stack(precision);
        assert!(before.bytes() >= after.bytes(), "{before:?}, {after:?}");
    }
    assert!(full.rounding().is_empty());
    // The weights are uniform. The error of bf16 is uniform in steps of 2⁻⁸ to 2⁻⁷ of the weight. The error of
    // int8 is uniform in steps of 1/127 of the largest weight, whose square is 3 times the mean.
    let int8_db = 10.0 * (12.0 * 127f64.powi(2) / 3.0).log10();
    for (stack, low, high) in [(&bf16, 54.0, 60.0), (&int8, int8_db - 1.0, int8_db + 1.0)] {
        let names: Vec<_> = stack
            .rounding()
            .iter()
            .map(|r| (r.layer, r.matrix))
            .collect();
        assert_eq!(names, [(0, "w_ih"), (0, "w_hh"), (1, "w_ih"), (1, "w_hh")]);
        for rounding in stack.rounding() {
            assert!((low..high).contains(&rounding.db), "{rounding:?}");
        }
    }
    let (w_ih, w_hh) = (vec![0.5; 3 * 4 * 3], vec![-0.25; 4 * 3 * 4]);
    let layer = StackLayer {
        weights: Weights::new(Some(&w_ih), &w_hh),
        ..problem.layers[0].layer()
    };
    for precision in [Precision::Bf16, Precision::Int8] {
        let exact = Stack::new(precision, [3, 4], 1, &[layer]);
        let bf16_is_exact = exact.rounding().iter().all(|r| r.db > 150.0);
        assert!(bf16_is_exact, "{:?}", exact.rounding());
    }
}

#[test]
fn a_stack_tells_its_sizes() {
    let problem = Problem::new([3, 1, 4, 5], 2, 2, &specs(), false);
    let stack = problem.stack(Precision::Bf16);
    assert_eq!((stack.features(), stack.units()), (4, 5));
    assert_eq!((stack.layer_count(), stack.directions()), (4, 2));
    assert_eq!(stack.direction(2), Direction::Forward);
    assert_eq!(stack.direction(3), Direction::Reverse);
    assert_eq!(stack.precision(), Precision::Bf16);
    let stack = Arc::new(Problem::new([3, 1, 4, 5], 2, 1, &specs(), false).stack(Precision::Full));
    let stream = StackStream::new(stack, 3);
    assert_eq!((stream.rows(), stream.state().len()), (3, 2 * 3 * 5));
    let text = format!("{stream:?}");
    for part in ["StackStream", "n: 3", "Stack", "i: 4", "h: 5", "layers: 2"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn nothing_is_asked_of_no_rows_no_steps_and_no_inputs() {
    for precision in ALL {
        let problem = Problem::new([2, 3, 0, 9], 2, 1, &specs(), false);
        let stack = problem.stack(precision);
        let [y, _] = problem.run(&stack);
        assert!(y.iter().all(|v| v.is_finite()));
        let (mut y, mut last) = ([], [f32::NAN; 2 * 2 * 9]);
        stack.forward(
            Layout::BatchMajor,
            [2, 0],
            StackInputs::new(&[]),
            &mut y,
            &mut last,
        );
        assert_eq!(last, [0.0; 36]);
        stack.forward(
            Layout::BatchMajor,
            [0, 3],
            StackInputs::new(&[]),
            &mut y,
            &mut [],
        );
        assert!(StackStream::new(Arc::new(stack), 0).step(&[]).is_empty());
        let layer = StackLayer::new(Weights::new(Some(&[]), &[]));
        let no_units = Arc::new(Stack::new(precision, [2, 0], 1, &[layer]));
        assert!(StackStream::new(no_units, 1).step(&[0.0; 2]).is_empty());
    }
}

#[test]
#[should_panic(
    expected = "gru_cpu::StackStream::new: expected the forward direction in every layer, got reverse"
)]
fn a_reverse_layer_has_no_stream() {
    let problem = Problem::new([1, 1, 3, 4], 1, 2, &specs(), false);
    StackStream::new(Arc::new(problem.stack(Precision::Int8)), 1);
}

#[test]
#[should_panic(
    expected = "gru_cpu::Stack::new: w_hh has the wrong number of elements, expected 48, got 47"
)]
fn a_short_weight_is_refused() {
    let mut problem = Problem::new([1, 1, 3, 4], 1, 1, &specs(), false);
    problem.layers[0].w_hh.pop();
    problem.stack(Precision::Int8);
}

#[test]
#[should_panic(expected = "gru_cpu::Stack::forward: start_state requires starts")]
fn a_start_state_without_starts_is_refused() {
    let mut problem = Problem::new([1, 1, 3, 4], 1, 1, &specs(), true);
    problem.starts = None;
    problem.run(&problem.stack(Precision::Int8));
}
