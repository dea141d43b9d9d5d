//! The CUDA kernels on CPU threads, under sanitizers, without a GPU and without CUDA.
//!
//! How a test runs:
//!
//! 1. [`device`] is a CubeCL device like any other. The launches are the launches of the crate: its buffers, scalars,
//!    numbers of cubes and launch configurations. The cases are the cases of the GPU tests.
//! 2. A launch compiles its kernel with CubeCL's CUDA C++ compiler. The text goes to g++ with `cuda.hpp`, in which a
//!    unit is a thread and a barrier is a `std::barrier`. Each program is built with one of two sanitizers:
//!    ThreadSanitizer, or AddressSanitizer with UndefinedBehaviorSanitizer.
//! 3. The program reads the launch from a file, runs all units, and writes the buffers to a file. After a report the
//!    buffers cannot be read, and the test fails with the report.
//! 4. The results are compared with the float64 oracle.
//!
//! ThreadSanitizer reports two accesses that no barrier, fence or atomic orders, even if they did not collide in this
//! run. `cuda.hpp` explains which races are errors. Three things stay unseen: code that no case runs, a race between two
//! cubes that the same threads ran one after the other, and what CUDA's own compiler does.
//!
//! [`sources`] compiles kernels for CUDA and Metal on the same device, and runs nothing.
//!
//! The environment variable `GRU_THREADS` chooses the cases: `quick` is one launch configuration of each kind, `full` is
//! every launch configuration, `long` is every case of the GPU tests. Without the variable, and without g++, the tests
//! that run kernels are ignored.
//!
//! ```sh
//! GRU_THREADS=quick cargo test -p gru-cube --test cuda-threads
//! ```

#[path = "../support/mod.rs"]
mod support;

mod device;
mod faults;
#[allow(dead_code)] // The GPU tests use all of both.
#[path = "../gpu/gates.rs"]
mod gates;
#[allow(dead_code)]
#[path = "../gpu/operands.rs"]
mod operands;
mod sources;
mod translated;

use cubecl_environment::stream::StreamId;
use device::{Mode, Sanitizer};
use gru_cube::{Schedule, Starts, StepTile, Strategy};
use gru_spec::Reset;
use gru_testkit::close::Tolerance;
use half::{bf16, f16};
use libtest_mimic::{Arguments, Completion, Trial};
use std::{
    env, fs,
    sync::atomic::{AtomicU16, Ordering},
};
use support::{
    Given, Ignored,
    catalogue::{self, Case},
    tile,
};

fn main() {
    let arguments = Arguments::from_args();
    let extent = Extent::from_environment();
    let mut trials = faults::trials();
    trials.extend(sources::trials());
    for (name, cases) in families(extent) {
        for case in cases {
            trials.extend(of_case(name, case));
        }
    }
    if extent > Extent::Quick {
        trials.extend(on_each("gates", &Sanitizer::ALL, gates::every_convention));
        trials.extend(on_each(
            "recurrent-inputs",
            &Sanitizer::ALL,
            operands::every_convention,
        ));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !conclusion.has_failed() {
        // A report names the text of its kernel.
        let _ = fs::remove_dir_all(device::directory());
    }
    conclusion.exit();
}

/// How many cases run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Extent {
    /// One launch configuration of each kind, by either reset.
    Quick,
    /// Every launch configuration, by either reset.
    Full,
    /// Every case of the GPU tests.
    Long,
}

impl Extent {
    fn from_environment() -> Self {
        match env::var("GRU_THREADS").as_deref() {
            Err(_) | Ok("quick") => Self::Quick,
            Ok("full") => Self::Full,
            Ok("long") => Self::Long,
            Ok(other) => panic!("GRU_THREADS: expected `quick`, `full` or `long`, got `{other}`"),
        }
    }

    fn of(self, cases: Vec<Case>) -> Vec<Case> {
        if self == Self::Long {
            return cases;
        }
        let mut chosen: Vec<Case> = Vec::new();
        for case in cases {
            let is_alike = |other: &Case| {
                other.spec.reset == case.spec.reset
                    && (self == Self::Quick || other.strategy == case.strategy)
            };
            if !chosen.iter().any(is_alike) {
                let (n, t, h) = case.size;
                chosen.push(Case {
                    // Enough for two turns of everything that alternates.
                    size: (n, t.min(5), h),
                    // With starts a kernel has the most code.
                    given: Given {
                        starts: Starts::FromState,
                        ..case.given
                    },
                    ..case
                });
            }
        }
        chosen
    }
}

/// The type of a case's buffers, and whether matrix units multiply.
#[derive(Debug, Clone, Copy)]
enum Type {
    F32,
    F16,
    Bf16,
    Tf32,
}

