//! cuDNN's GRU by `linLayerID`: `w0`, `w1`, `w2` `[H,I]` are the input matrices of r, z, n, `w3`, `w4`,
//! `w5` `[H,H]` the recurrent matrices, and `b0` to `b5` `[H]` their biases. `cudnnGetRNNWeightParams`
//! returns them for one pseudo-layer. `CUDNN_RNN_SINGLE_INP_BIAS` has only `b0` to `b2`,
//! `CUDNN_RNN_SINGLE_REC_BIAS` only `b3` to `b5`.
//!
//! The reset gate acts after the product. The gate order is PyTorch's order.
//!
//! A prefix contains one pseudo-layer: one direction of one layer. `linLayerID` does not contain the
//! number of pseudo-layers, and with I = H no shape shows it. Pseudo-layers have the order of
//! [`GruBlock::layers`], so the weights of several pseudo-layers make one block:
//!
//! ```
//! # fn main() -> Result<(), gru_convert::ConvertError> {
//! use gru_convert::cudnn;
//! use gru_op::GruBlockConfig;
//! # let device = burn::tensor::Device::flex();
//! # let one = GruBlockConfig::new(8, 16).init(&device);
//! # let mut dict = cudnn::export(&one, "0.")?;
//! # dict.extend(cudnn::export(&one, "1.")?);
//! let mut weights = Vec::new();
//! for pseudo_layer in ["0.", "1."] {
//!     let config = cudnn::config(&dict, pseudo_layer)?;
//!     let block = cudnn::import(&dict, pseudo_layer, &config, &device)?;
//!     weights.push(block.layers[0].weights());
//! }
//! let gru = GruBlockConfig::new(8, 16)
//!     .with_bidirectional(true)
//!     .init_with(weights)?;
//! # Ok(()) }
//! ```

use crate::{
    bias,
    error::ConvertError,
    state_dict::StateDict,
    system::{PLAIN, System, matrices},
};
use burn::tensor::{Device, Tensor};
use gru_op::{GruBlock, GruBlockConfig, GruWeights, Reset};

const SYSTEM: System = System {
    name: "a pseudo-layer of cuDNN",
    reset: Some(Reset::AfterMatmul),
    ..PLAIN
};

/// The configuration of the pseudo-layer under `prefix`: sizes and biases. The layout is time-major, as
/// cuDNN's default. Set it as in the original model.
///
/// # Errors
/// If a key is missing or unexpected, or an array is not a matrix.
pub fn config(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    dict.expect_only(
        prefix,
        &[
            "w0", "w1", "w2", "w3", "w4", "w5", "b0", "b1", "b2", "b3", "b4", "b5",
        ],
        "a pseudo-layer has w0 to w5 and b0 to b5",
    )?;
    let [h, i] = dict.shape(&format!("{prefix}w0"))?;
    let bias = (0..6).any(|id| dict.get(&format!("{prefix}b{id}")).is_some());
    Ok(GruBlockConfig::new(i, h)
        .with_bias(bias)
        .with_batch_first(false))
}

/// The pseudo-layer under `prefix` as a block with one layer.
///
/// # Errors
/// If a key is missing or unexpected, if an array does not have the shape or dtype of such a layer, or
/// if `config` does not match.
pub fn import(
    dict: &StateDict,
    prefix: &str,
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    let found = self::config(dict, prefix)?;
    SYSTEM.check_config(config, &found)?;
    let h = found.d_hidden;
    let matrix = |first: usize, inputs: usize| -> Result<Tensor<2>, ConvertError> {
        let gates = (first..first + 3)
            .map(|id| dict.tensor(&format!("{prefix}w{id}"), [h, inputs], device));
        let gates: Vec<Tensor<2>> = gates.collect::<Result<_, _>>()?;
        Ok(Tensor::cat(gates, 0).transpose())
    };
    let bias = |first: usize| -> Result<Option<Tensor<1>>, ConvertError> {
        let keys = (first..first + 3).map(|id| format!("{prefix}b{id}"));
        if keys.clone().all(|key| dict.get(&key).is_none()) {
            return Ok(None);
        }
        let gates = keys.map(|key| dict.tensor(&key, [h], device));
        let gates: Vec<Tensor<1>> = gates.collect::<Result<_, _>>()?;
        Ok(Some(Tensor::cat(gates, 0)))
    };
    let weights = GruWeights {
        w_ih: Some(matrix(0, found.d_input)?),
        w_hh: matrix(3, h)?,
        b_ih: bias(0)?,
        b_hh: bias(3)?,
    };
    Ok(config.init_with(vec![weights])?)
}

/// The arrays of a pseudo-layer that computes the same as `block`.
///
/// # Errors
/// If there is no such pseudo-layer: several layers or directions, another reset form, update rule or
/// activation, a clip, zoneout, or a reverse layer. Also if a tensor cannot be read from its device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<StateDict, ConvertError> {
    SYSTEM.check_block(block)?;
    let (layer, h) = (&block.layers[0], block.d_hidden);
    let mut dict = StateDict::new();
    for (first, matrix) in [0, 3].into_iter().zip(matrices(layer)) {
        for gate in 0..3 {
            let rows = matrix.clone().narrow(1, gate * h, h).transpose();
            dict.put(format!("{prefix}w{}", first + gate), rows)?;
        }
    }
    if bias::any(block) {
        let (b_ih, b_hh) = bias::both(&layer.weights());
        for (first, bias) in [(0, b_ih), (3, b_hh)] {
            for gate in 0..3 {
                let part = bias.clone().narrow(0, gate * h, h);
                dict.put(format!("{prefix}b{}", first + gate), part)?;
            }
        }
    }
    Ok(dict)
}
