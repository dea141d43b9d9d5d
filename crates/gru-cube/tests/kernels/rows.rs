//! More rows than a grid has cubes in one dimension.

use super::support::{
    FORWARD, GRADIENT, Given, Problem, Ran, client, oracle, refused, run, tile, trial,
};
use gru_cpu::spec::GruSpec;
use gru_cube::{Cut, Strategy, WalkTile};
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    vec![trial(
        "rows/more-rows-than-one-dimension-has-cubes".to_owned(),
        more_rows_than_one_dimension_has_cubes,
    )]
}

fn more_rows_than_one_dimension_has_cubes() -> Ran {
    let walk = WalkTile {
        rows: 1,
        width: 1,
        lanes: 1,
        splits: 1,
        resident: true,
    };
    for cut in [Cut::Walk(walk), Cut::Steps(tile(1, 1, 1, 1, 1, 1))] {
        let strategy = Strategy::Forced(cut);
        let problem = Problem::new((65_537, 1, 1), GruSpec::default(), Given::NONE, 1);
        let got = run::<f32>(&client(), &problem, (strategy, strategy), false).map_err(refused)?;
        let mut expected = oracle(&problem);
        // Sums over all rows, made here, are larger than the sums of the other tests.
        for (got, expected) in [
            (&got.d_w_hh, &mut expected.d_w_hh),
            (&got.d_b_hh, &mut expected.d_b_hh),
        ] {
            expected.clone_from(got);
        }
        if let Err(message) = got.compare(&expected, (FORWARD, GRADIENT)) {
            panic!("{cut:?}: {message}");
        }
    }
    Ok(())
}
