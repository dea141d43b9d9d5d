//! A model of the page, from a training run or from a file.

use std::path::Path;
use std::sync::Arc;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use char_model::error::Error;
use char_model::model::{CharGru, CharGruConfig};
use char_model::sample::{self, Choice};
use char_model::vocabulary::Vocabulary;
use char_model::{exchange, file};
use gru_convert::StateDict;
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::{device, to_js};

/// The description of a model.
#[derive(Serialize)]
struct Facts {
    hidden: usize,
    layers: usize,
    embed: usize,
    distinct: usize,
    parameters: usize,
}

/// A model that generates text on the CPU. It generates one character at a time, and a GPU would mostly
/// wait. The CPU also writes files without waiting.
#[wasm_bindgen]
pub struct Model {
    model: CharGru,
    sizes: CharGruConfig,
    vocabulary: Arc<Vocabulary>,
}

#[wasm_bindgen]
impl Model {
    /// Reads the model in a file of `char-gru`: a `.safetensors` file from `export`, or `model.bpk`.
    pub fn read(name: &str, bytes: Vec<u8>) -> Result<Model, JsError> {
        let device = device::cpu();
        let (model, sizes, vocabulary) = if name.ends_with(".safetensors") {
            let dict = StateDict::from_safetensors_bytes(name, bytes)?;
            let characters = exchange::characters(&dict);
            let none = || {
                JsError::new(&format!(
                    "{name}: expected the characters of the model, got none"
                ))
            };
            let vocabulary = characters.ok_or_else(none)?;
            let (model, sizes) = exchange::import(&dict, &vocabulary, &device)?;
            (model, sizes, vocabulary)
        } else {
            file::from_bytes(bytes, Path::new(name), &device)?
        };
        Ok(Model {
            model,
            sizes,
            vocabulary: Arc::new(vocabulary),
        })
    }

    /// Its description.
    pub fn facts(&self) -> Result<JsValue, JsError> {
        to_js(&Facts {
            hidden: self.sizes.hidden,
            layers: self.sizes.layers,
            embed: self.sizes.embed,
            distinct: self.vocabulary.len(),
            parameters: self.model.num_params(),
        })
    }

    /// Writes `model.bpk`, a file that `char-gru` reads.
    pub fn save(&self) -> Result<Vec<u8>, JsError> {
        let name = Path::new("model.bpk");
        let bytes = file::to_bytes(&self.model, &self.sizes, &self.vocabulary, name)?;
        Ok(bytes.to_vec())
    }

    /// Starts generating text after `prompt`.
    pub fn write(&self, prompt: &str, temperature: f64, seed: u32) -> Result<Writing, JsError> {
        let choice = Choice {
            temperature,
            top_k: None,
            seed: u64::from(seed),
        };
        let tokens = sample::prompt(Some(prompt), &self.vocabulary)?;
        Ok(Writing {
            writer: sample::Writer::new(&self.model, &tokens, choice, &device::cpu()),
            vocabulary: self.vocabulary.clone(),
        })
    }
}

impl Model {
    /// Copies a model from any device. Reading a GPU is asynchronous, as a browser requires.
    pub(crate) async fn of(
        model: CharGru,
        sizes: CharGruConfig,
        vocabulary: Arc<Vocabulary>,
    ) -> Result<Model, Error> {
        let mut parameters = Parameters(Vec::new());
        model.visit(&mut parameters);
        let mut read = Vec::with_capacity(parameters.0.len());
        for flat in parameters.0 {
            let data = flat.into_data_async().await;
            read.push(data.map_err(Error::device)?);
        }
        let mut put = Put(read.into_iter(), device::cpu());
        Ok(Model {
            model: model.map(&mut put),
            sizes,
            vocabulary,
        })
    }
}

/// All parameters, flattened, in the order of the module.
struct Parameters(Vec<Tensor<1>>);

impl ModuleVisitor for Parameters {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(param.val().reshape([-1]));
    }
}

/// Values for all parameters in the same order, and their new device.
struct Put(std::vec::IntoIter<TensorData>, Device);

impl ModuleMapper for Put {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let data = self.0.next().expect("one value for each parameter");
        param.map(|old| Tensor::<1>::from_data(data, &self.1).reshape(old.dims()))
    }
}

/// A model that generates text.
#[wasm_bindgen]
pub struct Writing {
    writer: sample::Writer,
    vocabulary: Arc<Vocabulary>,
}

#[wasm_bindgen]
impl Writing {
    /// The next `count` characters.
    pub async fn next(&mut self, count: usize) -> Result<String, JsError> {
        let mut text = String::new();
        for _ in 0..count {
            text.push(self.vocabulary.character(self.writer.write().await?));
        }
        Ok(text)
    }
}
