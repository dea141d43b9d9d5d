//! A hidden unit that keeps all of its previous state keeps every bit.

use super::support::{
    Given, Problem, Ran, Zoneout, client, not_allowed, run, sequence, tile, trial,
};
use gru_cube::{Schedule, Strategy};
use gru_spec::GruSpec;
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    let of = |schedule: Schedule| {
        let name = format!("zoneout/a-unit-keeps-its-state/{schedule}").replace(' ', "-");
        trial(name, move || a_unit_keeps_its_state(schedule))
    };
    [
        sequence(2, 2, 32, 1, false),
        Schedule::Steps(tile(4, 4, 16, 2, 2, 16)),
    ]
    .map(of)
    .into()
}

fn a_unit_keeps_its_state(schedule: Schedule) -> Ran {
    const KEEPS: usize = 7;
    let given = Given {
        step_mask: false,
        zoneout: Zoneout::PerUnit,
        ..Given::ALL
    };
    let mut problem = Problem::new((5, 4, 33), GruSpec::default(), given, 3);
    for (k, share) in problem.zoneout.as_mut().unwrap().iter_mut().enumerate() {
        *share = if k % 33 == KEEPS { 1.0 } else { 0.0 };
    }
    let strategy = Strategy::Forced(schedule);
    let got = run::<f32>(&client(), &problem, strategy, false).map_err(not_allowed)?;
    let h0 = problem.h0.as_ref().unwrap();
    for (row, state) in got.states.chunks(33).enumerate() {
        let before = &h0[row / problem.t * 33..][..33];
        assert_eq!(state[KEEPS], before[KEEPS], "row {row}");
        assert_ne!(state[KEEPS + 1], before[KEEPS + 1], "row {row}");
    }
    Ok(())
}
