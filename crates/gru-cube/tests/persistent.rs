//! Persistent kernels, compared with float64, on a device whose cubes see each other's writes. WebGPU does not
//! guarantee that.
//!
//! A separate process with one thread: other kernels must not occupy the device while cubes synchronize.

mod support;

use cubecl::ir::FloatKind;
use gru_cube::{Limits, Schedule, Strategy};
use gru_testkit::case::Case;
use libtest_mimic::Arguments;
use support::{
    F16, F32, Kernels, Ran, cases,
    cases::{matrices, persistent},
    client, trial,
};

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let mut trials = cases("persistent", persistent(), check);
    trials.extend(cases(
        "persistent-f16-matrices",
        matrices("persistent", FloatKind::F16),
        |kernels, case| kernels.check(case, F16),
    ));
    trials.push(trial(
        "persistent/streams-exclude-each-other",
        streams_exclude_each_other,
    ));
    libtest_mimic::run(&arguments, trials).exit();
}

fn check(kernels: &Kernels, case: &Case) -> Ran {
    let ran = kernels.check(case, F32);
    let Strategy::Forced(Schedule::Persistent(tile)) = kernels.strategy else {
        panic!("{kernels:?}");
    };
    let cubes = case.sizes.h.div_ceil(tile.n_threads * tile.n_per_thread);
    let too_many = Limits::of(&client()).coresident_cubes < cubes;
    assert_eq!(ran.is_err(), too_many, "{ran:?}");
    ran
}

/// Calls on several streams exclude each other, and each computes its result.
fn streams_exclude_each_other() -> Ran {
    let (kernels, first) = persistent().remove(0);
    check(&kernels, &first)?;
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                kernels
                    .check(&Case::new("N1 T50 H9 projected"), F32)
                    .unwrap();
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    Ok(())
}
