//! cuDNN's GRU by its `linLayerID`: `w0`, `w1`, `w2` `[H,I]` are the input matrices of r, z, n,
//! `w3`, `w4`, `w5` `[H,H]` the recurrent ones, `b0` to `b5` `[H]` their biases
//! (`CUDNN_RNN_DOUBLE_BIAS`), as `cudnnGetRNNWeightParams` hands them out for one pseudo-layer.
//!
//! The reset gate acts after the product, and the order is PyTorch's.

use super::{ConvertError, StateDict, both_biases, w_ih};
use crate::GruWeights;
use burn::tensor::{Device, Tensor};

const SYSTEM: &str = "cuDNN";

/// The weights of one pseudo-layer (one direction of one layer). Without `b0` it has no biases.
///
/// # Errors
/// If a key is missing or unexpected, or an array has not the shape or dtype of such a layer.
pub fn import(dict: &StateDict, prefix: &str, device: &Device) -> Result<GruWeights, ConvertError> {
    dict.expect_only(
        prefix,
        &[
            "w0", "w1", "w2", "w3", "w4", "w5", "b0", "b1", "b2", "b3", "b4", "b5",
        ],
        "a pseudo-layer has w0 to w5 and b0 to b5",
    )?;
    let key = |kind: &str, id: usize| format!("{prefix}{kind}{id}");
    let [h, i] = dict.shape(&key("w", 0))?;
    let matrix = |first: usize, inputs: usize| -> Result<Tensor<2>, ConvertError> {
        let gates = (first..first + 3).map(|id| dict.tensor(&key("w", id), [h, inputs], device));
        let gates: Vec<Tensor<2>> = gates.collect::<Result<_, _>>()?;
        Ok(Tensor::cat(gates, 0).transpose())
    };
    let bias = |first: usize| -> Result<Option<Tensor<1>>, ConvertError> {
        if dict.get(&key("b", 0)).is_none() {
            return Ok(None);
        }
        let gates = (first..first + 3).map(|id| dict.tensor(&key("b", id), [h], device));
        let gates: Vec<Tensor<1>> = gates.collect::<Result<_, _>>()?;
        Ok(Some(Tensor::cat(gates, 0)))
    };
    Ok(GruWeights {
        w_ih: Some(matrix(0, i)?),
        w_hh: matrix(3, h)?,
        b_ih: bias(0)?,
        b_hh: bias(3)?,
    })
}

/// The arrays of one pseudo-layer with these weights.
///
/// # Errors
/// If there is no `w_ih`, or a tensor cannot be read back from its device.
pub fn export(weights: &GruWeights, prefix: &str) -> Result<StateDict, ConvertError> {
    let [h, _] = weights.w_hh.dims();
    let mut dict = StateDict::new();
    for (first, matrix) in [(0, w_ih(SYSTEM, weights)?), (3, weights.w_hh.clone())] {
        for gate in 0..3 {
            let rows = matrix.clone().narrow(1, gate * h, h).transpose();
            dict.put(format!("{prefix}w{}", first + gate), rows)?;
        }
    }
    if let Some((b_ih, b_hh)) = both_biases(weights) {
        for (first, bias) in [(0, b_ih), (3, b_hh)] {
            for gate in 0..3 {
                let part = bias.clone().narrow(0, gate * h, h);
                dict.put(format!("{prefix}b{}", first + gate), part)?;
            }
        }
    }
    Ok(dict)
}
