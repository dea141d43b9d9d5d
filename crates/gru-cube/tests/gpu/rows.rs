//! More rows of the batch than cubes in one dimension of a grid, and lengths of rows that do not fit a call.

use super::support::{
    F32, Given, Outcome, Problem, Ran, client, not_allowed, oracle, panics, run, sequence, test,
    tile, trial,
};
use gru_cube::{Schedule, Strategy};
use gru_spec::{Direction, GruSpec, Order};
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial(
            "rows/more-rows-than-one-dimension-has-cubes",
            more_rows_than_one_dimension_has_cubes,
        ),
        test(
            "rows/lengths-that-do-not-fit-are-refused",
            lengths_that_do_not_fit_are_refused,
        ),
    ]
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
    for schedule in [
        sequence(1, 1, 1, 1, true),
        Schedule::Steps(tile(1, 1, 1, 1, 1, 1)),
    ] {
        let strategy = Strategy::Forced(schedule);
        let (rows, given) = (65_537, Given::bits(4));
        let problem = Problem::new((rows, 1, 1), GruSpec::default(), given, 1);
        let got = run::<f32>(&client(), &problem, strategy, false).map_err(not_allowed)?;
        let expected = in_units(oracle(&problem), rows);
        assert!(expected.d_w_hh.iter().any(|sum| sum.abs() > 0.1));
        if let Err(message) = in_units(got, rows).compare(&expected, F32) {
            panic!("{schedule:?}: {message}");
        }
    }
    Ok(())
}

fn lengths_that_do_not_fit_are_refused() {
    let problem = Problem::new((3, 4, 5), GruSpec::default(), Given::NONE, 1).with_lengths();
    let refuses = |problem: Problem, message: &str| {
        let call = || run::<f32>(&client(), &problem, Strategy::Inferred, false);
        panics(call, &format!("gru_cube: {message}")).unwrap();
    };
    for lengths in [vec![4, 2], vec![2, 4, 0], vec![5, 2, 0]] {
        let message =
            format!("expected 3 lengths of at most 4 that do not increase, got {lengths:?}");
        let problem = Problem {
            lengths: Some(lengths),
            ..problem.clone()
        };
        refuses(problem, &message);
    }
    let order = Order {
        direction: Direction::Reverse,
        ..Order::default()
    };
    refuses(
        problem.clone().with_order(order),
        "lengths: expected the forward direction and a step_mask, got Reverse and a step_mask",
    );
    let problem = Problem {
        step_mask: None,
        ..problem
    };
    refuses(
        problem,
        "lengths: expected the forward direction and a step_mask, got Forward and none",
    );
}
