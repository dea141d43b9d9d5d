//! TensorFlow's and Apple's operators on empty batches.

use super::{H, I, counted};
use crate::runs::{expect_shape, values};
use burn::tensor::{Device, Tensor};
use gru_op::{
    Update,
    mps_graph::{self, GruDescriptor},
    tensorflow,
};

/// Both without rows.
pub fn no_rows(device: &Device) -> Result<(), String> {
    let (x, h) = (|| counted([0, I], device), || counted([0, H], device));
    let w_ru = || counted([I + H, 2 * H], device);
    let w_c = || counted([I + H, H], device);
    let (b_ru, b_c) = (|| counted([2 * H], device), || counted([H], device));
    for device in [device.clone(), device.clone().inner()] {
        let (r, u, c, new) = if device.is_autodiff() {
            tensorflow::gru_block_cell(x(), h(), w_ru(), w_c(), b_ru(), b_c())
        } else {
            let [x, h, w_ru, w_c] = [x(), h(), w_ru(), w_c()].map(Tensor::inner);
            tensorflow::gru_block_cell(x, h, w_ru, w_c, b_ru().inner(), b_c().inner())
        };
        for (name, gate) in [("r", r), ("u", u), ("c", c), ("h", new)] {
            expect_shape(name, &gate, [0, H])?;
        }
    }
    let (d_x, d_h, d_c, d_ru) =
        tensorflow::gru_block_cell_grad(x(), h(), w_ru(), w_c(), b_ru(), b_c(), h(), h(), h(), h());
    expect_shape("d_x", &d_x, [0, I])?;
    expect_shape("d_h_prev", &d_h, [0, H])?;
    let d = tensorflow::gru_block_cell_weight_grad(x(), h(), h(), d_c, d_ru);
    if values(d.d_w_ru)
        .iter()
        .chain(&values(d.d_b_ru))
        .any(|&d| d != 0.0)
    {
        return Err("expected gradients of zeros".into());
    }

    let mut descriptor = GruDescriptor::new(Update::Keeps);
    (descriptor.training, descriptor.reset_after) = (true, true);
    let source = || counted([3, 0, 3 * H], device);
    let weight = || counted([3 * H, H], device);
    let results = mps_graph::gru(
        source(),
        weight(),
        None,
        None,
        None,
        None,
        None,
        &descriptor,
    );
    let [y, z] = [results[0].clone(), results[1].clone()];
    let d = mps_graph::gru_gradients(
        source(),
        weight(),
        y.clone(),
        z,
        y,
        Some(h()),
        None,
        None,
        None,
        None,
        None,
        &descriptor,
    );
    expect_shape("the gradient of the source", &d.source, [3, 0, 3 * H])
}
