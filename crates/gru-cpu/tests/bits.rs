//! Equal calls return equal bits, whatever the number of threads, and whichever helpers join in time.

mod support;

use gru_cpu::spec::{Activation, Lengths};
use gru_testkit::{case::Case, matrix::covering, runs::Known};
use support::{F32, Problem};

/// Both kinds of gradients with each number of threads have the bits of one thread.
fn same_bits(id: &str, problem: &Problem<f32>) {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let run = || [false, true].map(|is_lean| problem.run(is_lean).bits());
        pool.expect("a pool").install(run)
    };
    let expected = run(1);
    for threads in [2, 3, 3, 5, 8] {
        assert!(run(threads) == expected, "{id}: {threads} threads");
    }
}

/// One thread agrees with the oracle, more threads return its bits.
fn check(case: Case) {
    let id = case.id();
    let known = Known::for_kernels(case);
    let problem = Problem::<f32>::new(&known.truth().0);
    for is_lean in [false, true] {
        let outcome = problem.outcome(&problem.run(is_lean));
        let compared = outcome.compare(&known.truth().1, F32);
        compared.unwrap_or_else(|error| panic!("{id}: {error}"));
    }
    same_bits(&id, &problem);
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "no threads")]
fn any_number_of_threads_any_number_of_times() {
    // Split rows, split units, both, only a split input product; sizes that do not fill a tile or a vector.
    let sizes = [
        "N33 T9 I8 H64",
        "N13 T21 I5 H130",
        "N7 T60 I17 H96",
        "N1 T90 I8 H256",
        "N50 T3 I33 H90",
        "N3 T9 I8 H300",
        "N1 T70 I300 H40",
        "N17 T5 I8 H530",
        "N37 T20 I8 H130 lengths",
    ];
    let rules: &[&str] = &["mask", "mask before reverse", "mask +softsign"];
    for mut case in covering(&[&sizes, rules], 2) {
        if case.has("+softsign") {
            case.spec.activations.reset = Activation::Softsign;
        }
        check(case);
    }
    let sizes = ["N33 T6 I8 H64", "N1 T40 I8 H130"];
    let edges = ["nan-in-x", "nan-in-w_hh"];
    let with_nan = covering(&[&sizes, &edges, &["mask", "mask before"]], 3);
    with_nan.into_iter().for_each(check);
}

/// Lengths that groups cannot share evenly.
#[test]
#[cfg_attr(target_family = "wasm", ignore = "no threads")]
fn rows_of_any_lengths() {
    let uneven = |n: usize| if n == 5 { 20 } else { 1 + n % 3 };
    let mixed = |n: usize| n * 7 % 21;
    for words in ["mask", "mask before reverse"] {
        let mut problem = Problem::of(&format!("N37 T20 I8 H130 {words}"));
        for lengths in [(0..37).map(uneven).collect(), (0..37).map(mixed).collect()] {
            problem.lengths = Lengths::Padded(lengths);
            same_bits(words, &problem);
        }
    }
}

/// Rows of T steps have the bits of a call without lengths, if every tile is full.
#[test]
fn full_rows_are_the_dense_call() {
    let mut problem = Problem::<f32>::of("N16 T5 I6 H40");
    let expected = problem.run(false).bits();
    problem.lengths = Lengths::Padded([5; 16].into());
    assert_eq!(problem.run(false).bits(), expected);
}

/// The accuracy of a bias gradient does not depend on the length of the sequence.
#[test]
fn long_sums() {
    let (t, h) = (4096, 4);
    for words in ["", "before"] {
        // The input is projected, so the bias gradient is the sum of the input gradient.
        let words = format!("N8 T{t} I1 H{h} projected no-b_hh no-h0 {words}");
        let mut problem = Problem::<f32>::of(&words);
        let x = problem.inputs.sequence.x.chunks_exact_mut(t * 3 * h);
        x.enumerate()
            .for_each(|(row, x)| x.fill(0.3 + 0.05 * row as f32));
        problem.d_states.fill(0.7);
        let d = problem.run(false).d;
        let (d_b_ih, d_x) = (d.b_ih.expect("b_ih"), d.x.expect("x"));
        for (unit, &got) in d_b_ih.iter().enumerate() {
            let of_unit = d_x.iter().skip(unit).step_by(3 * h);
            let expected: f64 = of_unit.map(|&d| f64::from(d)).sum();
            let error = (f64::from(got) - expected).abs() / expected.abs();
            assert!(
                error <= 2.0 * f64::from(f32::EPSILON),
                "d_b_ih[{unit}] = {got}, the sum is {expected}"
            );
        }
    }
}
