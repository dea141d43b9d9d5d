//! `char-model` for the web page: trains, loads and saves models and generates text.
//!
//! Functions that wait for a device return promises. JavaScript objects correspond to types that `serde`
//! reads and writes: `training::Options`, `training::Facts` and types of `char-model`.

use serde::Serialize;
use wasm_bindgen::prelude::*;

mod device;
mod model;
mod training;

pub use model::{Model, Writing};
pub use training::Training;

/// Makes a panic readable in the browser's console.
#[wasm_bindgen(start)]
fn start() {
    console_error_panic_hook::set_once();
}

/// The default text of `char-gru`.
#[wasm_bindgen(js_name = builtInText)]
pub fn built_in_text() -> String {
    lipsum::LIBER_PRIMUS.to_string()
}

fn to_js(value: &impl Serialize) -> Result<JsValue, JsError> {
    Ok(serde_wasm_bindgen::to_value(value)?)
}
