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
        let words = || view.data().chunks(view.dtype().bitsize() / 8);
        let value: Value = match view.dtype() {
            Dtype::F32 => {
                let floats = words().map(|word| Ok(f32::from_le_bytes(word.try_into()?)));
                Tensor::from_data(view.shape(), floats.collect::<Result<Vec<_>>>()?).into()
            }
            // rten has integers of 32 bits.
            _ => {
                let integers = words().map(|word| Ok(i32::from_le_bytes(word[..4].try_into()?)));
                Tensor::from_data(view.shape(), integers.collect::<Result<Vec<_>>>()?).into()
            }
        };
        arguments.push((model.node_id(&name)?, value.into()));
    }
    let results = model.run(arguments, model.output_ids(), None)?;
    let results = results.into_iter().enumerate().map(|(k, value)| {
        let tensor: Tensor<f32> = value.try_into()?;
        let bytes: Vec<u8> = tensor.to_vec().into_iter().flat_map(f32::to_le_bytes).collect();
        Ok((format!("{k:02}"), tensor.shape().to_vec(), bytes))
    });
    let results = results.collect::<Result<Vec<_>>>()?;
    let views = results.iter().map(|(name, shape, bytes)| {
        Ok((name, TensorView::new(Dtype::F32, shape.clone(), bytes)?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    Ok(safetensors::serialize_to_file(views, None, outputs)?)
}
