//! Opens a device by the name of its backend.

use burn::tensor::{Device, DeviceType};

use crate::error::Error;

/// The device of a name: `flex`, `ndarray`, `wgpu`, `vulkan`, `metal`, `webgpu`, `cuda` or `rocm`, or with a number, as
/// `cuda:1`. Every backend except `flex` is a Cargo feature.
///
/// # Errors
/// If the name is unknown or not in this build, or if there is no such device.
pub fn open(name: &str) -> Result<Device, Error> {
    let error = |reason: &dyn ToString| Error::Backend(name.to_string(), reason.to_string());
    let (backend, number) = name.split_once(':').unwrap_or((name, "0"));
    let kind = match backend {
        "flex" => DeviceType::Flex,
        #[cfg(feature = "ndarray")]
        "ndarray" => DeviceType::NdArray,
        #[cfg(feature = "wgpu")]
        "wgpu" => DeviceType::Wgpu,
        #[cfg(feature = "vulkan")]
        "vulkan" => DeviceType::Vulkan,
        #[cfg(feature = "metal")]
        "metal" => DeviceType::Metal,
        #[cfg(feature = "webgpu")]
        "webgpu" => DeviceType::WebGpu,
        #[cfg(feature = "cuda")]
        "cuda" => DeviceType::Cuda,
        #[cfg(feature = "rocm")]
        "rocm" => DeviceType::Rocm,
        _ => return Err(error(&"not in this build; a Cargo feature may add it")),
    };
    let found = number.parse().ok();
    let found = found.and_then(|n| Device::enumerate(kind).into_vec().into_iter().nth(n));
    found.ok_or_else(|| error(&"no such device"))
}
