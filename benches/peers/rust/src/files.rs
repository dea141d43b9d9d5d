//! rten with any ONNX model, as an engine of `tests/onnx/runtime.py`.

use std::{fs, path::Path};

use rten::{Model, Value};
use rten_tensor::{Tensor, prelude::*};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::Result;

/// Reads the inputs by name from a safetensors file, and writes the outputs in their order.
pub fn run(model: &Path, inputs: &Path, outputs: &Path) -> Result<()> {
    let model = Model::load_file(model)?;
    let bytes = fs::read(inputs)?;
    let tensors = SafeTensors::deserialize(&bytes)?;
    let mut arguments = Vec::new();
    for (name, view) in tensors.tensors() {
        let words = view.data().chunks(view.dtype().bitsize() / 8);
        // rten has integers of 32 bits.
        let words = words.map(|word| [word[0], word[1], word[2], word[3]]);
        let value: Value = if view.dtype() == Dtype::F32 {
            let floats: Vec<_> = words.map(f32::from_le_bytes).collect();
            Tensor::from_data(view.shape(), floats).into()
        } else {
            let integers: Vec<_> = words.map(i32::from_le_bytes).collect();
            Tensor::from_data(view.shape(), integers).into()
        };
        arguments.push((model.node_id(&name)?, value.into()));
    }
    let mut results = Vec::new();
    for value in model.run(arguments, model.output_ids(), None)? {
        let tensor: Tensor<f32> = value.try_into()?;
        let floats = tensor.to_vec().into_iter();
        let bytes: Vec<u8> = floats.flat_map(f32::to_le_bytes).collect();
        results.push((tensor.shape().to_vec(), bytes));
    }
    let views = results.iter().enumerate().map(|(k, (shape, bytes))| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
        (format!("{k:02}"), view.expect("a tensor"))
    });
    Ok(safetensors::serialize_to_file(views, None, outputs)?)
}
