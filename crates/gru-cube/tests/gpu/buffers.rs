//! All optional tensors at once. The small ones then share a buffer, because a kernel binds at most seven.

use super::support::{F16, F32, Given, Mode, Ran, Zoneout, catalogue::Case, sequence, tile, trial};
use gru_cube::{Schedule, Starts, Strategy};
use gru_spec::{Direction, GruSpec, Layout, Order, Reset};
use gru_testkit::cover::cover;
use half::f16;
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    let of = |case: Case| {
        let narrow = case.seed % 2 == 1;
        let kind = if narrow { "f16" } else { "f32" };
        let name = format!("all-tensors/{kind}-{:?}-{}", case.spec.reset, case.id());
        trial(name, move || -> Ran {
            if narrow {
                case.check::<f16>(F16)
            } else {
                case.check::<f32>(F32)
            }
        })
    };
    cases().into_iter().map(of).collect()
}

/// Schedule, reset, zoneout, in place, starts, and the type, which an odd seed makes 16 bits.
pub fn cases() -> Vec<Case> {
    let rows = cover(&[3, 2, 3, 2, 3, 2], 3);
    let of = |(index, row): (usize, &Vec<usize>)| case((2 * index + row[5]) as u64, row);
    rows.iter().enumerate().map(of).collect()
}

fn case(seed: u64, row: &[usize]) -> Case {
    let schedules = [
        sequence(4, 4, 32, 2, true),
        sequence(4, 4, 32, 2, false),
        Schedule::Steps(tile(4, 4, 16, 2, 2, 16)),
    ];
    Case {
        size: (5, 3, 33),
        spec: GruSpec::default().with_reset([Reset::AfterMatmul, Reset::BeforeMatmul][row[1]]),
        order: Order {
            layout: [Layout::BatchMajor, Layout::TimeMajor][seed as usize / 2 % 2],
            direction: [Direction::Forward, Direction::Reverse][seed as usize / 4 % 2],
        },
        given: Given {
            zoneout: [Zoneout::PerUnit, Zoneout::PerStep, Zoneout::None][row[2]],
            starts: [Starts::FromState, Starts::FromZeros, Starts::None][row[4]],
            ..Given::ALL
        },
        strategy: Strategy::Forced(schedules[row[0]]),
        lengths: false,
        mode: Mode {
            in_place: row[3] == 1,
            inference: true,
        },
        seed,
    }
}
