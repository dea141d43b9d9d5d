//! The backends of the trials, and what happens if a backend is missing.

use burn::tensor::{DType, Device};
use gru_testkit::close::Tolerance;
use libtest_mimic::{Completion, Failed, Trial};

/// If set to any value, a missing GPU is a failure. Otherwise its trials are ignored.
const REQUIRE_GPU: &str = "GRU_REQUIRE_GPU";

/// If set to any value, the GPU has the smallest limits of WebGPU.
#[cfg(feature = "gpu")]
const WEBGPU: &str = "GRU_WEBGPU";

/// A Burn backend for trials.
#[derive(Debug, Clone, Copy)]
pub struct TestBackend {
    /// The backend's part of a trial name.
    pub name: &'static str,
    /// Whether the backend computes in float64.
    pub float64: bool,
    /// Whether Burn's own sigmoid computes in float64. Burn's default casts to float32 and back.
    pub float64_sigmoid: bool,
    /// Whether a trial takes a second instead of a millisecond, mostly to compile shaders.
    pub slow: bool,
    /// The factor by which tolerances are wider than on a CPU.
    pub tolerance_factor: f64,
    /// The plain device, or the reason why there is none.
    device: fn() -> Result<Device, String>,
}

/// A CPU, or a server that computes on one.
fn cpu(name: &'static str, device: fn() -> Result<Device, String>) -> TestBackend {
    TestBackend {
        name,
        float64: true,
        float64_sigmoid: false,
        slow: false,
        tolerance_factor: 1.0,
        device,
    }
}

/// Kernels for a GPU. Only some machines have float64 in shaders, and on a CPU it has the precision of float32.
#[cfg(any(feature = "gpu", feature = "cuda", feature = "cpu"))]
fn gpu(name: &'static str, device: fn() -> Result<Device, String>) -> TestBackend {
    TestBackend {
        float64: false,
        slow: true,
        tolerance_factor: Tolerance::GPU_FACTOR,
        ..cpu(name, device)
    }
}

/// The backend of [`other_device`].
#[allow(deprecated)]
#[cfg(feature = "remote")]
pub type OtherBackend = burn::backend::NdArray;

/// The device of another backend than Flex, without 16-bit types.
// Burn deprecates NdArray. Its users are supported as long as it exists.
#[allow(deprecated)]
pub fn other_device() -> Device {
    Device::ndarray()
}

/// All backends of this build.
pub fn all() -> Vec<TestBackend> {
    vec![
        cpu("ndarray", || Ok(other_device())),
        TestBackend {
            float64_sigmoid: true,
            ..cpu("flex", || Ok(Device::flex()))
        },
        #[cfg(feature = "remote")]
        cpu("remote", remote),
        #[cfg(feature = "gpu")]
        gpu(
            if cfg!(feature = "fusion") {
                "wgpu+fusion"
            } else {
                "wgpu"
            },
            wgpu,
        ),
        #[cfg(feature = "cuda")]
        TestBackend {
            tolerance_factor: Tolerance::TF32_FACTOR,
            ..gpu("cuda", cuda)
        },
        #[cfg(feature = "cpu")]
        gpu("cpu", || Ok(Device::cpu())),
    ]
}

/// Flex on a server in a child process.
#[cfg(feature = "remote")]
fn remote() -> Result<Device, String> {
    use super::server::{Kind, Server};
    use std::sync::OnceLock;

    static SERVER: OnceLock<Server> = OnceLock::new();
    let start = || Server::start(Kind::Flex).expect("a server starts");
    SERVER.get_or_init(start).device()
}

/// The first CUDA device.
#[cfg(feature = "cuda")]
fn cuda() -> Result<Device, String> {
    let found = Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec();
    let first = found.into_iter().next();
    first.ok_or_else(|| "CUDA: expected a device, got none".into())
}

/// wgpu's best adapter. Opening a missing device panics, so this lists the adapters first.
///
/// A software driver compiles shaders in one thread per device, and most of a trial is compilation. So
/// every second thread uses a second device of such an adapter.
#[cfg(feature = "gpu")]
fn wgpu() -> Result<Device, String> {
    use std::sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    };

    use burn::tensor::{DeviceKind, DeviceType};
    use gru_testkit::webgpu;

    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    // The best adapter comes first. A CPU adapter is a software driver.
    static BEST_IS_CPU: OnceLock<Option<bool>> = OnceLock::new();
    let best_is_cpu = BEST_IS_CPU.get_or_init(|| {
        let adapters = Device::enumerate(DeviceType::Wgpu).into_vec();
        Some(*adapters.first()? == Device::wgpu(DeviceKind::Cpu))
    });
    if best_is_cpu.is_some() && std::env::var_os(WEBGPU).is_some() {
        webgpu::device();
        return Ok(Device::wgpu(DeviceKind::Existing(webgpu::ID)));
    }
    match best_is_cpu {
        None => Err("wgpu: expected an adapter, got none".into()),
        Some(true) if THREAD.with(|thread| thread % 2 == 1) => Ok(Device::wgpu(DeviceKind::Cpu)),
        Some(_) => Ok(Device::wgpu(DeviceKind::DefaultDevice)),
    }
}

impl TestBackend {
    /// Float32, and float64 where the backend has it.
    pub fn dtypes(&self) -> Vec<DType> {
        let mut dtypes = vec![DType::F32];
        dtypes.extend(self.float64.then_some(DType::F64));
        dtypes
    }

    /// Whether variants of the operator run only a sample of the problems. True for slow backends, and
    /// for servers, where the variants are Burn's own operations on a backend that is also tested
    /// locally.
    pub fn samples_modes(&self) -> bool {
        self.slow || self.name == "remote"
    }

    /// The backend and the type as part of a trial name, such as `flex-f64`.
    pub fn id(&self, dtype: DType) -> String {
        let dtype = match dtype {
            DType::F64 => "f64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            _ => "f32",
        };
        format!("{}-{dtype}", self.name)
    }

    /// A tolerance for CPUs, widened for this backend.
    pub fn tolerance(&self, on_cpu: Tolerance) -> Tolerance {
        on_cpu.times(self.tolerance_factor)
    }

    /// A trial on this backend. `test` gets the plain device and fails by an error or a panic.
    ///
    /// Without the device the trial is ignored and reports the reason. It never passes.
    pub fn trial(
        &self,
        id: String,
        test: impl FnOnce(&Device) -> Result<(), String> + Send + 'static,
    ) -> Trial {
        self.ignorable_trial(id, |device| test(device).map(|()| Completion::Completed))
    }

    /// Like [`trial`](Self::trial), but the test itself may report *ignored*.
    pub fn ignorable_trial(
        &self,
        id: String,
        test: impl FnOnce(&Device) -> Result<Completion, String> + Send + 'static,
    ) -> Trial {
        let device = self.device;
        Trial::ignorable_test(id, move || match device() {
            Ok(device) => Ok(test(&device)?),
            Err(reason) if std::env::var_os(REQUIRE_GPU).is_some() => {
                Err(Failed::from(format!("{reason}, and {REQUIRE_GPU} is set")))
            }
            Err(reason) => Ok(Completion::ignored_with(reason)),
        })
    }
}
