//! The order of the three gates in packed weights.

use burn::tensor::Tensor;

/// The order of the gates in a system's packed weights. The candidate is always last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateOrder {
    /// Reset, update, candidate: this crate, PyTorch, cuDNN, TensorFlow's block cell, MPSGraph
    /// with `resetGateFirst`.
    ResetFirst,
    /// Update, reset, candidate: Keras, ONNX, oneDNN, MPSGraph's default.
    UpdateFirst,
}

impl GateOrder {
    /// Reorders blocks along `dim` from this order to r, z, n, or back: each order is its own inverse. `dim` may
    /// contain several sets of three blocks.
    ///
    /// # Panics
    /// If `dim` is not divisible by three times `sets`.
    ///
    /// ```
    /// use burn::tensor::{Device, Tensor};
    /// use gru_op::GateOrder;
    ///
    /// // The biases of two units, z z r r n n.
    /// let keras = Tensor::<1>::from_floats([3.0, 4.0, 1.0, 2.0, 5.0, 6.0], &Device::flex());
    /// let ours = GateOrder::UpdateFirst.reorder(keras, 0, 1);
    /// assert_eq!(ours.into_data().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// ```
    pub fn reorder<const D: usize>(self, tensor: Tensor<D>, dim: usize, sets: usize) -> Tensor<D> {
        let size = tensor.dims()[dim];
        assert!(
            sets > 0 && size.is_multiple_of(3 * sets),
            "GateOrder::reorder: dimension {dim} must contain {sets} sets of three gates, expected a \
             multiple of {}, got {size}",
            3 * sets
        );
        if self == Self::ResetFirst || tensor.dims().contains(&0) {
            return tensor;
        }
        let block = size / (3 * sets);
        let blocks = (0..sets).flat_map(|set| [1, 0, 2].map(|gate| 3 * set + gate));
        let parts = blocks.map(|k| tensor.clone().narrow(dim, k * block, block));
        Tensor::cat(parts.collect(), dim)
    }
}
