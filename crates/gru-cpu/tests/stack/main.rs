//! Stacks of layers in every precision: compared with the oracle, and with other ways to compute the same.

mod problem;

use self::problem::{Problem, problems, specs};
use gru_cpu::{
    CallError, Inputs, Stack, StackInputs, StackLayer, StackStream, Weights,
    spec::{Direction, Layout, Lengths, Precision, Sizes},
    testing::Isa,
};
use gru_testkit::{panics::panics, passes};
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

/// The largest difference of outputs and final states.
fn distance(got: &[Vec<f32>; 2], expected: &[Vec<f32>; 2]) -> f32 {
    let pairs = |(got, expected): (&Vec<f32>, &Vec<f32>)| {
        assert_eq!(got.len(), expected.len());
        let off = got.iter().zip(expected).map(|(a, b)| (a - b).abs());
        let off = off.map(|off| if off.is_nan() { f32::INFINITY } else { off });
        off.fold(0.0, f32::max)
    };
    got.iter().zip(expected).map(pairs).fold(0.0, f32::max)
}

/// int8 rounds the rows of each product too, and its products have tests in the crate.
#[test]
fn every_precision_is_the_oracle_with_its_weights() {
    let full: fn(f32) -> f32 = |v| v;
    for (precision, round, most) in [
        (Precision::Full, full, 2e-6),
        (Precision::Bf16, bf16, 2e-6),
        (Precision::Int8, full, 0.1),
    ] {
        for problem in problems() {
            let expected = oracle(&problem, round);
            each_isa(|| {
                let off = distance(&problem.run(&problem.stack(precision)), &expected);
                assert!(off <= most, "{precision:?}, {:?}: {off}", problem.sizes);
            });
        }
    }
}

fn oracle(problem: &Problem, round: fn(f32) -> f32) -> [Vec<f32>; 2] {
    problem.by(|owned, gru, sequence| {
        let round = |w: &[f32]| w.iter().copied().map(round).collect::<Vec<_>>();
        let (w_ih, w_hh) = (round(&owned.w_ih), round(&owned.w_hh));
        let weights = Weights {
            w_ih: Some(&w_ih[..]),
            w_hh: &w_hh,
            ..owned.layer().weights
        };
        let y = passes::call(&gru, &Inputs { sequence, weights })
            .forward()
            .y;
        y.into_iter().map(|v| v as f32).collect()
    })
}

/// A sequence is its steps: skipped steps are left out, starts set the state, reverse runs backwards from the end of the
/// row, and nothing past that is read or written. A product of int8 is compared with its definition in the crate.
#[test]
fn sequences_are_steps_one_by_one() {
    for dense in problems() {
        let Sizes { n, t, .. } = dense.sizes;
        // T itself, 0 and others; also no row with T steps.
        let any: Vec<usize> = (0..n).map(|row| (row * 7 + t) % (t + 1)).collect();
        let lengths = [
            Lengths::Padded(any[..].into()),
            Lengths::Padded(vec![t / 2; n].into()),
            Lengths::Packed(any[..].into()),
        ];
        let ragged = lengths.map(|lengths| dense.with_lengths(lengths));
        for problem in ragged.into_iter().chain([dense]) {
            ALL.into_iter()
                .for_each(|precision| steps(precision, &problem));
        }
    }
}

fn steps(precision: Precision, problem: &Problem) {
    let expected = problem.by(|owned, gru, sequence| {
        let Sizes { n, i, h, .. } = gru.sizes;
        let layer = StackLayer {
            direction: Direction::Forward,
            ..owned.layer()
        };
        let stack = Arc::new(Stack::new(precision, [i, h], 1, &[layer]));
        let mut y = vec![7.0; problem.places() * h];
        for row in 0..n {
            let (len, at) = (problem.len(row), |time: usize| problem.at(row, time));
            let state = |from: Option<&[f32]>| match from {
                Some(from) => from[row * h..][..h].to_vec(),
                None => vec![0.0; h],
            };
            let mut stream = StackStream::new(stack.clone(), 1);
            stream.state_mut().copy_from_slice(&state(sequence.h0));
            for s in 0..len {
                let time = gru.order.direction.time(s, len);
                let starts = gru.order.direction.boundary(s, len);
                let is_set = |flags: Option<&[f32]>, time: usize, default: bool| {
                    flags.map_or(default, |flags| flags[at(time)] != 0.0)
                };
                if starts.is_some_and(|time| is_set(sequence.starts, time, false)) {
                    let state = state(sequence.start_state);
                    stream.state_mut().copy_from_slice(&state);
                }
                if is_set(sequence.step_mask, time, true) {
                    stream.step(&sequence.x[at(time) * i..][..i]);
                }
                y[at(time) * h..][..h].copy_from_slice(stream.state());
            }
        }
        y
    });
    // The steps ran on the same, best instruction set.
    let off = distance(&problem.run(&problem.stack(precision)), &expected);
    let (sizes, lengths) = (problem.sizes, &problem.lengths);
    assert!(
        off <= order_of_sums(precision),
        "{precision:?}, {sizes:?}, {lengths:?}: {off}"
    );
}

