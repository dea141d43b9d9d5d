//! The backends that trials run on, and what happens where one is missing.

use burn::tensor::{DType, Device};
use gru_testkit::close::Tolerance;
use libtest_mimic::{Completion, Failed, Trial};

/// Set, to anything, where a GPU must be there: a missing one then fails instead of being ignored.
const REQUIRE_GPU: &str = "GRU_REQUIRE_GPU";

/// A backend of Burn that trials run on.
#[derive(Debug, Clone, Copy)]
pub struct TestBackend {
    /// Its part of a trial's id.
    pub name: &'static str,
    /// Whether it computes in float64.
    pub float64: bool,
    /// Whether Burn's own sigmoid does. Its default casts to float32 and back.
    pub float64_sigmoid: bool,
    /// Whether a trial takes a second, mostly to compile shaders, instead of a millisecond.
    pub slow: bool,
    /// How much wider the tolerances are than on a CPU.
    tolerance_factor: f64,
    /// The plain device, or why there is none.
    device: fn() -> Result<Device, String>,
}

/// Every backend this build has.
pub fn all() -> Vec<TestBackend> {
    vec![
        TestBackend {
            name: "ndarray",
            float64: true,
            float64_sigmoid: false,
            slow: false,
            tolerance_factor: 1.0,
            // Users of the deprecated backend are supported as long as it exists.
            #[allow(deprecated)]
            device: || Ok(Device::ndarray()),
        },
        TestBackend {
            name: "flex",
            float64: true,
            float64_sigmoid: true,
            slow: false,
            tolerance_factor: 1.0,
            device: || Ok(Device::flex()),
        },
        #[cfg(feature = "remote")]
        TestBackend {
            name: "remote",
            float64: true,
            float64_sigmoid: false,
            slow: false,
            tolerance_factor: 1.0,
            device: remote,
        },
        #[cfg(feature = "gpu")]
        TestBackend {
            name: if cfg!(feature = "fusion") {
                "wgpu+fusion"
            } else {
                "wgpu"
            },
            // Shaders have it on some machines only.
            float64: false,
            float64_sigmoid: false,
            slow: true,
            tolerance_factor: Tolerance::GPU_FACTOR,
            device: wgpu,
        },
        #[cfg(feature = "cuda")]
        TestBackend {
            name: "cuda",
            float64: false,
            float64_sigmoid: false,
            slow: true,
            tolerance_factor: Tolerance::GPU_FACTOR,
            device: cuda,
        },
    ]
}

/// A server's Flex, in a process beside this one.
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
    first.ok_or_else(|| "CUDA finds no device".into())
}

/// wgpu's best adapter. Listing them first, because opening a device that is not there panics.
///
/// A software driver compiles shaders in one thread for each device, and trials wait for little else. So every second
/// thread takes a second device of such an adapter.
#[cfg(feature = "gpu")]
fn wgpu() -> Result<Device, String> {
    use std::sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    };

    use burn::tensor::{DeviceKind, DeviceType};

    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    // The best adapter comes first: is it a CPU?
    static BEST_IS_CPU: OnceLock<Option<bool>> = OnceLock::new();
    let best_is_cpu = BEST_IS_CPU.get_or_init(|| {
        let adapters = Device::enumerate(DeviceType::Wgpu).into_vec();
        Some(*adapters.first()? == Device::wgpu(DeviceKind::Cpu))
    });
    match best_is_cpu {
        None => Err("wgpu finds no adapter".into()),
        Some(true) if THREAD.with(|thread| thread % 2 == 1) => Ok(Device::wgpu(DeviceKind::Cpu)),
        Some(_) => Ok(Device::wgpu(DeviceKind::DefaultDevice)),
    }
}

impl TestBackend {
    /// Float32 everywhere, float64 where the backend has it.
    pub fn dtypes(&self) -> Vec<DType> {
        let mut dtypes = vec![DType::F32];
        dtypes.extend(self.float64.then_some(DType::F64));
        dtypes
    }

    /// Whether all but the operator itself is tried on a part of the problems only: where it takes
    /// long, and behind a server, where it is Burn's own operations of a backend that is here too.
    pub fn samples_modes(&self) -> bool {
        self.slow || self.name == "remote"
    }

    /// The backend's and the type's part of a trial's id, as `flex-f64`.
    pub fn id(&self, dtype: DType) -> String {
        let dtype = match dtype {
            DType::F64 => "f64",
            _ => "f32",
        };
        format!("{}-{dtype}", self.name)
    }

    /// How much wider than on a CPU.
    pub fn tolerance_factor(&self) -> f64 {
        self.tolerance_factor
    }

    /// A tolerance that holds on a CPU, widened to what holds here.
    pub fn tolerance(&self, on_cpu: Tolerance) -> Tolerance {
        on_cpu.times(self.tolerance_factor)
    }

    /// A trial on this backend. `test` gets the plain device and fails by an error or a panic.
    ///
    /// Without the device the trial reports that it was ignored, and why; it never passes.
    pub fn trial(
        &self,
        id: String,
        test: impl FnOnce(&Device) -> Result<(), String> + Send + 'static,
    ) -> Trial {
        self.ignorable_trial(id, |device| test(device).map(|()| Completion::Completed))
    }

    /// [`trial`](Self::trial) that may find, on the device, that there is nothing to try.
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
