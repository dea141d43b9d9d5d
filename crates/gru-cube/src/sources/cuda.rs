//! CUDA sources: within the limits of a cube, and compiled by NVRTC and ptxas, which need no GPU.
//!
//! These are the sources of CubeCL's CUDA C++ compiler. Burn's default on CUDA is its LLVM compiler.

use super::{Compiled, bench::Bench};
use crate::{
    kernel::threads::Matrices,
    plan::{
        Problem,
        limits::Limits,
        schedule::{Schedule, StepTile, Strategy},
        tests::NVIDIA,
    },
};
use cubecl::ir::{AddressType, ElemType, FloatKind};
use cubecl_cpp::target::Cuda;
use gru_spec::{GruSpec, Reset};
use std::process::Command;

/// The limits of an A100 or an H100, except their number of multiprocessors.
const LIMITS: Limits = Limits {
    cubes: 32,
    coresident_cubes: 0,
    ..NVIDIA
};

/// The matrices that `Matrices::of` chooses from those that CubeCL offers from sm_80 on.
fn matrices(dtype: FloatKind) -> Matrices {
    let (element, k) = match dtype {
        FloatKind::F32 => (FloatKind::TF32, 8),
        other => (other, 16),
    };
    Matrices {
        m: 16,
        n: 16,
        k,
        plane: 32,
        element: ElemType::Float(element),
        copies: 1,
    }
}

/// Every kernel of a type, with inferred schedules.
fn inferred(dtype: FloatKind) -> Vec<Compiled> {
    Bench::new::<Cuda>(dtype, Some(matrices(dtype))).every_variant(LIMITS)
}

/// Step kernels and persistent kernels by matrix units; float32 as TF32.
fn by_matrices(dtype: FloatKind, hidden: usize) -> Vec<Compiled> {
    let bench = Bench::new::<Cuda>(dtype, Some(matrices(dtype)));
    let tile = |k_splits, block_k| StepTile {
        rows: 16,
        width: 1,
        n_threads: 32,
        n_per_thread: 1,
        k_splits,
        block_k,
        matrix: true,
    };
    let mut all = Vec::new();
    for schedule in [
        Schedule::Steps(tile(4, 128)),
        Schedule::Persistent(tile(8, 256)),
    ] {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            let spec = GruSpec::default().with_reset(reset);
            let problem = Problem {
                n: 64,
                rule: bench.rule(&spec, hidden),
                limits: Limits {
                    coresident_cubes: 132,
                    ..LIMITS
                },
                matrices: bench.matrices,
            };
            all.extend(bench.both_passes(Strategy::Forced(schedule), &problem, true));
        }
    }
    all
}

#[test]
fn sources_are_within_the_limits_of_cuda() {
    // One 16-bit type, because both differ only in a name. Metal's test covers float32.
    let all: Vec<_> = inferred(FloatKind::F16)
        .into_iter()
        .chain(by_matrices(FloatKind::F32, 512))
        .collect();
    for part in [
        "forward sequence",
        "backward sequence",
        "matrix forward step",
        "matrix backward step",
        "persistent forward step",
        "persistent backward step",
        "persistent matrix forward step",
        "persistent matrix backward step",
    ] {
        assert!(all.iter().any(|c| c.name.starts_with(part)), "{part}");
    }
    for Compiled {
        name,
        kernel,
        units,
    } in &all
    {
        let source = &kernel.source;
        assert!(source.contains("__global__"), "{name}: no kernel");
        assert!(*units <= 1024, "{name}: {units} units");
        let shared = kernel.shared_memory_size;
        assert!(
            shared <= 48 * 1024,
            "{name}: {shared} bytes of shared memory"
        );
        assert_eq!(
            source.contains("mma_sync"),
            name.contains("matrix"),
            "{name}: matrix units where the schedule requests them"
        );
    }
}

/// For tensors of 2³² elements or more. A test does not have the memory to run one.
#[test]
fn sources_have_indices_of_64_bits() {
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        for hidden in [33, 512] {
            for (address, expected) in [(AddressType::U32, false), (AddressType::U64, true)] {
                let bench = Bench {
                    address,
                    ..Bench::new::<Cuda>(FloatKind::F32, None)
                };
                let problem = Problem {
                    n: 2,
                    rule: bench.rule(&spec, hidden),
                    limits: LIMITS,
                    matrices: None,
                };
                for Compiled { name, kernel, .. } in
                    bench.both_passes(Strategy::Inferred, &problem, true)
                {
                    let is_long = kernel.source.contains("uint64_t const v");
                    assert_eq!(is_long, expected, "{name}: {address:?}");
                }
            }
        }
    }
}

/// `GRU_NVRTC` is a command that compiles its input, such as `python3 src/sources/nvrtc.py sm_90` in the folder of this
/// package. The test prints its output, registers and stack. `tools/gpu-drivers nvrtc` runs it.
#[test]
#[ignore = "needs NVRTC: GRU_NVRTC=... cargo test -- --ignored --nocapture"]
fn sources_compile_by_nvrtc() {
    let command = std::env::var("GRU_NVRTC").expect("GRU_NVRTC is a command");
    let mut words = command.split_whitespace();
    let program = words.next().expect("GRU_NVRTC is a command");
    let arguments: Vec<_> = words.collect();
    let all = [FloatKind::F32, FloatKind::F16, FloatKind::BF16]
        .into_iter()
        .flat_map(|dtype| {
            let all = inferred(dtype).into_iter();
            all.chain(by_matrices(dtype, 512))
                .chain(by_matrices(dtype, 1024))
        });
    for compiled in all {
        let units = compiled.units.to_string();
        let report = compiled.pipe_to(Command::new(program).args(&arguments).arg(units));
        println!("{} | {}", report.trim(), compiled.name);
    }
}
