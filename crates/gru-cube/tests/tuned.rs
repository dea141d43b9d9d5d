//! The fastest cut, by CubeCL's autotune: whichever it is, the numbers are right.

#[macro_use]
mod support;

use gru_cpu::spec::{GruSpec, Reset};
use gru_cube::Strategy;
use support::{FORWARD, GRADIENT, Given, Problem, client, oracle, run};

/// One test, because launches are those of the whole process.
fn the_fastest_cut_is_found_once() {
    let strategies = (Strategy::Tuned, Strategy::Tuned);
    let launches = |n: usize, in_place: bool| {
        let spec = GruSpec::default().with_reset(Reset::BeforeMatmul);
        let problem = Problem::new((n, 6, 40), spec, Given::ALL, n as u64);
        let before = gru_cube::launches();
        let got = run::<f32>(&client(), &problem, strategies, in_place).unwrap();
        if let Err(message) = got.compare(&oracle(&problem), (FORWARD, GRADIENT)) {
            panic!("N{n}: {message}");
        }
        gru_cube::launches() - before
    };
    launches(5, true);
    // Of the same key: nothing is timed any more. Two forward passes and a backward one, of 6 steps with two
    // products and what is around them at most.
    let again = launches(7, false);
    assert!(again <= 3 * 2 * (6 + 2), "{again} launches");
}

trials!(the_fastest_cut_is_found_once);
