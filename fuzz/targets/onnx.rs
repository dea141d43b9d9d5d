//! ONNX models: read or refused; a GRU of one is imported or refused, and what was imported is written
//! and read again.
#![no_main]

use burn::tensor::Device;
use gru_convert::onnx::{Model, ModelInputs, model};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = Model::from_bytes(bytes.to_vec()) else {
        return;
    };
    for gru in file.grus() {
        let Ok(block) = file.import(gru.name(), &Device::flex()) else {
            continue;
        };
        let written = model(&block, ModelInputs::default()).expect("it came from there");
        let again = Model::from_bytes(written).expect("it was just written");
        let config = again.config("gru.0").expect("one GRU");
        assert_eq!(
            (config.d_input, config.d_hidden),
            (block.d_input, block.d_hidden)
        );
    }
});
