//! Where to compute.

use burn::tensor::Device;
use wasm_bindgen::JsError;

/// The device of this name: `cpu`, or `webgpu` in a module that was built with it.
pub async fn open(name: &str) -> Result<Device, JsError> {
    match name {
        "cpu" => Ok(cpu()),
        #[cfg(feature = "webgpu")]
        "webgpu" => {
            use burn::tensor::wgpu::WgpuBackend;
            let options = Device::wgpu_options().graphics_api(WgpuBackend::WebGpu);
            options
                .init_async()
                .await
                .map_err(|reason| JsError::new(&format!("WebGPU cannot be used here: {reason}")))
        }
        other => Err(JsError::new(&format!("this module has no device {other}"))),
    }
}

/// Where files are read and written.
pub fn cpu() -> Device {
    Device::flex()
}
