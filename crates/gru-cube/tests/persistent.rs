//! All steps in one launch, against float64: where the device shows cubes each other's writes.
//! WebGPU does not; there the cut is refused.

#[macro_use]
mod support;

use cubecl::client::Client;
use gru_cpu::spec::{GruSpec, Reset};
use gru_cube::{Cut, Limits, PlanError, StepTile, Strategy};
use support::{FORWARD, GRADIENT, Given, Problem, catalogue, client, oracle, run, tile};

/// Several cubes for each row of the batch, and one; sums in one stage and in several; rows in one tile
/// and in several; fewer units than pairs, and more.
const TILES: [StepTile; 5] = [
    tile(4, 4, 17, 1, 3, 64),
    tile(2, 1, 8, 3, 2, 16),
    tile(1, 1, 33, 1, 1, 33),
    tile(4, 2, 9, 2, 4, 20),
    tile(2, 2, 9, 1, 5, 20),
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

fn refused(client: &Client, problem: &Problem, tile: StepTile) -> PlanError {
    let strategy = Strategy::Forced(Cut::Persistent(tile));
    run::<f32>(client, problem, (strategy, strategy), false).unwrap_err()
}

/// One test, because one stream of a device at a time makes cubes that meet, and every test is a
/// stream of its own.
fn all_steps_in_one_launch() {
    for (i, spec) in catalogue::conventions().into_iter().enumerate() {
        let given = Given::bits(31 - i * 5 % 32);
        let problem = Problem::new((5, 7, 33), spec, given, i as u64);
        check(&problem, TILES[i % TILES.len()], i % 2 == 0);
    }
    for (i, tile) in TILES.into_iter().enumerate() {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            let spec = GruSpec::default().with_reset(reset);
            let problem = Problem::new((6, 150, 33), spec, Given::ALL, i as u64);
            check(&problem, tile, true);
        }
    }
    let problem = Problem::new((1, 2, 9), GruSpec::default(), Given::NONE, 1);
    let client = client();
    let elsewhere = std::thread::spawn(move || refused(&client, &problem, TILES[2]));
    let (requested, available) = (1, 0);
    assert_eq!(
        elsewhere.join().unwrap(),
        PlanError::TooManyTogether {
            requested,
            available
        }
    );
}

trials!(all_steps_in_one_launch);
