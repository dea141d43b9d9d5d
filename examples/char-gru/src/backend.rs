//! Opens the device of a backend by name.

use burn::tensor::Device;
use clap::ValueEnum;

use crate::error::Error;

/// Every backend that the operator supports, including backends that this build does not contain, so
/// that the error can name the Cargo feature.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Flex,
    Ndarray,
    Wgpu,
    Vulkan,
    Metal,
    Webgpu,
    Cuda,
    Rocm,
}

impl Backend {
    /// The name on the command line, which is also the name of the Cargo feature.
    pub fn name(self) -> String {
        let shown = self.to_possible_value();
        shown.map_or_else(String::new, |shown| shown.get_name().to_string())
    }

    /// Opens the device, or returns why it cannot be opened.
    pub fn device(self) -> Result<Device, Error> {
        match self {
            #[cfg(feature = "flex")]
            Self::Flex => Ok(Device::flex()),
            // Deprecated in favour of Flex, but supported as long as it exists.
            #[cfg(feature = "ndarray")]
            #[allow(deprecated)]
            Self::Ndarray => Ok(Device::ndarray()),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => graphics(self, burn::tensor::wgpu::WgpuBackend::Auto),
            #[cfg(feature = "vulkan")]
            Self::Vulkan => graphics(self, burn::tensor::wgpu::WgpuBackend::Vulkan),
            #[cfg(feature = "metal")]
            Self::Metal => graphics(self, burn::tensor::wgpu::WgpuBackend::Metal),
            #[cfg(feature = "webgpu")]
            Self::Webgpu => graphics(self, burn::tensor::wgpu::WgpuBackend::WebGpu),
            #[cfg(feature = "cuda")]
            Self::Cuda => compute(self, burn::tensor::DeviceType::Cuda),
            #[cfg(feature = "rocm")]
            Self::Rocm => compute(self, burn::tensor::DeviceType::Rocm),
            #[allow(unreachable_patterns)] // Reachable unless every backend is compiled in.
            _ => Err(Error::BackendMissing { name: self.name() }),
        }
    }
}

/// Requests the adapter now. A device that opens on first use would panic at the first tensor.
#[cfg(feature = "wgpu")]
fn graphics(backend: Backend, api: burn::tensor::wgpu::WgpuBackend) -> Result<Device, Error> {
    Device::wgpu_options()
        .graphics_api(api)
        .init()
        .map_err(|reason| Error::BackendAbsent {
            name: backend.name(),
            reason: reason.to_string(),
        })
}

#[cfg(any(feature = "cuda", feature = "rocm"))]
fn compute(backend: Backend, kind: burn::tensor::DeviceType) -> Result<Device, Error> {
    let found = Device::enumerate(kind).into_vec();
    found.into_iter().next().ok_or(Error::BackendAbsent {
        name: backend.name(),
        reason: "no driver or no device".to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_backend_outside_the_build_names_its_feature() {
        let error = Backend::Cuda.device().unwrap_err();
        assert!(error.to_string().contains("--features cuda"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
