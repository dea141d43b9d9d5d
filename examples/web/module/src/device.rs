//! Opens devices.

use burn::tensor::Device;
use wasm_bindgen::JsError;

/// The device with this name: `cpu`, or `webgpu` in a module with this feature.
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
                .map_err(|reason| JsError::new(&format!("WebGPU is not available: {reason}")))
        }
        other => Err(JsError::new(&format!(
            "device: expected cpu or webgpu, got {other}"
        ))),
    }
}

/// The device for reading and writing files.
pub fn cpu() -> Device {
    Device::flex()
}
