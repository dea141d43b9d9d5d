//! What the device says about itself: CubeCL's CUDA runtime on sm_90, as far as the kernels here use it.

use super::{
    Language, MODES, MULTIPROCESSORS, Mode, Threads, compiled::METAL_MATRICES, server::Dense,
};
use cubecl::{
    features::TypeUsage,
    ir::{
        DeviceIdentity, DeviceProperties, ElemType, FloatKind, HardwareProperties,
        MemoryDeviceProperties, PhysicalDevice, TargetProperties, Type, UIntKind,
        features::AtomicUsage,
    },
    logging::ServerLogger,
    profile::TimingMethod,
    server::ServerUtilities,
};
use cubecl_common::device::{DeviceId, DeviceService, ServerUtilitiesHandle, ServiceId};
use cubecl_cpp::{
    cuda::{arch::CudaArchitecture, mma::CudaCmmaCompiler},
    register_supported_types,
    shared::register_wmma_features,
};
use std::{collections::HashMap, sync::Arc};

impl DeviceService for Threads {
    fn init(device: DeviceId) -> Self {
        let mode = MODES[usize::from(device.type_id)];
        let (multiprocessors, vendor) = match mode {
            Mode::Run(_) => (MULTIPROCESSORS, None),
            Mode::Compile(language) => language.hardware(),
        };
        let identity = DeviceIdentity {
            physical: vendor.map(|vendor| {
                let mut physical = PhysicalDevice::default();
                physical.vendor = Some(vendor);
                physical
            }),
            ..DeviceIdentity::default()
        };
        let hardware = HardwareProperties {
            load_width: 128,
            vector_register_count: None,
            plane_size_min: 32,
            plane_size_max: 32,
            max_bindings: 31,
            max_shared_memory_size: 48 << 10,
            max_cube_count: (u32::MAX, 0xffff, 0xffff),
            max_units_per_cube: 1024,
            max_cube_dim: (1024, 1024, 64),
            num_streaming_multiprocessors: Some(multiprocessors),
            num_cpu_cores: None,
            last_level_cache_size: None,
            num_tensor_cores: None,
            min_tensor_cores_dim: Some(8),
            max_vector_size: 4,
            cube_mma_reserved_shared_memory: 0,
        };
        let mut properties = DeviceProperties::new(
            Default::default(),
            MemoryDeviceProperties::new(1 << 40, 256),
            hardware,
            TimingMethod::System,
            identity,
        );
        // As CubeCL's CUDA runtime has them on sm_90, as far as the kernels here use them.
        register_supported_types(&mut properties);
        properties.register_type_usage(ElemType::Float(FloatKind::TF32), TypeUsage::Conversion);
        let counters = Type::atomic(ElemType::UInt(UIntKind::U32));
        properties.register_atomic_type_usage(counters, AtomicUsage::all());
        properties.features.alignment = true;
        properties.features.device_memory_scope = true;
        properties.features.memory_reinterpret = true;
        let sm_90 = CudaArchitecture {
            version: 90,
            tensor_cores: true,
        };
        if mode == Mode::Compile(Language::Metal) {
            properties.features.matmul.cmma.insert(METAL_MATRICES);
        } else {
            let offered = CudaCmmaCompiler::Cpp.supported_cmma_combinations(&sm_90);
            register_wmma_features(offered, &mut properties);
        }
        let (utilities, _) = ServerUtilities::init(
            ServiceId::of::<Self>(device),
            "cuda-threads",
            properties,
            TargetProperties::default(),
            Arc::new(ServerLogger::default()),
            Dense,
        );
        Self {
            utilities: Arc::new(utilities),
            mode,
            buffers: HashMap::new(),
            programs: HashMap::new(),
            launch: 0,
            name: format!("{}-{}", device.type_id, device.index_id),
        }
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        self.utilities.clone()
    }
}
