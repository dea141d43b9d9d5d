//! The weights in the layout of a `GruBlock`.

use super::{Precision, gru::Gru};
use burn_onnx::ext::{PackTensor, TensorData, bridge};

/// ONNX' gates are z, r, n. A block's gates are r, z, n.
const GATES: [usize; 3] = [1, 0, 2];

/// The parameters of the block in the field `field`. A prepared block is a field of this field.
pub(crate) fn tensors(gru: &Gru<'_>, field: &str, precision: Option<Precision>) -> Vec<PackTensor> {
    let block = if precision.is_some() { ".block" } else { "" };
    let (i, h) = (gru.d_input, gru.d_hidden);
    let mut all = Vec::new();
    for d in 0..gru.directions.len() {
        let mut add = |name: &str, shape: Vec<usize>, bytes: Vec<u8>, like: &TensorData| {
            let data = TensorData::from_bytes_vec(bytes, shape, like.dtype());
            all.push(bridge::from_data(
                data,
                format!("{field}{block}.layers.{d}.{name}"),
                None,
            ));
        };
        add("w_ih", vec![i, 3 * h], columns(&gru.w, d, h, i), &gru.w);
        add("w_hh", vec![h, 3 * h], columns(&gru.r, d, h, h), &gru.r);
        if let Some(b) = &gru.b {
            // A direction has the bias of the input product, then the bias of the recurrent product.
            add("b_ih", vec![3 * h], columns(b, 2 * d, h, 1), b);
            add("b_hh", vec![3 * h], columns(b, 2 * d + 1, h, 1), b);
        }
    }
    all
}

/// The `d`-th matrix `[3H, width]` of `all`, transposed to `[width, 3H]`, with a block's order of gates.
fn columns(all: &TensorData, d: usize, h: usize, width: usize) -> Vec<u8> {
    let (size, bytes) = (all.dtype().size(), all.as_bytes());
    let mut columns = Vec::with_capacity(3 * h * width * size);
    for feature in 0..width {
        for gate in GATES {
            for unit in 0..h {
                let at = (((d * 3 + gate) * h + unit) * width + feature) * size;
                columns.extend_from_slice(&bytes[at..at + size]);
            }
        }
    }
    columns
}
