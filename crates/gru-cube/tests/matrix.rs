//! Steps by matrix units against float64, for every type whose matrices the device has.

#[macro_use]
mod support;

use cubecl::features::TypeUsage;
use gru_cpu::spec::{GruSpec, Reset};
use gru_cube::{Cut, PlanError, StepTile, Strategy};
use half::f16;
use support::{Given, Problem, Upload, catalogue, client, oracle, run};

/// Rows and columns of one matrix and of several, a plane and several, one split and several; a stage that
/// is the whole depth, and one that leaves a rest. For matrices of 8 and of 16, planes of 8 and of 32.
const TILES: [StepTile; 4] = [
    tile(16, 32, 2, 1, 128),
    tile(32, 32, 1, 2, 32),
    tile(16, 64, 1, 2, 48),
    tile(48, 32, 1, 1, 16),
];

const fn tile(rows: usize, lanes: usize, per_lane: usize, splits: usize, stage: usize) -> StepTile {
    StepTile {
        matrix: true,
        ..support::tile(rows, 1, lanes, per_lane, splits, stage)
    }
}

/// Ten roundings of the factors, of the largest number, as for 16-bit storage.
fn check<F: Upload>(problem: &Problem, cut: Cut, in_place: bool, rounding: f64) {
    let strategy = Strategy::Forced(cut);
    let tolerance = 10.0 * rounding;
    let got = run::<F>(&client(), problem, (strategy, strategy), in_place).unwrap();
    if let Err(message) = got.compare(&oracle(problem), (tolerance, tolerance)) {
        let Problem { n, t, h, spec, .. } = problem;
        panic!("N{n} T{t} H{h} {cut} {spec:?}: {message}");
    }
}

/// Whether the device has matrices of the type.
fn has_matrices<F: Upload>() -> bool {
    let name = F::elem_type_native();
    let client = client();
    if !F::supported_uses(&client).contains(TypeUsage::Buffer) {
        println!("{name:?}: skipped, the device has no such buffers");
        return false;
    }
    let problem = Problem::of::<F>((1, 1, 16), GruSpec::default(), Given::NONE, 0);
    let strategy = Strategy::Forced(Cut::Steps(TILES[0]));
    match run::<F>(&client, &problem, (strategy, strategy), false) {
        Err(PlanError::NoMatrices) => {
            println!("{name:?}: skipped, the device has no such matrices");
            false
        }
        Err(error) => panic!("{name:?}: {error}"),
        Ok(_) => true,
    }
}

fn every_convention<F: Upload>(rounding: f64) {
    if !has_matrices::<F>() {
        return;
    }
    for (i, spec) in catalogue::conventions().into_iter().enumerate().step_by(3) {
        // Clips cut a gradient off where a number is at the clip, which a rounding decides.
        let spec = spec.with_clip_gates(None).with_clip_state(None);
        let given = Given::bits(31 - i * 5 % 32);
        let problem = Problem::of::<F>((5, 4, 48), spec, given, i as u64);
        check::<F>(
            &problem,
            Cut::Steps(TILES[i % TILES.len()]),
            i % 2 == 0,
            rounding,
        );
    }
    for (i, (n, t, h)) in [(1, 1, 16), (17, 3, 32), (50, 2, 80), (3, 5, 144)]
        .into_iter()
        .enumerate()
    {
        let spec = GruSpec::default().with_reset([Reset::AfterMatmul, Reset::BeforeMatmul][i % 2]);
        let problem = Problem::of::<F>((n, t, h), spec, Given::bits(i * 11 % 32), i as u64);
        check::<F>(&problem, Cut::Steps(TILES[3 - i]), i % 2 == 0, rounding);
    }
}

fn f16_by_matrices() {
    every_convention::<f16>(1.0 / 2048.0);
}

/// TF32 has the bits of f16; matrices of float32, where a device has them, are better.
fn f32_by_matrices() {
    every_convention::<f32>(1.0 / 2048.0);
}

fn sizes_that_are_not_of_matrices_are_refused() {
    if !has_matrices::<f16>() {
        return;
    }
    let good = TILES[0];
    for (h, tile) in [
        (33, good),
        (48, StepTile { rows: 3, ..good }),
        (48, StepTile { lanes: 5, ..good }),
        (48, StepTile { lanes: 36, ..good }),
    ] {
        let problem = Problem::of::<f16>((5, 2, h), GruSpec::default(), Given::NONE, 0);
        let strategy = Strategy::Forced(Cut::Steps(tile));
        let refused = run::<f16>(&client(), &problem, (strategy, strategy), false);
        assert!(
            matches!(refused, Err(PlanError::NotOfMatrices { .. })),
            "H{h} {tile:?}: {refused:?}"
        );
    }
}

trials!(
    f16_by_matrices,
    f32_by_matrices,
    sizes_that_are_not_of_matrices_are_refused
);
