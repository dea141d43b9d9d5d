//! char-gru in a web page: trains and generates text. The functions that wait for a device return promises.

use std::iter;

use burn::{module::Module, tensor::Device};
use char_gru::data::{DOCUMENTATION, Text};
use char_gru::sample::{Sampling, generate};
use char_gru::train::{Settings, Trainer};
use clap::Parser;
use wasm_bindgen::prelude::*;

/// Makes a panic readable in the browser's console.
#[wasm_bindgen(start)]
fn start() {
    console_error_panic_hook::set_once();
}

/// The default text of char-gru.
#[wasm_bindgen(js_name = builtInText)]
pub fn built_in_text() -> String {
    DOCUMENTATION.to_string()
}

/// A training run.
#[wasm_bindgen]
pub struct Training(Trainer);

#[wasm_bindgen]
impl Training {
    /// A run on `text` with arguments of `char-gru train`, on the CPU or with WebGPU.
    pub async fn start(text: String, arguments: String, gpu: bool) -> Result<Training, JsError> {
        let arguments = iter::once("char-gru").chain(arguments.split_whitespace());
        let settings = Settings::try_parse_from(arguments)?;
        let text = Text::new(&text, settings.batch, settings.seq)?;
        let device = if gpu { webgpu().await? } else { Device::flex() };
        Ok(Training(Trainer::new(settings, text, &device)))
    }

    /// The number of steps of the whole run.
    #[wasm_bindgen(getter)]
    pub fn steps(&self) -> usize {
        self.0.steps()
    }

    /// Trains on the next window. Returns its loss in nats per character.
    pub async fn step(&mut self) -> Result<f32, JsError> {
        Ok(self.0.step().await?.loss)
    }

    /// The validation loss between two epochs, otherwise nothing.
    pub async fn validate(&mut self) -> Result<Option<f64>, JsError> {
        if !self.0.is_between_epochs() {
            return Ok(None);
        }
        self.0.validate().await?;
        Ok(self.0.progress.validations.last().map(|v| v.1))
    }

    /// Generates text with the current model.
    pub async fn generate(
        &self,
        prompt: String,
        length: usize,
        seed: u32,
    ) -> Result<String, JsError> {
        let sampling = Sampling {
            prompt,
            length,
            temperature: 0.7,
            seed: seed.into(),
        };
        let device = self.0.learner.device.clone().inner();
        let model = self.0.learner.model.valid();
        Ok(generate(&model, &self.0.text.vocabulary, &sampling, &device).await?)
    }
}

#[cfg(feature = "webgpu")]
async fn webgpu() -> Result<Device, JsError> {
    let options = Device::wgpu_options().graphics_api(burn::tensor::wgpu::WgpuBackend::WebGpu);
    Ok(options.init_async().await?)
}

#[cfg(not(feature = "webgpu"))]
async fn webgpu() -> Result<Device, JsError> {
    Err(JsError::new("this page was built without WebGPU"))
}
