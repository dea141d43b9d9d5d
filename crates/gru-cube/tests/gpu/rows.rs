//! More rows of the batch than cubes in one dimension of a grid.

use super::support::{F32, Kernels, Ran, expected, trial};
use gru_cube::Strategy;
use gru_testkit::{case::Case, close::Outcome, runs::Runs};
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    let of = |text: &str| {
        let strategy = Strategy::Forced(text.parse().expect("a schedule"));
        let name = format!("rows/more-than-cubes/{text}").replace(' ', "-");
        trial(name, move || more_rows_than_cubes(strategy))
    };
    [
        "sequence rows=1 width=1 n_threads=1 k_splits=1 resident",
        "steps rows=1 width=1 n_threads=1 n_per_thread=1 k_splits=1 block_k=1",
    ]
    .map(of)
    .into()
}

fn more_rows_than_cubes(strategy: Strategy) -> Ran {
    const ROWS: usize = 65_537;
    let case = Case::new(&format!("N{ROWS} T4 H1 projected"));
    let drawn = case.draw();
    // Sums over all rows in units of √rows, because the errors of the rows are independent.
    let in_units = |mut outcome: Outcome| {
        for name in ["w_hh", "b_ih", "b_hh"] {
            let sums = outcome.gradients.get_mut(name).expect("a gradient");
            sums.iter_mut().for_each(|sum| *sum /= (ROWS as f64).sqrt());
        }
        outcome
    };
    let expected = in_units(expected(&drawn));
    assert!(expected.gradients["w_hh"].iter().any(|sum| sum.abs() > 0.1));
    let got = in_units(Kernels::f32(strategy).run(&case, &drawn)?);
    got.compare(&expected, F32).unwrap();
    Ok(())
}
