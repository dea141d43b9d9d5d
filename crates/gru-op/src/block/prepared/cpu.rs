//! Prepares a block on Flex and ndarray.

use crate::{GruBlock, GruError, backend::cpu::Floats, op::options::GruWeights};
use burn::{backend::TensorMetadata, tensor::DType};
use gru_cpu::{CallError, Stack, StackLayer};
use gru_spec::Precision;

/// Packs the weights of a block.
pub(super) fn stack(
    block: &GruBlock,
    weights: Vec<GruWeights>,
    precision: Precision,
) -> Result<Stack, GruError> {
    let h = block.d_hidden;
    let mut of_layers = Vec::new();
    for (k, weights) in weights.into_iter().enumerate() {
        let weights = weights.into_dispatch();
        for (name, tensor) in [
            ("w_ih", weights.w_ih.as_ref()),
            ("w_hh", Some(&weights.w_hh)),
            ("b_ih", weights.b_ih.as_ref()),
            ("b_hh", weights.b_hh.as_ref()),
        ] {
            if tensor.is_some_and(|tensor| tensor.dtype() == DType::F64) {
                let name = format!("layers.{k}.{name}");
                return Err(GruError::Float64 { name });
            }
        }
        of_layers.push(weights.map(Floats::new));
    }
    let layers = block.layers.iter().zip(&of_layers);
    let layers: Vec<_> = layers
        .map(|(layer, weights)| StackLayer {
            spec: layer.spec,
            direction: layer.direction,
            zoneout: layer.zoneout as f32,
            weights: weights.as_ref().map(Floats::as_ref),
        })
        .collect();
    let stack = Stack::try_new(precision, [block.d_input, h], block.directions(), &layers);
    stack.map_err(|error| match error {
        CallError::NotFinite { layer, matrix } => GruError::NotFinite {
            name: format!("layers.{layer}.{matrix}"),
        },
        other => GruError::Config {
            reason: other.to_string(),
        },
    })
}
