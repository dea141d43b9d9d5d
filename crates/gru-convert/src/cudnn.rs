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
    arrays::{self, Array, Form::*, Parameter::*, RZN},
    error::ConvertError,
    state_dict::StateDict,
    system::{PLAIN, System},
};
use burn::tensor::Device;
use gru_op::{GruBlock, GruBlockConfig, Reset};

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
    let has = |ids: [u8; 3]| {
        let mut keys = ids.iter().map(|id| format!("{prefix}b{id}"));
        keys.any(|key| dict.get(&key).is_some())
    };
    let arrays = arrays(prefix, &found, [has([0, 1, 2]), has([3, 4, 5])]);
    arrays::import(dict, &arrays, config, device)
}

/// The arrays of a pseudo-layer that computes the same as `block`.
///
/// # Errors
/// If there is no such pseudo-layer: several layers or directions, another reset form, update rule or
/// activation, a clip, zoneout, or a reverse layer. Also if a tensor cannot be read from its device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<StateDict, ConvertError> {
    SYSTEM.check_block(block)?;
    let biases = [arrays::has_bias(block); 2];
    arrays::export(&block.layers, &arrays(prefix, &block.config(), biases))
}

/// One array for each gate.
fn arrays(prefix: &str, config: &GruBlockConfig, has_bias: [bool; 2]) -> Vec<Array> {
    let (i, h) = (config.d_input, config.d_hidden);
    let mut arrays = Vec::new();
    for id in 0..6 {
        let gate = &RZN[id % 3..][..1];
        let (weight, bias, inputs) = match id {
            0..3 => (Input, InputBias, i),
            _ => (Recurrent, RecurrentBias, h),
        };
        let array = |name, shape, parameter| {
            let key = format!("{prefix}{name}{id}");
            (key, shape, 0..1, vec![(parameter, gate, Rows)])
        };
        arrays.push(array("w", vec![h, inputs], weight));
        if has_bias[id / 3] {
            arrays.push(array("b", vec![h], bias));
        }
    }
    arrays
}
