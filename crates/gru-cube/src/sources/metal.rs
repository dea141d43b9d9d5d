//! Metal sources: within the limits of Metal, and valid C++ for clang.

use super::{Compiled, bench::Bench};
use crate::{
    kernel::threads::Matrices,
    plan::{limits::Limits, tests::WEBGPU},
};
use cubecl::ir::{ElemType, FloatKind};
use cubecl_cpp::target::Metal;
use std::process::Command;

/// The limits of every Apple GPU with Metal 3.
const LIMITS: Limits = Limits {
    units: 1024,
    shared_bytes: 32 * 1024,
    cubes: 16,
    persistent: true,
    ..WEBGPU
};

/// The float16 matrices that CubeCL offers with Metal.
const MATRICES: Matrices = Matrices {
    m: 8,
    n: 8,
    k: 8,
    plane: 32,
    element: ElemType::Float(FloatKind::F16),
    copies: 1,
};

fn every_variant() -> Vec<Compiled> {
    [(FloatKind::F32, None), (FloatKind::F16, Some(MATRICES))]
        .into_iter()
        .flat_map(|(dtype, matrices)| Bench::new::<Metal>(dtype, matrices).every_variant(LIMITS))
        .collect()
}

#[test]
fn sources_are_within_the_limits_of_metal() {
    let all = every_variant();
    for part in [
        "forward sequence",
        "backward sequence",
        "forward step",
        "backward step",
        "matrix forward step",
        "matrix backward step",
        "persistent forward step",
        "persistent backward step",
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
        assert!(source.contains("[[kernel]]"), "{name}: no kernel");
        let shared = kernel.shared_memory_size;
        assert!(
            shared <= 32 * 1024,
            "{name}: {shared} bytes of shared memory"
        );
        assert!(*units <= 1024, "{name}: {units} units");
        let buffers = source.matches("[[buffer(").count();
        assert_eq!(buffers, kernel.buffers.len(), "{name}: buffers");
        // WebGPU allows 8. Devices with persistent kernels have more.
        let most = 8 + usize::from(name.contains("persistent"));
        assert!(buffers <= most, "{name}: {buffers} buffers");
        assert_eq!(
            source.contains("threadgroup char"),
            shared > 0,
            "{name}: shared memory is declared if it is counted"
        );
    }
}

#[test]
#[ignore = "needs clang: cargo test -- --ignored"]
fn sources_parse_as_cpp() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("metal_stdlib");
    std::fs::write(library, include_str!("metal_shim.hpp")).unwrap();
    for compiled in every_variant() {
        let mut clang = Command::new("clang");
        clang.args([
            "-x",
            "c++",
            "-std=c++17",
            "-fsyntax-only",
            "-Wno-everything",
        ]);
        compiled.pipe_to(clang.arg("-I").arg(directory.path()).arg("-"));
    }
}
