//! Code for the GRUs of a model.

mod code;
mod gru;
mod mark;
#[cfg(test)]
mod tests;
mod weights;

pub use self::mark::{MarkError, mark_grus};

use self::gru::{Gru, sequence_dtype};
use burn_onnx::ext::{
    ArgType, CodegenContext, CustomNode, CustomOp, Field, Node, NodeType, OpOverride, PackTensor,
    ProcessError, TensorType, proc_macro2::TokenStream,
};
use gru_spec::Precision;

/// Generates a `GruBlock` for a GRU.
///
/// Register it by `register_op_override` for a model file, by `register_custom_op` for a copy of
/// [`mark_grus`].
#[derive(Debug, Clone, Copy, Default)]
pub struct GruOverride {
    /// Of a prepared block.
    precision: Option<Precision>,
}

impl GruOverride {
    /// An override for training and inference.
    pub const fn new() -> Self {
        Self { precision: None }
    }

    /// An override for inference. It generates `gru_convert::onnx::PreparedBlock`: the first call prepares the weights
    /// with this precision. Other precisions than [`Precision::Full`] require Flex or ndarray.
    pub const fn prepared(precision: Precision) -> Self {
        Self {
            precision: Some(precision),
        }
    }
}

impl OpOverride for GruOverride {
    fn target(&self) -> NodeType {
        NodeType::Gru
    }

    fn forward(
        &self,
        node: &Node,
        ctx: &mut CodegenContext<'_, '_>,
    ) -> Result<TokenStream, ProcessError> {
        code::call(&Gru::built_in(node)?, ctx)
    }

    fn field(&self, node: &Node) -> Result<Option<Field>, ProcessError> {
        Ok(Some(code::field(&Gru::built_in(node)?, self.precision)))
    }

    fn collect_tensors(&self, node: &Node, field: &str) -> Result<Vec<PackTensor>, ProcessError> {
        let gru = Gru::built_in(node)?;
        Ok(weights::tensors(&gru, field, self.precision))
    }
}

impl CustomOp for GruOverride {
    fn op_type(&self) -> &str {
        "GRU"
    }

    fn domain(&self) -> &str {
        mark::DOMAIN
    }

    fn infer_output_types(&self, node: &CustomNode) -> Result<Vec<ArgType>, ProcessError> {
        output_types(node)
    }

    fn forward(
        &self,
        node: &CustomNode,
        ctx: &mut CodegenContext<'_, '_>,
    ) -> Result<TokenStream, ProcessError> {
        code::call(&Gru::marked(node)?, ctx)
    }

    fn field(&self, node: &CustomNode) -> Result<Option<Field>, ProcessError> {
        Ok(Some(code::field(&Gru::marked(node)?, self.precision)))
    }

    fn collect_tensors(
        &self,
        node: &CustomNode,
        field: &str,
    ) -> Result<Vec<PackTensor>, ProcessError> {
        let gru = Gru::marked(node)?;
        Ok(weights::tensors(&gru, field, self.precision))
    }
}

/// `Y` and `Y_h`.
fn output_types(node: &CustomNode) -> Result<Vec<ArgType>, ProcessError> {
    let dtype = sequence_dtype(&node.inputs)?;
    let tensor = |rank| ArgType::Tensor(TensorType::new(dtype, rank, None));
    Ok([4, 3].map(tensor)[..node.outputs.len().min(2)].to_vec())
}
