//! More rows of the batch than cubes in one dimension of a grid.

use super::support::{
    FORWARD, GRADIENT, Given, Outcome, Problem, Ran, client, not_allowed, oracle, run, tile, trial,
};
use gru_cube::{Schedule, Strategy, WalkTile};
use gru_spec::GruSpec;
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    vec![trial(
        "rows/more-rows-than-one-dimension-has-cubes".to_owned(),
        more_rows_than_one_dimension_has_cubes,
    )]
}

/// Sums over all rows in units of √rows, because the errors of the rows are independent.
fn in_units(mut outcome: Outcome, rows: usize) -> Outcome {
    let unit = (rows as f64).sqrt();
    for sums in [&mut outcome.d_w_hh, &mut outcome.d_b_hh] {
        sums.iter_mut().for_each(|sum| *sum /= unit);
    }
    outcome
}

fn more_rows_than_one_dimension_has_cubes() -> Ran {
    let walk = WalkTile {
        rows: 1,
        width: 1,
        n_threads: 1,
        k_splits: 1,
        resident: true,
    };
    for schedule in [
        Schedule::Walk(walk),
        Schedule::Steps(tile(1, 1, 1, 1, 1, 1)),
    ] {
        let strategy = Strategy::Forced(schedule);
        let (rows, given) = (65_537, Given::bits(4));
        let problem = Problem::new((rows, 1, 1), GruSpec::default(), given, 1);
        let got =
            run::<f32>(&client(), &problem, (strategy, strategy), false).map_err(not_allowed)?;
        let expected = in_units(oracle(&problem), rows);
        assert!(expected.d_w_hh.iter().any(|sum| sum.abs() > 0.1));
        if let Err(message) = in_units(got, rows).compare(&expected, (FORWARD, GRADIENT)) {
            panic!("{schedule:?}: {message}");
        }
    }
    Ok(())
}