/// Kinds of kernels, and their cases in the types in which they run.
fn families(extent: Extent) -> Vec<(&'static str, Vec<(Type, Case)>)> {
    let all = [Type::F32, Type::F16, Type::Bf16];
    let by_matrices = [Type::F16, Type::Bf16, Type::Tf32];
    let in_types = |types: [Type; 3], cases: Vec<Case>| {
        let cases = extent.of(cases).into_iter().enumerate();
        // Each type by either reset.
        let of = |(i, case): (usize, Case)| (types[i / 2 % 3], case);
        cases.map(of).collect::<Vec<_>>()
    };
    let persistent = |tile| Schedule::Persistent(tile);
    vec![
        ("sequence", in_types(all, catalogue::sequences().cases)),
        ("inferred", in_types(all, catalogue::inferred().cases)),
        ("steps", in_types(all, catalogue::steps().cases)),
        ("persistent", in_types(all, catalogue::persistent().cases)),
        (
            "persistent-lengths",
            in_types(all, catalogue::lengths(catalogue::persistent())),
        ),
        (
            "matrices",
            in_types(by_matrices, catalogue::matrices("", Schedule::Steps).cases),
        ),
        (
            "persistent-matrices",
            in_types(by_matrices, catalogue::matrices("", persistent).cases),
        ),
        // In 16 bits for a large state: the steps that a device without persistent kernels infers, and the tile that
        // CUDA infers.
        (
            "inferred-matrices",
            [Reset::AfterMatmul, Reset::BeforeMatmul]
                .into_iter()
                .zip([Type::F16, Type::Bf16])
                .map(|(reset, dtype)| (dtype, large(reset)))
                .chain([(Type::F16, persistent_large())])
                .collect(),
        ),
    ]
}

fn large(reset: Reset) -> Case {
    let [after, before] = catalogue::large(272, Strategy::Inferred);
    let case = if reset == Reset::AfterMatmul {
        after
    } else {
        before
    };
    Case {
        size: (9, 2, 272),
        ..case
    }
}

/// Three tiles of rows for a cube, the last with one row.
fn persistent_large() -> Case {
    let tile = StepTile {
        matrix: true,
        ..tile(16, 1, 32, 1, 8, 512)
    };
    Case {
        size: (33, 2, 128),
        strategy: Strategy::Forced(Schedule::Persistent(tile)),
        ..large(Reset::AfterMatmul)
    }
}

fn of_case(name: &str, (dtype, case): (Type, Case)) -> Vec<Trial> {
    let case = match dtype {
        Type::F32 => case,
        // A clip cuts a gradient off where a number is at the clip, which a rounding to fewer bits decides.
        _ => Case {
            spec: case.spec.with_clip_gates(None).with_clip_state(None),
            ..case
        },
    };
    let reset = if case.spec.reset == Reset::AfterMatmul {
        "after"
    } else {
        "before"
    };
    let name = format!("{name}/{dtype:?}-{reset}-{}", case.id());
    on_each(&name, &Sanitizer::ALL, move || {
        let ran = match dtype {
            Type::F32 => case.check::<f32>(Tolerance::F32),
            Type::F16 => case.check::<f16>(Tolerance::F16),
            Type::Bf16 => case.check::<bf16>(Tolerance::BF16),
            // Products of 11 bits, like float16's.
            Type::Tf32 => case.check::<f32>(Tolerance::F16),
        };
        ran.unwrap_or_else(|Ignored(reason)| panic!("{reason}"));
    })
}

/// The test with each of these sanitizers. It is ignored without `GRU_THREADS` or without g++.
fn on_each(
    name: &str,
    sanitizers: &[Sanitizer],
    test: impl Fn() + Clone + Send + 'static,
) -> Vec<Trial> {
    let on = |&sanitizer| {
        let test = test.clone();
        Trial::ignorable_test(format!("{name}/{sanitizer:?}"), move || {
            if env::var_os("GRU_THREADS").is_none() {
                return Ok(Completion::ignored_with("set GRU_THREADS"));
            }
            if !device::has_compiler() {
                return Ok(Completion::ignored_with("no g++"));
            }
            on_threads(sanitizer, test);
            Ok(Completion::Completed)
        })
    };
    sanitizers.iter().map(on).collect()
}

/// Runs a test on a device that belongs to this thread.
fn on_threads(sanitizer: Sanitizer, test: impl FnOnce()) {
    thread_local! {
        static INDEX: u16 = {
            static NEXT: AtomicU16 = AtomicU16::new(0);
            NEXT.fetch_add(1, Ordering::Relaxed)
        };
    }
    let client = device::client(Mode::Run(sanitizer), INDEX.with(|&index| index));
    // One stream of a device launches persistent kernels, and these devices count as one.
    StreamId { value: u64::MAX }.executes(|| support::on(client, test));
}
