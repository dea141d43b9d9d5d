//! The one-launch walks against float64.

#[macro_use]
mod support;

use gru_cpu::spec::GruSpec;
use gru_cube::{Cut, Strategy, WalkTile};
use support::{FORWARD, GRADIENT, Given, Problem, catalogue, client, oracle, run};

fn check(problem: &Problem, strategy: Strategy, in_place: bool) {
    let got = run::<f32>(&client(), problem, (strategy, strategy), in_place).unwrap();
    if let Err(message) = got.compare(&oracle(problem), (FORWARD, GRADIENT)) {
        let Problem { n, t, h, spec, .. } = problem;
        panic!("N{n} T{t} H{h} {strategy:?} {spec:?}: {message}");
    }
}

fn every_convention_with_every_optional_tensor() {
    for (i, spec) in catalogue::conventions().into_iter().enumerate() {
        let given = Given::bits(31 - (i * 7) % 32);
        let problem = Problem::new((3, 5, 7), spec, given, i as u64);
        check(&problem, Strategy::Inferred, i % 2 == 0);
    }
}

fn every_activation_in_every_gate() {
    for (i, spec) in catalogue::activations().into_iter().enumerate() {
        let problem = Problem::new((2, 4, 5), spec, Given::ALL, i as u64);
        check(&problem, Strategy::Inferred, false);
    }
}

fn every_subset_of_optional_tensors() {
    for bits in 0..32 {
        let specs = catalogue::conventions();
        let spec = specs[bits % specs.len()];
        let problem = Problem::new((5, 3, 17), spec, Given::bits(bits), bits as u64);
        check(&problem, Strategy::Inferred, bits % 2 == 1);
    }
}

fn odd_sizes() {
    let specs = catalogue::conventions();
    let mut i = 0;
    for h in [1, 3, 7, 16, 17, 33, 65, 130] {
        for (n, t) in [(1, 1), (1, 7), (3, 2), (5, 7), (13, 2)] {
            i += 1;
            let spec = specs[(i * 5) % specs.len()];
            let problem = Problem::new((n, t, h), spec, Given::bits(i * 11 % 32), i as u64);
            check(&problem, Strategy::Inferred, false);
        }
    }
}

fn every_cut() {
    let specs = [GruSpec::default(), catalogue::conventions()[9]];
    for (i, (rows, width, lanes, splits)) in [
        (1, 1, 8, 1),
        (1, 1, 32, 4),
        (2, 2, 16, 3),
        (4, 4, 5, 1),
        (4, 4, 64, 2),
        (4, 2, 40, 2),
        (8, 4, 16, 4),
        (3, 3, 16, 2),
    ]
    .into_iter()
    .enumerate()
    {
        for resident in [true, false] {
            let tile = WalkTile {
                rows,
                width,
                lanes,
                splits,
                resident,
            };
            for spec in specs {
                let problem = Problem::new((5, 3, 33), spec, Given::ALL, i as u64);
                check(&problem, Strategy::Forced(Cut::Walk(tile)), false);
            }
        }
    }
}

trials!(
    every_convention_with_every_optional_tensor,
    every_activation_in_every_gate,
    every_subset_of_optional_tensors,
    odd_sizes,
    every_cut
);
