//! The CUDA kernels on CPU threads, under sanitizers, without a GPU and without CUDA.
//!
//! How a test runs:
//!
//! 1. [`device`] is a CubeCL device like any other. The launches are the launches of the crate: its buffers, scalars,
//!    numbers of cubes and launch configurations. The cases are the cases of the GPU tests.
//! 2. A launch compiles its kernel with CubeCL's CUDA C++ compiler. The text goes to g++ with `cuda.hpp`, in which a
//!    CubeCL unit is a thread and a barrier is a `std::barrier`. Each program is built with one of two sanitizers:
//!    ThreadSanitizer, or AddressSanitizer with UndefinedBehaviorSanitizer.
//! 3. The program reads the launch from a file, runs all threads, and writes the buffers to a file. After a report the
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
mod sources;
mod translated;

use cubecl::ir::FloatKind;
use cubecl_environment::stream::StreamId;
use device::{Mode, Sanitizer};
use gru_cube::Strategy;
use gru_spec::Reset;
use gru_testkit::{case::Case, close::Tolerance};
use libtest_mimic::{Arguments, Completion, Trial};
use std::{
    env, fs,
    sync::atomic::{AtomicU16, Ordering},
};
use support::{Ignored, Kernels, cases, cases::Cases};

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

    fn of(self, cases: Cases) -> Cases {
        if self == Self::Long {
            return cases;
        }
        let mut chosen = Cases::new();
        for (kernels, case) in cases {
            let is_alike = |(other, of): &(Kernels, Case)| {
                of.spec.reset == case.spec.reset
                    && (self == Self::Quick || other.strategy == kernels.strategy)
            };
            if !chosen.iter().any(is_alike) {
                // With starts a kernel has the most code. Five steps are enough for two turns of everything that
                // alternates.
                let steps = case.sizes.t.min(5);
                chosen.push((kernels, case.with(&format!("start-states T{steps}"))));
            }
        }
        chosen
    }
}

const ALL: [FloatKind; 3] = [FloatKind::F32, FloatKind::F16, FloatKind::BF16];
const OF_MATRICES: [FloatKind; 3] = [FloatKind::F16, FloatKind::BF16, FloatKind::TF32];

/// A case, and the type and the kernels that run it. TF32 is the type of factors of float32 buffers.
type InType = (FloatKind, Strategy, Case);

/// Kinds of kernels, and their cases.
fn families(extent: Extent) -> Vec<(&'static str, Vec<InType>)> {
    let in_types = |types: [FloatKind; 3], cases: Cases| {
        let cases = extent.of(cases).into_iter().enumerate();
        // Each type by either reset.
        let of = |(i, (kernels, case)): (usize, (Kernels, Case))| {
            (types[i / 2 % 3], kernels.strategy, case)
        };
        cases.map(of).collect::<Vec<_>>()
    };
    let matrices = |kind| in_types(OF_MATRICES, cases::matrices(kind, FloatKind::F16));
    // In 16 bits for a large state: the steps that a device without persistent kernels infers, and the tile that CUDA
    // infers, with three tiles of rows for a cube, the last with one row.
    let inferred = Strategy::Inferred;
    let persistent =
        "persistent rows=16 width=1 n_threads=32 n_per_thread=1 k_splits=8 block_k=512 matrix";
    let persistent = Strategy::Forced(persistent.parse().expect("a schedule"));
    let large = [
        (FloatKind::F16, inferred, "N9 T2 H272"),
        (FloatKind::BF16, inferred, "N9 T2 H272 before"),
        (FloatKind::F16, persistent, "N33 T2 H128"),
    ];
    let of_large = |(dtype, strategy, words): (FloatKind, Strategy, &str)| {
        let case = Case::new(words).with("projected mask skips");
        (dtype, strategy, case)
    };
    vec![
        ("sequence", in_types(ALL, cases::sequences())),
        ("inferred", in_types(ALL, cases::inferred())),
        ("steps", in_types(ALL, cases::steps())),
        ("persistent", in_types(ALL, cases::persistent())),
        ("matrices", matrices("steps")),
        ("persistent-matrices", matrices("persistent")),
        ("inferred-matrices", large.map(of_large).into()),
    ]
}

fn of_case(name: &str, (dtype, strategy, mut case): InType) -> Vec<Trial> {
    let (buffers, tolerance) = match dtype {
        FloatKind::F16 => (dtype, Tolerance::F16),
        FloatKind::BF16 => (dtype, Tolerance::BF16),
        // Products of 11 bits, like float16's.
        FloatKind::TF32 => (FloatKind::F32, Tolerance::F16),
        _ => (dtype, Tolerance::F32),
    };
    if dtype != FloatKind::F32 {
        case = case.with("16-bits");
        // A clip cuts a gradient off where a number is at the clip, which a rounding to fewer bits decides.
        case.spec = case.spec.with_clip_gates(None).with_clip_state(None);
    }
    let reset = if case.spec.reset == Reset::AfterMatmul {
        "after"
    } else {
        "before"
    };
    let name = format!("{name}/{dtype:?}-{reset}-{}", case.id());
    on_each(&name, &Sanitizer::ALL, move || {
        let kernels = Kernels {
            dtype: buffers,
            strategy,
        };
        let ran = kernels.check(&case, tolerance);
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
