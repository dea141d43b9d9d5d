//! crema's chord model in the `.h5` file of Keras 2: bidirectional layers with the reset gate before the product, and
//! hard sigmoids.

use super::record::Record;
use crate::{backends::TestBackend, conformance::text, runs::expect};
use burn::tensor::{Device, Tensor};
use gru_convert::{StateDict, keras, onnx};
use gru_op::{GruBlockConfig, spec::Reset};
use std::path::Path;

/// The layers and their inputs.
const LAYERS: [(&str, usize); 2] = [("bidirectional_1", 72), ("bidirectional_2", 256)];

pub fn run(root: &Path, backend: &TestBackend, device: &Device) -> Result<(), String> {
    let dict = StateDict::from_keras(root.join("crema/model.h5")).map_err(text)?;
    let record = Record::open("crema", root)?;
    let activations = keras::activations_of_keras_2("tanh", "hard_sigmoid").map_err(text)?;
    for (layer, inputs) in LAYERS {
        let prefix = format!("model_weights/{layer}/");
        let found = keras::config(&dict, &prefix).map_err(text)?;
        let expected = GruBlockConfig::new(inputs, 128)
            .with_bidirectional(true)
            .with_reset(Reset::BeforeMatmul);
        expect(layer, format!("{found:?}"), format!("{expected:?}"))?;
        let config = found.with_activations(activations).with_batch_first(false);
        let block = keras::import(&dict, &prefix, &config, device).map_err(text)?;
        let directions = ["forward", "backward"].map(|direction| format!("{layer}/{direction}"));
        let runs = directions.map(|name| record.run(&name, device));
        let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
        let initial = runs.iter().map(|run| run.initial_h.clone()).collect();
        let initial = Tensor::cat(initial, 0);
        let (y, y_h) = onnx::run(&block, runs[0].x.clone(), None, Some(initial));
        for (k, run) in runs.iter().enumerate() {
            let (y, y_h) = (y.clone().narrow(1, k, 1), y_h.clone().narrow(0, k, 1));
            run.compare(y, y_h, backend)?;
        }
    }
    Ok(())
}
