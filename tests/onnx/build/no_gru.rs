//! GRUs that return zeros, to measure the rest of a model.

use burn_onnx::ext::{
    Argument, CodegenContext, Node, NodeType, OpOverride, ProcessError, arg_to_ident,
    proc_macro2::TokenStream,
    quote::{ToTokens, quote},
};
use gru_onnx::GruOverride;

pub struct NoGru;

impl OpOverride for NoGru {
    fn target(&self) -> NodeType {
        GruOverride::new().target()
    }

    /// The models here have `layout = 0`.
    fn forward(
        &self,
        node: &Node,
        ctx: &mut CodegenContext<'_, '_>,
    ) -> Result<TokenStream, ProcessError> {
        let Node::Gru(gru) = node else {
            unreachable!("the target is GRU");
        };
        let (h, d) = (
            gru.config.hidden_size,
            gru.config.direction.num_directions(),
        );
        let x = ctx.arg(&gru.inputs[0]);
        let output = |output: Option<&Argument>| match output.filter(|o| !o.name.is_empty()) {
            Some(output) => arg_to_ident(output).into_token_stream(),
            None => quote! { _ },
        };
        let (y, y_h) = (output(gru.outputs.first()), output(gru.outputs.get(1)));
        Ok(quote! {
            let (#y, #y_h) = {
                let x = #x;
                let [t, n, _] = x.dims();
                (Tensor::<4>::zeros([t, #d, n, #h], &x.device()), Tensor::<3>::zeros([#d, n, #h], &x.device()))
            };
        })
    }
}
