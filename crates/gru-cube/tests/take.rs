//! Shares of new states that are taken: zoneout. Where shares are 0 and 1, against steps that are skipped;
//! in between, every cut against a walk, which the operator's own tests hold against float64.

#[macro_use]
mod support;

use gru_cpu::spec::{GruSpec, Reset, Update};
use gru_cube::{BackwardInputs, BackwardOutputs, Cut, ForwardOutputs, Strategy, Take, WalkTile};
use support::{
    FORWARD, GRADIENT, Given, Problem, client, close, download, on_device, poisoned, tile, upload,
};

const WALK: Cut = walk(2, 1, false);

const CUTS: [Cut; 4] = [
    walk(4, 2, true),
    Cut::Steps(tile(4, 4, 16, 2, 2, 16)),
    Cut::Steps(tile(1, 1, 32, 1, 4, 64)),
    Cut::Steps(tile(2, 2, 5, 3, 1, 7)),
];

const fn walk(rows: usize, splits: usize, resident: bool) -> Cut {
    Cut::Walk(WalkTile {
        rows,
        width: rows,
        lanes: 32,
        splits,
        resident,
    })
}

/// States, gradients of the gates and of the initial state.
fn run(problem: &Problem, take: Option<Take>, cut: Cut) -> [Vec<f64>; 3] {
    let client = client();
    let Problem { n, h, spec, .. } = *problem;
    let (rows, width) = (problem.rows(), spec.saved_per_unit() * h);
    let call = problem.call::<f32>();
    let mut inputs = on_device::<f32>(&client, problem);
    inputs.forward.take = take;
    let states = poisoned::<f32>(&client, rows * h);
    let gates = poisoned::<f32>(&client, rows * width);
    let outputs = ForwardOutputs {
        states: states.clone(),
        gates: Some(gates.clone()),
    };
    let strategy = Strategy::Forced(cut);
    gru_cube::forward(&client, &call, &inputs.forward, &outputs, strategy).unwrap();
    let d_gates = poisoned::<f32>(&client, rows * width);
    let d_h0 = poisoned::<f32>(&client, n * h);
    let of_backward = BackwardInputs {
        d_states: inputs.d_states,
        states: states.clone(),
        gates,
        w_hh: inputs.forward.w_hh,
        h0: inputs.forward.h0,
        mask: inputs.forward.mask,
        valid: inputs.forward.valid,
        take: inputs.forward.take,
    };
    let outputs = BackwardOutputs {
        d_gates: Some(d_gates.clone()),
        d_h0: d_h0.clone(),
    };
    gru_cube::backward(&client, &call, &of_backward, &outputs, strategy).unwrap();
    [
        download::<f32>(&client, states, rows * h),
        download::<f32>(&client, d_gates, rows * width),
        download::<f32>(&client, d_h0, n * h),
    ]
}

fn compare(what: &str, got: &[Vec<f64>; 3], expected: &[Vec<f64>; 3]) {
    let names = [
        ("states", FORWARD),
        ("d_gates", GRADIENT),
        ("d_h0", GRADIENT),
    ];
    for (i, (name, tolerance)) in names.into_iter().enumerate() {
        close(name, &got[i], &expected[i], tolerance)
            .unwrap_or_else(|message| panic!("{what}: {message}"));
    }
}

fn specs() -> [GruSpec; 4] {
    let spec = GruSpec::default();
    let before = spec.with_reset(Reset::BeforeMatmul);
    [
        spec,
        before,
        spec.with_update(Update::Takes).with_clip_state(Some(0.5)),
        before.with_clip_state(Some(0.5)),
    ]
}

fn no_share_is_a_skipped_step_and_a_whole_one_is_none() {
    for (i, spec) in specs().into_iter().enumerate() {
        let problem = Problem::new((5, 4, 33), spec, Given::ALL, i as u64);
        let without = Problem {
            valid: None,
            ..problem.clone()
        };
        let valid = problem.valid.clone().unwrap();
        let of_units: Vec<f64> = valid.iter().flat_map(|&share| [share; 33]).collect();
        let cut = CUTS[i];
        let skipped = run(&problem, None, cut);
        let up = |shares: &[f64]| upload::<f32>(&client(), shares);
        let what = format!("{cut}, {spec:?}");
        for take in [Take::OfRow(up(&valid)), Take::OfUnit(up(&of_units))] {
            compare(&what, &run(&without, Some(take), cut), &skipped);
        }
    }
}

fn any_share_by_every_cut() {
    for (i, spec) in specs().into_iter().enumerate() {
        let problem = Problem::new((5, 4, 33), spec, Given::ALL, 7 + i as u64);
        for per_step in [1, problem.h] {
            let share = |k: usize| (k * 37 % 101) as f64 / 100.0;
            let shares: Vec<f64> = (0..problem.rows() * per_step).map(share).collect();
            let shares = upload::<f32>(&client(), &shares);
            let take = || match per_step {
                1 => Take::OfRow(shares.clone()),
                _ => Take::OfUnit(shares.clone()),
            };
            let expected = run(&problem, Some(take()), WALK);
            let cut = CUTS[i];
            let got = run(&problem, Some(take()), cut);
            compare(&format!("{cut}, {spec:?}"), &got, &expected);
        }
    }
}

fn a_unit_of_which_nothing_is_taken_keeps_its_state() {
    let given = Given {
        valid: false,
        ..Given::ALL
    };
    let problem = Problem::new((5, 4, 33), GruSpec::default(), given, 3);
    let keeps = 7;
    let share = |k: usize| if k % 33 == keeps { 0.0 } else { 1.0 };
    let shares: Vec<f64> = (0..problem.rows() * 33).map(share).collect();
    let h0 = problem.h0.as_ref().unwrap();
    for cut in [WALK, CUTS[1]] {
        let take = Take::OfUnit(upload::<f32>(&client(), &shares));
        let [states, ..] = run(&problem, Some(take), cut);
        for (row, state) in states.chunks(33).enumerate() {
            let before = &h0[row / problem.t * 33..][..33];
            assert_eq!(state[keeps], before[keeps], "{cut}, row {row}");
            assert_ne!(state[keeps + 1], before[keeps + 1], "{cut}, row {row}");
        }
    }
}

trials!(
    no_share_is_a_skipped_step_and_a_whole_one_is_none,
    any_share_by_every_cut,
    a_unit_of_which_nothing_is_taken_keeps_its_state
);
