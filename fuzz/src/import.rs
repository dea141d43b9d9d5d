//! Every importer of gru-op on arrays from a file.

use burn::tensor::Device;
use gru_op::{
    GruBlockConfig, GruWeights, Reset,
    convert::{ConvertError, StateDict, cudnn, keras, onednn, onnx, pytorch, tensorflow},
};
use std::collections::BTreeSet;

/// Tries all of them on every prefix that the keys have. What one reads, its exporter writes.
pub fn import(dict: &StateDict) {
    let device = Device::flex();
    let prefix_of = |key: &str| {
        let end = key.rfind(['.', '/']).map_or(0, |at| at + 1);
        key[..end].to_owned()
    };
    let prefixes: BTreeSet<String> = dict.keys().map(prefix_of).collect();
    for prefix in prefixes {
        if let Ok(config) = pytorch::config(dict, &prefix)
            && let Ok(block) = pytorch::import(dict, &prefix, &config, &device)
        {
            same(dict, &prefix, pytorch::export(&block, &prefix));
        }
        if let Ok(weights) = pytorch::import_cell(dict, &prefix, &device) {
            same(dict, &prefix, pytorch::export_cell(&weights, &prefix));
        }
        for direction in ["forward", "reverse", "bidirectional"] {
            let attributes = onnx::Attributes {
                direction: direction.into(),
                ..Default::default()
            };
            if let Ok(config) = onnx::config(&attributes, dict, &prefix)
                && let Ok(block) = onnx::import(dict, &prefix, &config, &device)
            {
                let exported = onnx::export(&block, &prefix);
                same(dict, &prefix, exported.map(|(dict, _)| dict));
            }
        }
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            if let Ok(weights) = keras::import(dict, &prefix, reset, &device) {
                same(dict, &prefix, keras::export(&weights, &prefix, reset));
                as_block(weights);
            }
            let layers = onednn::import(dict, &prefix, reset, &device);
            layers.into_iter().flatten().for_each(as_block);
        }
        if let Ok(weights) = tensorflow::import(dict, &prefix, &device) {
            same(dict, &prefix, tensorflow::export(&weights, &prefix));
        }
        if let Ok(weights) = cudnn::import(dict, &prefix, &device) {
            same(dict, &prefix, cudnn::export(&weights, &prefix));
            as_block(weights);
        }
    }
}

/// The exported arrays have the names and shapes of the imported ones.
fn same(dict: &StateDict, prefix: &str, exported: Result<StateDict, ConvertError>) {
    let exported = exported.expect("an exporter writes what its importer read");
    for key in dict.keys().filter(|key| key.starts_with(prefix)) {
        let shape = |dict: &StateDict| dict.get(key).map(|data| data.shape().to_vec());
        assert_eq!(shape(&exported), shape(dict), "{key}");
    }
}

/// Weights that fit no block are an error, not a panic.
fn as_block(weights: GruWeights) {
    let [h, _] = weights.w_hh.dims();
    let [i, _] = weights.w_ih.as_ref().map_or([h, 0], |w| w.dims());
    let _ = GruBlockConfig::new(i, h).init_with(vec![weights]);
}
