//! One launch per step, against float64.

#[macro_use]
mod support;

use gru_cpu::spec::{GruSpec, Reset};
use gru_cube::{Cut, StepTile, Strategy};
use support::{FORWARD, GRADIENT, Given, Problem, catalogue, client, oracle, run, tile};

const TILES: [StepTile; 5] = [
    tile(1, 1, 32, 1, 4, 64),
    tile(4, 4, 16, 2, 2, 16),
    tile(8, 4, 8, 1, 1, 33),
    tile(2, 2, 5, 1, 5, 7),
    tile(4, 2, 64, 1, 1, 256),
];

fn check(problem: &Problem, strategy: Strategy, in_place: bool) {
    let got = run::<f32>(&client(), problem, (strategy, strategy), in_place).unwrap();
    if let Err(message) = got.compare(&oracle(problem), (FORWARD, GRADIENT)) {
        let Problem { n, t, h, spec, .. } = problem;
        panic!("N{n} T{t} H{h} {strategy:?} {spec:?}: {message}");
    }
}

fn every_convention_by_every_cut() {
    for (i, spec) in catalogue::conventions().into_iter().enumerate() {
        let strategy = Strategy::Forced(Cut::Steps(TILES[i % TILES.len()]));
        let problem = Problem::new((5, 4, 33), spec, Given::bits(31 - i * 5 % 32), i as u64);
        check(&problem, strategy, i % 2 == 0);
    }
}

fn odd_sizes_by_every_cut() {
    let mut i = 0;
    for tile in TILES {
        for (n, t, h) in [(1, 1, 1), (3, 2, 3), (13, 2, 16), (1, 7, 65), (5, 2, 130)] {
            i += 1;
            let reset = [Reset::AfterMatmul, Reset::BeforeMatmul][i % 2];
            let spec = GruSpec::default().with_reset(reset);
            let problem = Problem::new((n, t, h), spec, Given::bits(i * 11 % 32), i as u64);
            check(&problem, Strategy::Forced(Cut::Steps(tile)), i % 3 == 0);
        }
    }
}

fn large_hidden_sizes_by_the_inferred_cut() {
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        let problem = Problem::new((5, 3, 513), spec, Given::ALL, 1);
        check(&problem, Strategy::Inferred, false);
    }
}

trials!(
    every_convention_by_every_cut,
    odd_sizes_by_every_cut,
    large_hidden_sizes_by_the_inferred_cut
);
