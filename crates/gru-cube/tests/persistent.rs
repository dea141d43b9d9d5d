//! All steps in one launch, against float64: where the device shows cubes each other's writes.
//! WebGPU does not; there the cut is refused.

mod support;

use gru_cpu::spec::{GruSpec, Reset};
use gru_cube::{Cut, Limits, PlanError, StepTile, Strategy};
use support::{FORWARD, GRADIENT, Given, Problem, catalogue, client, oracle, run, tile};

/// Two cubes for each row of the batch, and one; sums in one stage and in several; rows in one tile
/// and in several.
const TILES: [StepTile; 4] = [
    tile(4, 4, 17, 1, 3, 64),
    tile(2, 1, 8, 3, 2, 16),
    tile(1, 1, 33, 1, 1, 33),
    tile(4, 2, 9, 2, 4, 20),
];

fn check(problem: &Problem, tile: StepTile, in_place: bool) {
    let strategy = Strategy::Forced(Cut::Persistent(tile));
    let cubes = problem.h.div_ceil(tile.lanes * tile.per_lane);
    let together = Limits::of(&client()).together;
    let got = run::<f32>(&client(), problem, (strategy, strategy), in_place);
    if together < cubes {
        let (requested, available) = (cubes, together);
        let refused = PlanError::TooManyTogether {
            requested,
            available,
        };
        return assert_eq!(got.unwrap_err(), refused);
    }
    if let Err(message) = got.unwrap().compare(&oracle(problem), (FORWARD, GRADIENT)) {
        let Problem { n, t, h, spec, .. } = problem;
        panic!("N{n} T{t} H{h} {tile:?} {spec:?}: {message}");
    }
}

#[test]
fn every_convention_by_every_tile() {
    let specs = catalogue::conventions().into_iter();
    let specs = specs.filter(|spec| spec.reset == Reset::AfterMatmul);
    for (i, spec) in specs.enumerate() {
        let given = Given::bits(31 - i * 5 % 32);
        let problem = Problem::new((5, 7, 33), spec, given, i as u64);
        check(&problem, TILES[i % TILES.len()], i % 2 == 0);
    }
}

#[test]
fn many_meetings() {
    for (i, tile) in TILES.into_iter().enumerate() {
        let problem = Problem::new((6, 150, 33), GruSpec::default(), Given::ALL, i as u64);
        check(&problem, tile, true);
    }
}
