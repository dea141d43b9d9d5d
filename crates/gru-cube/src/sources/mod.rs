//! Sources for Metal and CUDA without such a device: CubeCL generates the source of every kernel. Tests
//! compare its resources with the limits of a device, and compile it as far as possible on this machine. No
//! test here runs on hardware of Apple or NVIDIA.

mod bench;
mod cuda;
mod metal;
mod variants;

use cubecl::ir::HardwareProperties;
use cubecl_cpp::ComputeKernel;
use std::{
    io::Write,
    process::{Command, Stdio},
};

/// A compiled kernel and the units of its cubes.
struct Compiled {
    name: String,
    kernel: ComputeKernel,
    units: u32,
}

impl Compiled {
    /// Runs a compiler with the source as its standard input, and returns its output.
    fn pipe_to(&self, compiler: &mut Command) -> String {
        let (name, source) = (&self.name, &self.kernel.source);
        compiler.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = compiler.stderr(Stdio::piped()).spawn().expect("a compiler");
        let mut stdin = running.stdin.take().expect("stdin is piped");
        stdin.write_all(source.as_bytes()).unwrap();
        drop(stdin);
        let output = running.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}:\n{errors}\n{source}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Hardware of an imaginary device. The plan uses its own limits instead.
const HARDWARE: HardwareProperties = HardwareProperties {
    load_width: 128,
    vector_register_count: None,
    plane_size_min: 32,
    plane_size_max: 32,
    max_bindings: 31,
    max_shared_memory_size: 48 << 10,
    max_cube_count: (1 << 16, 1 << 16, 1 << 16),
    max_units_per_cube: 1024,
    max_cube_dim: (1024, 1024, 64),
    num_streaming_multiprocessors: None,
    num_cpu_cores: None,
    last_level_cache_size: None,
    num_tensor_cores: None,
    min_tensor_cores_dim: None,
    max_vector_size: 4,
    cube_mma_reserved_shared_memory: 0,
};
