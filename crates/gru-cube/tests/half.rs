//! Sixteen-bit storage with float32 sums, where the device has the type.

#[macro_use]
mod support;

use cubecl::{features::TypeUsage, prelude::*};
use gru_cpu::spec::{GruSpec, Reset};
use gru_cube::{Cut, StepTile, Strategy, WalkTile};
use half::f16;
use support::{FORWARD, Given, Problem, catalogue, client, close, oracle, run};

/// Storage rounds at 2⁻¹¹. A state is rounded once per step on its way out, and its gates feed
/// gradients; sums of up to 20 such terms stay within ten roundings of the largest number.
const TOLERANCE: f64 = 10.0 / 2048.0;

fn check(problem: &Problem, strategy: Strategy) {
    let got = run::<f16>(&client(), problem, (strategy, strategy), false).unwrap();
    if let Err(message) = got.compare(&oracle(problem), (TOLERANCE, TOLERANCE)) {
        let Problem { n, t, h, spec, .. } = problem;
        panic!("N{n} T{t} H{h} {strategy:?} {spec:?}: {message}");
    }
}

fn f16_walks_and_steps() {
    let client = client();
    if !f16::supported_uses(&client).contains(TypeUsage::Buffer) {
        println!("f16: skipped, the device has no such buffers");
        return;
    }
    let conventions = catalogue::conventions().into_iter();
    for (i, spec) in conventions.enumerate().step_by(3) {
        // Clips cut a gradient off where the state is at the clip, which a rounding decides.
        let spec = spec.with_clip_state(None);
        for h in [7, 33] {
            let problem = Problem::of::<f16>((3, 5, h), spec, Given::ALL, i as u64);
            check(&problem, Strategy::Inferred);
        }
    }
    let steps = Strategy::Forced(Cut::Steps(StepTile {
        rows: 4,
        width: 4,
        lanes: 16,
        per_lane: 2,
        splits: 2,
        stage: 16,
        matrix: false,
    }));
    let after = GruSpec::default().with_reset(Reset::AfterMatmul);
    check(&Problem::of::<f16>((5, 4, 33), after, Given::ALL, 1), steps);
}

/// However many steps there are: between them the state is float32, and half an ulp of a state, 2⁻¹² below
/// 1, is the rounding of its way out. (A walk keeps it in registers, steps in a buffer of their own.)
fn a_state_is_rounded_once() {
    let client = client();
    if !f16::supported_uses(&client).contains(TypeUsage::Buffer) {
        println!("f16: skipped, the device has no such buffers");
        return;
    }
    let walk = Cut::Walk(WalkTile {
        rows: 2,
        width: 2,
        lanes: 32,
        splits: 1,
        resident: false,
    });
    let steps = Cut::Steps(StepTile {
        rows: 2,
        width: 2,
        lanes: 16,
        per_lane: 2,
        splits: 2,
        stage: 16,
        matrix: false,
    });
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        let problem = Problem::of::<f16>((3, 40, 33), spec, Given::ALL, 5);
        let expected = oracle(&problem).states;
        for cut in [walk, steps] {
            let strategy = Strategy::Forced(cut);
            let got = run::<f16>(&client, &problem, (strategy, strategy), false).unwrap();
            close("states", &got.states, &expected, 2f64.powi(-12) + FORWARD)
                .unwrap_or_else(|message| panic!("{cut}, {reset:?}: {message}"));
        }
    }
}

trials!(f16_walks_and_steps, a_state_is_rounded_once);
