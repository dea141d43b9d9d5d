//! A model with PyTorch's names: `embedding.weight`, `gru.weight_ih_l0`, …, `head.weight`, `head.bias`.
//!
//! The array `characters` contains one code point per character, so that a file is complete.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use gru_convert::{ConvertError, StateDict, pytorch};
use gru_op::GruError;

use crate::error::Error;
use crate::model::{CharGru, CharGruConfig};
use crate::vocabulary::Vocabulary;

const EMBEDDING: &str = "embedding.weight";
const GRU: &str = "gru.";
const HEAD: &str = "head.weight";
const BIAS: &str = "head.bias";
const CHARACTERS: &str = "characters";

/// Exports the model's parameters.
pub fn export(model: &CharGru, vocabulary: &Vocabulary) -> Result<StateDict, Error> {
    let mut dict = pytorch::export(&model.gru, GRU)?;
    dict.insert(EMBEDDING, data(EMBEDDING, model.embedding.weight.val())?);
    let head = &model.head;
    dict.insert(HEAD, data(HEAD, head.weight.val().transpose())?);
    if let Some(bias) = &head.bias {
        dict.insert(BIAS, data(BIAS, bias.val())?);
    }
    // float32 represents every code point exactly.
    let characters: Vec<f32> = vocabulary
        .characters()
        .chars()
        .map(|c| c as u32 as f32)
        .collect();
    let shape = [characters.len()];
    dict.insert(CHARACTERS, TensorData::new(characters, shape));
    Ok(dict)
}

/// The characters in an exported file.
pub fn characters(dict: &StateDict) -> Option<Vocabulary> {
    let codes: Vec<f32> = dict
        .get(CHARACTERS)?
        .clone()
        .convert::<f32>()
        .try_into_vec()
        .ok()?;
    let characters: Option<Vec<char>> = codes.iter().map(|&c| char::from_u32(c as u32)).collect();
    Vocabulary::new(characters?).ok()
}

/// A model with these parameters and sizes.
pub fn import(
    dict: &StateDict,
    vocabulary: &Vocabulary,
    device: &Device,
) -> Result<(CharGru, CharGruConfig), Error> {
    let config = pytorch::config(dict, GRU)?.with_batch_first(true);
    let [v, embed] = dict.shape(EMBEDDING)?;
    let sizes = CharGruConfig::new(v, embed, config.d_hidden, config.num_layers, 0.0);
    if vocabulary.len() != v {
        return Err(wrong(EMBEDDING, &[vocabulary.len(), embed], &[v, embed]));
    }
    if config.d_input != embed || config.bidirectional {
        let expected = [3 * config.d_hidden, embed];
        let name = format!("{GRU}weight_ih_l0");
        return Err(wrong(
            &name,
            &expected,
            &[3 * config.d_hidden, config.d_input],
        ));
    }
    // Reads all parameters before it makes a model of these sizes, because a small file may claim a
    // large model.
    let gru = pytorch::import(dict, GRU, &config, device)?;
    let embedding = dict.tensor(EMBEDDING, [v, embed], device)?;
    let head = dict.tensor(HEAD, [v, sizes.hidden], device)?;
    let bias = dict.tensor(BIAS, [v], device)?;
    let mut model = sizes.init(device);
    model.gru = gru;
    model.embedding.weight = Param::from_tensor(embedding);
    model.head.weight = Param::from_tensor(head.transpose());
    model.head.bias = Some(Param::from_tensor(bias));
    Ok((model, sizes))
}

fn data<const D: usize>(name: &str, tensor: Tensor<D>) -> Result<TensorData, Error> {
    let read = tensor.try_into_data();
    read.map_err(|reason| Error::device(format!("{name}: {reason}")))
}

fn wrong(name: &str, expected: &[usize], actual: &[usize]) -> Error {
    let error = GruError::Shape {
        name: name.into(),
        expected: expected.to_vec(),
        actual: actual.to_vec(),
    };
    ConvertError::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::module::Module;

    #[test]
    fn export_and_import_round_trip() {
        let _alone = crate::drawing();
        let device = Device::flex();
        let vocabulary = Vocabulary::new("abé".chars().collect()).unwrap();
        let sizes = CharGruConfig::new(3, 4, 4, 2, 0.0);
        let model = sizes.init(&device);
        let dict = export(&model, &vocabulary).unwrap();
        assert_eq!(characters(&dict), Some(vocabulary.clone()));
        let (back, read) = import(&dict, &vocabulary, &device).unwrap();
        assert_eq!(read, sizes);
        let parameters = |model: CharGru| {
            let dict = export(&model, &vocabulary).unwrap();
            let keys: Vec<String> = dict.keys().map(String::from).collect();
            keys.into_iter()
                .map(|k| (dict.get(&k).cloned(), k))
                .collect::<Vec<_>>()
        };
        assert_eq!(back.num_params(), model.num_params());
        assert_eq!(parameters(back), parameters(model));
    }

    #[test]
    fn foreign_files_are_errors() {
        let _alone = crate::drawing();
        let device = Device::flex();
        let vocabulary = Vocabulary::new("abé".chars().collect()).unwrap();
        let model = CharGruConfig::new(3, 4, 4, 1, 0.0).init(&device);
        let mut dict = export(&model, &vocabulary).unwrap();
        let more = Vocabulary::new("abcd".chars().collect()).unwrap();
        let error = import(&dict, &more, &device).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("embedding.weight: expected shape [4, 4]"),
            "{error}"
        );
        dict.insert(BIAS, TensorData::zeros::<f32, _>([4]));
        let error = import(&dict, &vocabulary, &device).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("head.bias: expected shape [3], got [4]"),
            "{error}"
        );
        // A small file claims a large model. The model is not made, because its parameters are missing.
        dict.insert(
            "gru.weight_hh_l0",
            TensorData::zeros::<f32, _>([1, 1 << 20]),
        );
        let error = import(&dict, &vocabulary, &device).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("gru.weight_hh_l0: expected shape [3145728, 1048576]"),
            "{error}"
        );
    }
}
