//! Persistent kernels, compared with float64, on a device whose cubes see each other's writes. WebGPU does not
//! guarantee that.
//!
//! A separate process with one thread: other kernels must not occupy the device while cubes synchronize.

mod support;

use gru_cube::{Limits, Schedule, Strategy};
use gru_spec::GruSpec;
use half::f16;
use libtest_mimic::Arguments;
use support::{
    F16, F32, Given, Problem, Ran, cases,
    catalogue::{Case, lengths, matrices, persistent},
    client, oracle, run, trial,
};

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let mut trials = cases(persistent(), check);
    trials.extend(lengths(persistent()).into_iter().map(|case| {
        trial(format!("persistent-lengths/{}", case.id()), move || {
            check(&case)
        })
    }));
    let name = "persistent-f16-matrices";
    trials.extend(cases(matrices(name, Schedule::Persistent), |case| {
        case.check::<f16>(F16)
    }));
    trials.push(trial(
        "persistent/streams-exclude-each-other",
        streams_exclude_each_other,
    ));
    libtest_mimic::run(&arguments, trials).exit();
}

fn check(case: &Case) -> Ran {
    let ran = case.check::<f32>(F32);
    let Strategy::Forced(Schedule::Persistent(tile)) = case.strategy else {
        panic!("{case:?}");
    };
    let cubes = case.size.2.div_ceil(tile.n_threads * tile.n_per_thread);
    let too_many = Limits::of(&client()).coresident_cubes < cubes;
    assert_eq!(ran.is_err(), too_many, "{case:?}: {ran:?}");
    ran
}

/// Calls on several streams exclude each other, and each computes its result.
fn streams_exclude_each_other() -> Ran {
    let first = persistent().cases.remove(0);
    check(&first)?;
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (client, strategy) = (client(), first.strategy);
            std::thread::spawn(move || {
                let problem = Problem::new((1, 50, 9), GruSpec::default(), Given::NONE, 1);
                let got = run::<f32>(&client, &problem, strategy, false).unwrap();
                got.compare(&oracle(&problem), F32).unwrap();
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    Ok(())
}
