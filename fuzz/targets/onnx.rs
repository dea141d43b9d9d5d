//! ONNX models are read or rejected. Each GRU of a model is imported or rejected. An imported GRU is
//! written and read again.
#![cfg_attr(fuzzing, no_main)]

use burn::tensor::Device;
use gru_convert::onnx::{Model, ModelInputs, model};
use gru_fuzz::{fuzz_target, limit::limited};

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = limited(bytes, || Model::from_bytes(bytes.to_vec())) else {
        return;
    };
    for gru in file.grus() {
        let block = limited(bytes, || file.import(gru.name(), &Device::flex()));
        let Ok(block) = block else {
            continue;
        };
        let written =
            model(&block, ModelInputs::default()).expect("an imported block can be written");
        let again = Model::from_bytes(written).expect("a written model can be read");
        let config = again.config("gru.0").expect("one GRU");
        assert_eq!(
            (config.d_input, config.d_hidden),
            (block.d_input, block.d_hidden)
        );
    }
});
