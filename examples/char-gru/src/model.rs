//! Embedding, GRU, linear head, and their file.
//!
//! A model file is a safetensors file with PyTorch's names: `embedding.weight`, `gru.weight_ih_l0`, …, `head.weight`,
//! `head.bias`. The array `characters` contains the code points of the vocabulary, so the file is complete.

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::{Dropout, DropoutConfig, Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use gru_convert::{ConvertError, StateDict, pytorch};
use gru_op::{GruBlock, GruBlockConfig, GruError};

use crate::data::Vocabulary;
use crate::error::Error;
use crate::train::Settings;

/// A model that predicts the next character.
#[derive(Module, Debug)]
pub struct CharGru {
    /// From tokens to vectors of E values.
    pub embedding: Embedding,
    /// L layers of H units.
    pub gru: GruBlock,
    /// Before and after the GRU.
    pub dropout: Dropout,
    /// From H units to the scores of all V characters.
    pub head: Linear,
}

impl CharGru {
    /// A model with random parameters.
    pub fn new(settings: &Settings, vocabulary: usize, device: &Device) -> Self {
        let model = Self {
            embedding: EmbeddingConfig::new(vocabulary, settings.embed).init(device),
            gru: GruBlockConfig::new(settings.embed, settings.hidden)
                .with_num_layers(settings.layers)
                .with_dropout(if settings.layers > 1 {
                    settings.dropout
                } else {
                    0.0
                })
                .init(device),
            dropout: DropoutConfig::new(settings.dropout).init(),
            head: LinearConfig::new(settings.hidden, vocabulary).init(device),
        };
        // Burn draws a parameter at its first use, with a random id. Drawing all of them now gives the same model for the
        // same seed, and records in the same order.
        model.map(&mut Draw(0))
    }

    /// Tokens `[N, T]` and the state `[L, N, H]` to scores `[N·T, V]` and the new state.
    pub fn forward(
        &self,
        tokens: Tensor<2, Int>,
        state: Option<Tensor<3>>,
    ) -> (Tensor<2>, Tensor<3>) {
        let x = self.dropout.forward(self.embedding.forward(tokens)); // [N, T, E]
        let (y, state) = self.gru.forward(x, state); // [N, T, H]
        let y = self.dropout.forward(y).flatten(0, 1); // [N·T, H]
        (self.head.forward(y), state)
    }

    /// The arrays of a model file.
    ///
    /// # Errors
    /// If a parameter cannot be read from its device.
    pub fn to_arrays(&self, vocabulary: &Vocabulary) -> Result<StateDict, Error> {
        let mut arrays = pytorch::export(&self.gru, "gru.")?;
        let mut insert = |name: &str, data: TensorData| arrays.insert(name, data);
        let bias = self.head.bias.as_ref().expect("the head has a bias");
        insert("embedding.weight", read(self.embedding.weight.val())?);
        insert("head.weight", read(self.head.weight.val().transpose())?);
        insert("head.bias", read(bias.val())?);
        // float32 represents every code point.
        let codes = vocabulary.characters().iter().map(|&c| c as u32 as f32);
        let codes: Vec<f32> = codes.collect();
        insert("characters", TensorData::from(&codes[..]));
        Ok(arrays)
    }

    /// The model of a file, and its vocabulary.
    ///
    /// # Errors
    /// If an array is missing or has another shape, or if the characters are not sorted.
    pub fn from_arrays(arrays: &StateDict, device: &Device) -> Result<(Self, Vocabulary), Error> {
        let [v] = arrays.shape("characters")?;
        let codes = arrays
            .tensor::<1>("characters", [v], &Device::flex())?
            .into_data();
        let is_code = |&code: &f32| code as u32 as f32 == code;
        let character = |code: f32| char::from_u32(Some(code).filter(is_code)? as u32);
        let characters = codes.iter::<f32>().map(character);
        let characters: Option<Vec<char>> = characters.collect();
        let characters = characters.ok_or(Error::Characters)?;
        let vocabulary = Vocabulary::of(&String::from_iter(&characters));
        if vocabulary.characters() != characters {
            return Err(Error::Characters);
        }

        let own = ["characters", "embedding.weight", "head.weight", "head.bias"];
        let is_own = |key: &str| key.starts_with("gru.") || own.contains(&key);
        if let Some(key) = arrays.keys().find(|key| !is_own(key)) {
            let expected = "a model has characters, embedding, gru and head";
            let key = key.into();
            return Err(ConvertError::from(GruError::UnexpectedKey { key, expected }).into());
        }
        // `import` rejects a bidirectional GRU, and other arrays of the GRU.
        let config = pytorch::config(arrays, "gru.")?
            .with_batch_first(true)
            .with_bidirectional(false);
        let (e, h) = (config.d_input, config.d_hidden);
        let embedding = arrays.tensor("embedding.weight", [v, e], device)?;
        let head = arrays.tensor::<2>("head.weight", [v, h], device)?;
        let bias = arrays.tensor("head.bias", [v], device)?;
        let model = Self {
            embedding: Embedding {
                weight: Param::from_tensor(embedding),
            },
            gru: pytorch::import(arrays, "gru.", &config, device)?,
            dropout: DropoutConfig::new(0.0).init(),
            head: Linear {
                weight: Param::from_tensor(head.transpose()),
                bias: Some(Param::from_tensor(bias)),
            },
        };
        Ok((model, vocabulary))
    }
}

/// Draws the parameters in order, and numbers them.
struct Draw(u64);

impl ModuleMapper for Draw {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (_, value, mapper) = param.consume();
        self.0 += 1;
        Param::from_mapped_value(self.0.into(), value, mapper)
    }
}

fn read<const D: usize>(tensor: Tensor<D>) -> Result<TensorData, Error> {
    tensor.try_into_data().map_err(Error::device)
}
