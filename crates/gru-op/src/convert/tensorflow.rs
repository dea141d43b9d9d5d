//! The weights of TensorFlow's `GRUBlockCell`: `w_ru [I+H,2H]`, `w_c [I+H,H]`, `b_ru [2H]`,
//! `b_c [H]`, with the rows of `x` before those of `h`. The cell itself is
//! [`crate::tensorflow`].

use super::{ConvertError, StateDict, both_biases, w_ih};
use crate::GruWeights;
use burn::tensor::{Device, Tensor};

const SYSTEM: &str = "GRUBlockCell";

/// The weights under these four names, for a GRU with
/// [`Reset::BeforeMatmul`](crate::Reset::BeforeMatmul).
///
/// # Errors
/// If a key is missing or unexpected, or an array has not the shape or dtype of such a cell.
pub fn import(dict: &StateDict, prefix: &str, device: &Device) -> Result<GruWeights, ConvertError> {
    dict.expect_only(
        prefix,
        &["w_ru", "w_c", "b_ru", "b_c"],
        "a GRUBlockCell has w_ru, w_c, b_ru and b_c",
    )?;
    let key = |name: &str| format!("{prefix}{name}");
    let [rows, h] = dict.shape(&key("w_c"))?;
    let w_ru = dict.tensor(&key("w_ru"), [rows, 2 * h], device)?;
    let w_c = dict.tensor(&key("w_c"), [rows, h], device)?;
    let b_ru = dict.tensor(&key("b_ru"), [2 * h], device)?;
    let b_c = dict.tensor(&key("b_c"), [h], device)?;
    if rows < h {
        return Err(ConvertError::Shape {
            name: key("w_c"),
            expected: vec![h, h],
            actual: vec![rows, h],
        });
    }
    Ok(join(w_ru, w_c, b_ru, b_c))
}

/// The four arrays of the cell with these weights. It has one bias: a second is added to it.
///
/// # Errors
/// If there is no `w_ih`, or a tensor cannot be read back from its device.
pub fn export(weights: &GruWeights, prefix: &str) -> Result<StateDict, ConvertError> {
    let mut dict = StateDict::new();
    let [h, gates] = weights.w_hh.dims();
    let w = Tensor::cat(vec![w_ih(SYSTEM, weights)?, weights.w_hh.clone()], 0);
    let b = match both_biases(weights) {
        Some((b_ih, b_hh)) => b_ih + b_hh,
        None => Tensor::zeros([gates], (&w.device(), w.dtype())),
    };
    let key = |name: &str| format!("{prefix}{name}");
    dict.put(key("w_ru"), w.clone().narrow(1, 0, 2 * h))?;
    dict.put(key("w_c"), w.narrow(1, 2 * h, h))?;
    dict.put(key("b_ru"), b.clone().narrow(0, 0, 2 * h))?;
    dict.put(key("b_c"), b.narrow(0, 2 * h, h))?;
    Ok(dict)
}

/// Weights of the block cell, of right shapes, as the operator takes them.
pub(crate) fn join(w_ru: Tensor<2>, w_c: Tensor<2>, b_ru: Tensor<1>, b_c: Tensor<1>) -> GruWeights {
    let [rows, h] = w_c.dims();
    let w = Tensor::cat(vec![w_ru, w_c], 1);
    GruWeights {
        w_ih: Some(w.clone().narrow(0, 0, rows - h)),
        w_hh: w.narrow(0, rows - h, h),
        b_ih: Some(Tensor::cat(vec![b_ru, b_c], 0)),
        b_hh: None,
    }
}
