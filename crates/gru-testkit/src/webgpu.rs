//! A GPU that has the smallest limits of WebGPU: the default adapter, opened with these limits. wgpu then rejects a
//! kernel with more buffers, shared memory or units, as a browser does. A software driver looks like an unknown GPU.
//! Shaders are in WGSL.

use cubecl::{
    Device,
    client::Client,
    device::{WgpuDevice, WgpuDeviceKind},
    ir::{MemoryDeviceProperties, PhysicalDevice},
    server::ServerUtilities,
    wgpu::{
        AutoCompiler, MemoryConfiguration, RuntimeOptions, WgpuServer,
        wgpu::{
            Adapter, Backends, DeviceDescriptor, ExperimentalFeatures, Features, Instance, Limits,
        },
    },
};
use cubecl_common::device::{Device as _, ServiceId};
use cubecl_environment::future::block_on;
use cubecl_server::{allocator::ContiguousMemoryLayoutPolicy, logging::ServerLogger};
use std::sync::{Arc, OnceLock};

/// Number of the device, as an existing device of wgpu.
pub const ID: u32 = 60_000;

/// Number of [`misreported`].
pub const MISREPORTED: u32 = 60_001;

/// The device.
///
/// # Panics
/// If there is no adapter.
pub fn device() -> WgpuDevice {
    static OPEN: OnceLock<()> = OnceLock::new();
    let device = WgpuDevice::new(WgpuDeviceKind::Existing(ID));
    OPEN.get_or_init(|| open(&device, true));
    device
}

/// The same device with the limits of the adapter as its reported limits. It rejects kernels that should run.
///
/// # Panics
/// If there is no adapter.
pub fn misreported() -> WgpuDevice {
    static OPEN: OnceLock<()> = OnceLock::new();
    let device = WgpuDevice::new(WgpuDeviceKind::Existing(MISREPORTED));
    OPEN.get_or_init(|| open(&device, false));
    device
}

fn open(device: &WgpuDevice, reports_limits: bool) {
    let unlimited = Device::Wgpu(WgpuDevice::default()).client();
    let adapter = adapter(&unlimited.properties().identity.name);
    let limits = Limits::default();
    let descriptor = DeviceDescriptor {
        required_features: adapter.features() - Features::MAPPABLE_PRIMARY_BUFFERS,
        required_limits: limits.clone(),
        // SAFETY: CubeCL enables them for its own devices.
        experimental_features: unsafe { ExperimentalFeatures::enabled() },
        ..DeviceDescriptor::default()
    };
    let opened = block_on(adapter.request_device(&descriptor));
    let (logical, queue) = opened.expect("every adapter has these limits");

    let mut properties = unlimited.properties().clone();
    if reports_limits {
        let per_dimension = limits.max_compute_workgroups_per_dimension;
        let hardware = &mut properties.hardware;
        // CubeCL binds one more buffer, for sizes.
        hardware.max_bindings = limits.max_storage_buffers_per_shader_stage - 1;
        hardware.max_shared_memory_size = limits.max_compute_workgroup_storage_size as usize;
        hardware.max_cube_count = (per_dimension, per_dimension, per_dimension);
        hardware.max_units_per_cube = limits.max_compute_invocations_per_workgroup;
        hardware.max_cube_dim = (
            limits.max_compute_workgroup_size_x,
            limits.max_compute_workgroup_size_y,
            limits.max_compute_workgroup_size_z,
        );
    }
    properties.memory = MemoryDeviceProperties::new(
        limits.max_storage_buffer_binding_size,
        limits.min_storage_buffer_offset_alignment.into(),
    );
    properties.identity.physical = Some(PhysicalDevice::default());

    let memory = properties.memory.clone();
    let timing = properties.timing_method;
    let (utilities, captures) = ServerUtilities::init(
        ServiceId::of::<WgpuServer<AutoCompiler>>(device.to_id()),
        "wgpu<wgsl>",
        properties,
        unlimited.target_properties().clone(),
        Arc::new(ServerLogger::default()),
        ContiguousMemoryLayoutPolicy::new(memory.alignment as usize),
    );
    let options = RuntimeOptions::default();
    let server = WgpuServer::<AutoCompiler>::new(
        memory,
        MemoryConfiguration::default(),
        Default::default(),
        logical,
        queue,
        options.tasks_max,
        adapter.get_info().backend,
        timing,
        utilities,
        captures,
    );
    Client::init(device.to_id(), server);
}

/// The adapter of the default device.
fn adapter(name: &str) -> Adapter {
    let adapters = block_on(Instance::default().enumerate_adapters(Backends::all()));
    let mut adapters = adapters.into_iter();
    let found = adapters.find(|adapter| adapter.get_info().name == name);
    found.expect("the adapter of the default device")
}
