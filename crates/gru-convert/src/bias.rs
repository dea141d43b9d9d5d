//! The biases of a layer in the forms of other systems.

use burn::tensor::Tensor;
use gru_op::{GruBlock, GruWeights, Reset};

/// Whether any layer has a bias. If so, a system with biases has them in all layers, with zeros where
/// there is none.
pub(crate) fn any(block: &GruBlock) -> bool {
    let mut layers = block.layers.iter();
    layers.any(|layer| layer.b_ih.is_some() || layer.b_hh.is_some())
}

/// Zeros with the type and device of the weights.
pub(crate) fn zeros(weights: &GruWeights, len: usize) -> Tensor<1> {
    Tensor::zeros([len], (&weights.w_hh.device(), weights.w_hh.dtype()))
}

/// Both biases as `[3H]`, zeros if absent.
pub(crate) fn both(weights: &GruWeights) -> (Tensor<1>, Tensor<1>) {
    let [_, gates] = weights.w_hh.dims();
    let or_zeros = |b: &Option<Tensor<1>>| b.clone().unwrap_or_else(|| zeros(weights, gates));
    (or_zeros(&weights.b_ih), or_zeros(&weights.b_hh))
}

/// One bias `[3H]` of the gates. If the reset gate acts after the product, also the candidate's
/// recurrent bias `[H]`, which the reset gate multiplies too. All other biases only add. Each is absent
/// if it is not needed.
pub(crate) fn joined(weights: &GruWeights, reset: Reset) -> (Option<Tensor<1>>, Option<Tensor<1>>) {
    let [h, _] = weights.w_hh.dims();
    match (&weights.b_hh, reset) {
        (None, _) => (weights.b_ih.clone(), None),
        (Some(b_hh), Reset::AfterMatmul) => {
            let (b_ih, _) = both(weights);
            let gates = Tensor::cat(vec![b_hh.clone().narrow(0, 0, 2 * h), zeros(weights, h)], 0);
            (Some(b_ih + gates), Some(b_hh.clone().narrow(0, 2 * h, h)))
        }
        (Some(_), Reset::BeforeMatmul) => {
            let (b_ih, b_hh) = both(weights);
            (Some(b_ih + b_hh), None)
        }
    }
}
