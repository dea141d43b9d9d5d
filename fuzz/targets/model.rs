//! Model files of char-gru are read or rejected, with little memory. A model that was read writes a
//! character.
#![cfg_attr(fuzzing, no_main)]

use burn::tensor::{Device, Tensor};
use char_model::{exchange, file};
use gru_fuzz::{file::with_file, fuzz_target};

fuzz_target!(|bytes: &[u8]| {
    let device = Device::flex();
    with_file(bytes, |path| {
        if let Ok((model, sizes, vocabulary)) = file::load(path, &device) {
            let first = Tensor::from_ints([0], &device);
            let (scores, _) = model.step(first, None);
            assert_eq!(scores.dims(), [1, vocabulary.len()]);
            let dict = exchange::export(&model, &vocabulary).expect("all tensors are on the CPU");
            let (_, again) = exchange::import(&dict, &vocabulary, &device).expect("as exported");
            assert_eq!(again.hidden, sizes.hidden);
        }
    });
});
