//! Models with PyTorch's names are read or rejected, with little memory. A model that was read writes a
//! character.
#![cfg_attr(fuzzing, no_main)]

use burn::tensor::{Device, Tensor};
use char_model::{exchange, vocabulary::Vocabulary};
use gru_convert::StateDict;
use gru_fuzz::{file::with_file, fuzz_target};

fuzz_target!(|bytes: &[u8]| {
    let device = Device::flex();
    let Ok(dict) = with_file(bytes, |path| StateDict::from_safetensors(path)) else {
        return;
    };
    let vocabulary = exchange::characters(&dict).unwrap_or_else(|| {
        let usual = Vocabulary::new("abc".chars().collect());
        usual.expect("three characters")
    });
    if let Ok((model, _)) = exchange::import(&dict, &vocabulary, &device) {
        let first = Tensor::from_ints([0], &device);
        let (scores, _) = model.step(first, None);
        assert_eq!(scores.dims(), [1, vocabulary.len()]);
    }
});
