//! Launches that are compiled and do not run.

use cubecl::{
    Compiler, CubeKernel,
    client::Client,
    ir::{ElemType, FloatKind, PciVendor, features::MmaConfig},
};
use cubecl_common::device::ServiceId;
use cubecl_cpp::{
    ComputeKernel,
    shared::CppCompiler,
    target::{Cuda, Metal},
};
use cubecl_environment::future::reader::read_sync;
use std::sync::Mutex;

/// The language of the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Cuda,
    Metal,
}

/// The float16 matrices that CubeCL offers with Metal.
pub const METAL_MATRICES: MmaConfig = MmaConfig {
    a_type: ElemType::Float(FloatKind::F16),
    b_type: ElemType::Float(FloatKind::F16),
    cd_type: ElemType::Float(FloatKind::F32),
    m: 8,
    n: 8,
    k: 8,
};

impl Language {
    /// Multiprocessors and vendor of an imaginary device. Metal reports no multiprocessors, but without them there would
    /// be no persistent kernels.
    pub(super) fn hardware(self) -> (u32, Option<PciVendor>) {
        match self {
            Self::Cuda => (132, Some(PciVendor::Nvidia)),
            Self::Metal => (16, Some(PciVendor::Apple)),
        }
    }
}

/// A compiled kernel.
pub struct Source {
    pub name: &'static str,
    pub compiled: ComputeKernel,
    /// Threads of a cube.
    pub threads: u32,
}

/// The sources of each device since its last [`take_sources`].
static SOURCES: Mutex<Vec<(ServiceId, Source)>> = Mutex::new(Vec::new());

/// The kernels that were launched since the last call.
pub fn take_sources(client: &Client) -> Vec<Source> {
    read_sync(client.sync()).expect("nothing runs");
    let mut sources = SOURCES.lock().unwrap();
    let own = sources.extract_if(.., |(device, _)| *device == client.service_id());
    own.map(|(_, source)| source).collect()
}

pub(super) fn compile(device: ServiceId, kernel: &dyn CubeKernel, language: Language) {
    let definition = cubecl::define_kernel(kernel).expect("a kernel");
    let dim = definition.settings.cube_dim;
    let options = Default::default();
    let compiled = match language {
        Language::Cuda => CppCompiler::<Cuda>::default().compile(definition, &options),
        Language::Metal => CppCompiler::<Metal>::default().compile(definition, &options),
    };
    let source = Source {
        name: kernel.name(),
        compiled: compiled.unwrap_or_else(|error| panic!("{error:?}")),
        threads: dim.x * dim.y * dim.z,
    };
    SOURCES.lock().unwrap().push((device, source));
}
