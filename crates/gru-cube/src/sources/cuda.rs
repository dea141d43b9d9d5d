//! CUDA's sources: within a cube's limits, and compiled by NVRTC and ptxas, which need no card.
//!
//! Burn's default on CUDA is CubeCL's LLVM compiler; this is the other one, CUDA C++.

use super::{Bench, Compiled};
use crate::{
    kernel::{rule::Rule, team::Matrices},
    plan::{
        Problem,
        cut::{Cut, StepTile, Strategy},
        limits::Limits,
    },
};
use cubecl::ir::{ElemType, FloatKind};
use cubecl_cpp::target::Cuda;
use gru_spec::{GruSpec, Order, Reset};
use std::{
    io::Write,
    process::{Command, Stdio},
};

/// Those of an A100 or an H100, but for their number of multiprocessors.
const LIMITS: Limits = Limits {
    units: 1024,
    shared_bytes: 48 * 1024,
    cubes: 32,
    buffers: 30,
    together: 0,
    cpu: false,
};

/// The matrices that CubeCL offers from sm_80 on, as `Matrices::of` chooses among them.
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
    }
}

/// Every kernel of a type, as inferred.
fn inferred(dtype: FloatKind) -> Vec<Compiled> {
    Bench::new::<Cuda>(dtype, Some(matrices(dtype))).every_variant(LIMITS)
}

/// Steps by matrix units, a launch each and in one launch; of float32 as TF32.
fn by_matrices(dtype: FloatKind, hidden: usize) -> Vec<Compiled> {
    let bench = Bench::new::<Cuda>(dtype, Some(matrices(dtype)));
    let tile = StepTile {
        rows: 16,
        width: 1,
        lanes: 32,
        per_lane: 1,
        splits: 4,
        stage: 128,
        matrix: true,
    };
    let mut all = Vec::new();
    for cut in [Cut::Steps(tile), Cut::Persistent(tile)] {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            let spec = GruSpec::default().with_reset(reset);
            let problem = Problem {
                n: 64,
                hidden,
                rule: Rule::new(&spec, Order::default(), f32::EPSILON.into()),
                limits: Limits {
                    together: 132,
                    ..LIMITS
                },
                matrices: bench.matrices,
                measured: None,
            };
            all.extend(bench.both_passes(Strategy::Forced(cut), &problem, true));
        }
    }
    all
}

#[test]
fn sources_are_within_the_limits_of_cuda() {
    // One type: those of 16 bits differ by a name, and float32 by what Metal's test sees, too.
    let all: Vec<_> = inferred(FloatKind::F16)
        .into_iter()
        .chain(by_matrices(FloatKind::F32, 512))
        .collect();
    for part in [
        "forward walk",
        "backward walk",
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
            "{name}: matrices are multiplied where they are asked for"
        );
    }
}

/// `GRU_NVRTC` is a command that compiles what it reads, such as
/// `python3 crates/gru-cube/src/sources/nvrtc.py sm_90`; its last line, registers and stack, is printed.
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
    for Compiled {
        name,
        kernel,
        units,
    } in all
    {
        let mut compiler = Command::new(program)
            .args(&arguments)
            .arg(units.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let mut stdin = compiler.stdin.take().expect("stdin is piped");
        stdin.write_all(kernel.source.as_bytes()).unwrap();
        drop(stdin);
        let output = compiler.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{name}:\n{}\n{}",
            String::from_utf8_lossy(&output.stderr),
            kernel.source
        );
        let report = String::from_utf8_lossy(&output.stdout);
        println!("{} | {name}", report.trim());
    }
}