/// float32 adds in an order that depends on the number of rows and steps.
fn order_of_sums(precision: Precision) -> f32 {
    if precision == Precision::Full {
        2e-6
    } else {
        0.0
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
        let expected = problem.run(&stack);
        let mut stream = StackStream::new(stack, 3);
        let steps = problem.sequence.x.chunks_exact(3 * 5);
        let y: Vec<f32> = steps.flat_map(|x| stream.step(x).to_vec()).collect();
        let off = distance(&[y, stream.state().to_vec()], &expected);
        assert!(off <= order_of_sums(precision), "{precision:?}: {off}");
        let (mut fork, x) = (stream.clone(), &problem.sequence.x[..3 * 5]);
        let forked = fork.step(x).to_vec();
        assert_ne!(fork.state(), stream.state(), "{precision:?}");
        assert_eq!(stream.step(x), forked, "{precision:?}");
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
        problem.sequence.step_mask = Some((0..12).map(|at| f32::from(at != 4 + 2)).collect());
        problem.sequence.x[(4 + 2) * 5] = f32::NAN;
        problem.sequence.x[(2 * 4 + 3) * 5 + 4] = f32::INFINITY;
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
            let db = rounding.db.expect("rounded weights");
            assert!((low..high).contains(&db), "{rounding:?}");
        }
    }
    let (w_ih, w_hh) = (vec![0.5; 3 * 4 * 3], vec![-0.25; 4 * 3 * 4]);
    let layer = StackLayer {
        weights: Weights::new(Some(&w_ih), &w_hh),
        ..problem.layers[0].layer()
    };
    for precision in [Precision::Bf16, Precision::Int8] {
        let exact = Stack::new(precision, [3, 4], 1, &[layer]);
        let bf16_is_exact = exact
            .rounding()
            .iter()
            .all(|r| r.db.is_none_or(|db| db > 150.0));
        assert!(bf16_is_exact, "{:?}", exact.rounding());
    }
}

/// The weights of a row of one input are a scale, so nothing is rounded.
#[test]
fn one_input_is_not_rounded() {
    let (w_ih, w_hh) = ([0.3, -0.7, 1e-3], [0.1, 0.2, -0.9]);
    let problem = Problem::new([1, 1, 1, 1], 1, 1, &specs()[..1], false);
    let layer = StackLayer {
        weights: Weights::new(Some(&w_ih), &w_hh),
        ..problem.layers[0].layer()
    };
    let rounding = Stack::new(Precision::Int8, [1, 1], 1, &[layer]).rounding();
    assert!(
        rounding.iter().all(|r| r.db.is_none_or(f64::is_finite)),
        "{rounding:?}"
    );
    let zero = StackLayer {
        weights: Weights::new(Some(&[0.0; 3]), &[0.0; 3]),
        ..layer
    };
    let rounding = Stack::new(Precision::Int8, [1, 1], 1, &[zero]).rounding();
    assert!(rounding.iter().all(|r| r.db.is_none()), "{rounding:?}");
}

#[test]
fn eight_bits_require_finite_weights() {
    let problem = Problem::new([1, 1, 2, 3], 1, 1, &specs()[..1], false);
    for number in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        for (matrix, place) in [("w_ih", 0), ("w_hh", 1)] {
            let mut weights = [vec![0.5; 18], vec![0.25; 27]];
            weights[place][7] = number;
            let layer = StackLayer {
                weights: Weights::new(Some(&weights[0]), &weights[1]),
                ..problem.layers[0].layer()
            };
            let stack = |precision| Stack::try_new(precision, [2, 3], 1, &[layer]);
            let error = stack(Precision::Int8).err();
            assert_eq!(error, Some(CallError::NotFinite { layer: 0, matrix }));
            assert!(stack(Precision::Full).is_ok() && stack(Precision::Bf16).is_ok());
        }
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
        let run = |batch, last: &mut [f32]| {
            let x = StackInputs::new(&[]);
            stack.forward(Layout::BatchMajor, batch, x, &mut [], last);
        };
        let mut last = [f32::NAN; 2 * 2 * 9];
        run([2, 0], &mut last);
        assert_eq!(last, [0.0; 36]);
        run([0, 3], &mut []);
        assert!(StackStream::new(Arc::new(stack), 0).step(&[]).is_empty());
        let layer = StackLayer::new(Weights::new(Some(&[]), &[]));
        let no_units = Arc::new(Stack::new(precision, [2, 0], 1, &[layer]));
        assert!(StackStream::new(no_units, 1).step(&[0.0; 2]).is_empty());
    }
}

#[test]
#[cfg_attr(panic = "abort", ignore = "a refusal is a panic")]
fn refusals() {
    let problem = |directions| Problem::new([2, 4, 1, 3], 1, directions, &specs(), true);
    type Spoil = fn(&mut Problem);
    let spoilt: [(Spoil, &str); 3] = [
        (
            |of| of.layers[0].w_hh.truncate(26),
            "gru_cpu::Stack::new: w_hh has the wrong number of elements, expected 27, got 26",
        ),
        (
            |of| of.sequence.starts = None,
            "gru_cpu::Stack::forward: start_state requires starts",
        ),
        (
            |of| of.lengths = Lengths::Padded([4, 5].into()),
            "gru_cpu::Stack::forward: lengths[1] must be at most T, expected 0 to 4, got 5",
        ),
    ];
    for (spoil, says) in spoilt {
        let mut problem = problem(1);
        spoil(&mut problem);
        let call = || problem.run(&problem.stack(Precision::Int8));
        assert_eq!(panics(call, says), Ok(()));
    }
    let stack = Arc::new(problem(2).stack(Precision::Int8));
    let says =
        "gru_cpu::StackStream::new: expected the forward direction in every layer, got reverse";
    assert_eq!(panics(|| StackStream::new(stack, 1), says), Ok(()));
}
