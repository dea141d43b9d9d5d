//! A training run of the page.

use burn::module::Module;
use char_model::data::Corpus;
use char_model::model::CharGruConfig;
use char_model::ngram::Reference;
use char_model::text;
use char_model::trainer::{Settings, Trainer};
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;

use crate::model::Model;
use crate::{device, to_js};

/// The maximum of every size, so that a run fits in a browser's memory.
const LARGEST: usize = 4096;

/// The options of the page, with the names of char-gru's arguments.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    embed: usize,
    hidden: usize,
    layers: usize,
    dropout: f64,
    epochs: usize,
    batch: usize,
    seq: usize,
    lr: f64,
    clip: f64,
    validation: f64,
    seed: u64,
}

/// The description of a run before its first step.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    characters: usize,
    distinct: usize,
    parameters: usize,
    steps: usize,
    /// Nats per character of the 2-gram model.
    bigram: f64,
}

/// A training run.
#[wasm_bindgen]
pub struct Training {
    trainer: Trainer,
    corpus: Corpus,
    sizes: CharGruConfig,
}

#[wasm_bindgen]
impl Training {
    /// Starts a run on `text` on the device with this name. `options` has the type `Options`.
    pub async fn start(text: String, options: JsValue, on: String) -> Result<Training, JsError> {
        let options: Options = serde_wasm_bindgen::from_value(options)?;
        options.check()?;
        let text = text::clean(&text);
        let corpus = Corpus::new(&text, options.validation, options.seq)?;
        let sizes = CharGruConfig::new(
            corpus.vocabulary.len(),
            options.embed,
            options.hidden,
            options.layers,
            options.dropout,
        );
        let device = device::open(&on).await?.autodiff();
        // Drawn on the CPU, so that a seed gives the same model on every device.
        let cpu = device::cpu().autodiff();
        for device in [&cpu, &device] {
            device.seed(options.seed);
        }
        let model = sizes.init(&cpu).fork(&device);
        let settings = Settings {
            epochs: options.epochs,
            batch: options.batch,
            seq: options.seq,
            rate: options.lr,
            clip: options.clip,
            seed: options.seed,
        };
        Ok(Training {
            trainer: Trainer::new(settings, &corpus, model, &[device]),
            corpus,
            sizes,
        })
    }

    /// The description of the run before its first step: `Facts`.
    pub fn facts(&self) -> Result<JsValue, JsError> {
        to_js(&Facts {
            characters: self.corpus.tokens().len(),
            distinct: self.corpus.vocabulary.len(),
            parameters: self.trainer.learner.model.num_params(),
            steps: self.trainer.steps(),
            bigram: Reference::new(&self.corpus).bigram,
        })
    }

    /// Trains on the next window. Returns a [`Step`](char_model::trainer::Step).
    pub async fn step(&mut self) -> Result<JsValue, JsError> {
        to_js(&self.trainer.step().await?)
    }

    /// Validates the model. Returns a [`Validation`](char_model::trainer::Validation).
    pub async fn validate(&mut self) -> Result<JsValue, JsError> {
        to_js(&self.trainer.validate().await?)
    }

    /// The current model.
    pub async fn model(&self) -> Result<Model, JsError> {
        let model = self.trainer.learner.model.valid();
        let (sizes, vocabulary) = (self.sizes.clone(), self.corpus.vocabulary.clone());
        Ok(Model::of(model, sizes, vocabulary).await?)
    }
}

impl Options {
    /// Checks the options as char-gru checks its arguments.
    fn check(&self) -> Result<(), JsError> {
        let counts = [
            ("embed", self.embed),
            ("hidden", self.hidden),
            ("layers", self.layers),
            ("epochs", self.epochs),
            ("batch", self.batch),
            ("seq", self.seq),
        ];
        for (name, count) in counts {
            if !(1..=LARGEST).contains(&count) {
                let reason = format!("{name}: expected 1 to {LARGEST}, got {count}");
                return Err(JsError::new(&reason));
            }
        }
        let numbers = [
            ("dropout", self.dropout, (0.0..1.0).contains(&self.dropout)),
            ("lr", self.lr, self.lr > 0.0 && self.lr.is_finite()),
            ("clip", self.clip, self.clip > 0.0),
            (
                "validation",
                self.validation,
                self.validation > 0.0 && self.validation < 1.0,
            ),
        ];
        for (name, number, possible) in numbers {
            if !possible {
                return Err(JsError::new(&format!("{name} cannot be {number}")));
            }
        }
        Ok(())
    }
}
