//! All steps in one launch, against float64: where the device shows cubes each other's writes. WebGPU does not.
//!
//! A process of its own with one thread, because one stream of a device at a time makes cubes that meet, and
//! every thread is a stream.

mod support;

use gru_cube::{Cut, Limits, PlanError, Strategy};
use gru_spec::GruSpec;
use half::f16;
use libtest_mimic::Arguments;
use support::{
    FORWARD, GRADIENT, Given, Ignored, Problem, Ran, cases,
    catalogue::{Case, matrices, persistent},
    client, run, trial,
};

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let mut trials = cases(persistent(), check);
    let name = "persistent-f16-matrices";
    trials.extend(cases(matrices(name, Cut::Persistent), |case| {
        case.check::<f16>((10.0 / 2048.0, 10.0 / 2048.0))
    }));
    trials.push(trial(
        "persistent/other-streams-are-refused".to_owned(),
        other_streams_are_refused,
    ));
    libtest_mimic::run(&arguments, trials).exit();
}

fn check(case: &Case) -> Ran {
    let ran = case.check::<f32>((FORWARD, GRADIENT));
    let Strategy::Forced(Cut::Persistent(tile)) = case.strategy else {
        panic!("{case:?}");
    };
    let cubes = case.size.2.div_ceil(tile.lanes * tile.per_lane);
    let too_many = Limits::of(&client()).together < cubes;
    assert_eq!(ran.is_err(), too_many, "{case:?}: {ran:?}");
    ran
}

/// While a stream of a device makes cubes that meet, no other does.
fn other_streams_are_refused() -> Ran {
    let first = persistent().cases.remove(0);
    check(&first)?;
    let client = client();
    let elsewhere = std::thread::spawn(move || {
        let problem = Problem::new((1, 2, 9), GruSpec::default(), Given::NONE, 1);
        let strategies = (first.strategy, first.strategy);
        run::<f32>(&client, &problem, strategies, false)
    });
    let refused = elsewhere.join().unwrap();
    assert!(
        matches!(
            refused,
            Err(PlanError::TooManyTogether {
                requested: 1,
                available: 0
            })
        ),
        "{refused:?}"
    );
    Ok::<(), Ignored>(())
}
