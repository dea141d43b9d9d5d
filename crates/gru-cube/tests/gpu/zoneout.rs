//! A unit that keeps its whole previous state keeps it to the bit.

use super::support::{Given, Problem, Ran, Zoneout, client, refused, run, tile, trial};
use gru_cube::{Cut, Strategy, WalkTile};
use gru_spec::GruSpec;
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    let walk = Cut::Walk(WalkTile {
        rows: 2,
        width: 2,
        lanes: 32,
        splits: 1,
        resident: false,
    });
    let of = |cut: Cut| {
        let name = format!("zoneout/a-unit-keeps-its-state/{cut}").replace(' ', "-");
        trial(name, move || a_unit_keeps_its_state(cut))
    };
    [walk, Cut::Steps(tile(4, 4, 16, 2, 2, 16))].map(of).into()
}

fn a_unit_keeps_its_state(cut: Cut) -> Ran {
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
    let strategies = (Strategy::Forced(cut), Strategy::Forced(cut));
    let got = run::<f32>(&client(), &problem, strategies, false).map_err(refused)?;
    let h0 = problem.h0.as_ref().unwrap();
    for (row, state) in got.states.chunks(33).enumerate() {
        let before = &h0[row / problem.t * 33..][..33];
        assert_eq!(state[KEEPS], before[KEEPS], "row {row}");
        assert_ne!(state[KEEPS + 1], before[KEEPS + 1], "row {row}");
    }
    Ok(())
}
