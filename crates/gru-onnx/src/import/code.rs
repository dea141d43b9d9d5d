//! The generated code: a field, and a call.

use super::gru::{Gru, failed, input};
use burn_onnx::ext::{
    ArgType, Argument, CodegenContext, Field, ProcessError, arg_to_ident,
    proc_macro2::{Ident, Literal, Span, TokenStream},
    quote::{ToTokens, quote},
};
use gru_spec::{Activation, Activations, Direction, Layout, Precision, Reset};

/// The block as a field of the model. `init` is a whole statement.
pub(crate) fn field(gru: &Gru<'_>, precision: Option<Precision>) -> Field {
    let name = Ident::new(gru.name, Span::call_site());
    let block = block(gru);
    let Some(precision) = precision else {
        let init = quote! { let #name = #block; };
        return Field::new(gru.name, quote! { gru_convert::gru_op::GruBlock }, init);
    };
    let precision = variant(precision);
    let init = quote! {
        let #name = gru_convert::onnx::PreparedBlock::new(
            #block,
            gru_convert::gru_op::Precision::#precision,
        );
    };
    Field::new(gru.name, quote! { gru_convert::onnx::PreparedBlock }, init)
}

/// An expression for the block.
fn block(gru: &Gru<'_>) -> TokenStream {
    let config = config(gru);
    match &gru.specs[..] {
        [forward, reverse] if forward.activations != reverse.activations => {
            let activations = activations(reverse.activations);
            quote! {
                {
                    let config = #config;
                    let mut reverse = config.layer_options();
                    reverse.spec.activations = #activations;
                    let per_layer = vec![config.layer_options(), reverse];
                    config.with_per_layer(per_layer).init(device)
                }
            }
        }
        _ => quote! { #config.init(device) },
    }
}

/// The configuration, without the options that have their default value.
fn config(gru: &Gru<'_>) -> TokenStream {
    let [i, h] = [gru.d_input, gru.d_hidden].map(Literal::usize_unsuffixed);
    let spec = &gru.specs[0];
    let mut config = quote! { gru_convert::gru_op::GruBlockConfig::new(#i, #h) };
    match gru.directions {
        [Direction::Forward] => {}
        [_] => config.extend(quote! { .with_reverse(true) }),
        _ => config.extend(quote! { .with_bidirectional(true) }),
    }
    if gru.layout == Layout::TimeMajor {
        config.extend(quote! { .with_batch_first(false) });
    }
    if gru.b.is_none() {
        config.extend(quote! { .with_bias(false) });
    }
    if spec.reset == Reset::BeforeMatmul {
        config.extend(quote! { .with_reset(gru_convert::gru_op::Reset::BeforeMatmul) });
    }
    if spec.activations != Activations::default() {
        let activations = activations(spec.activations);
        config.extend(quote! { .with_activations(#activations) });
    }
    // An infinite bound bounds nothing.
    if let Some(clip) = spec.clip_gates.filter(|clip| clip.is_finite()) {
        let clip = Literal::f64_unsuffixed(clip);
        config.extend(quote! { .with_clip_gates(Some(#clip)) });
    }
    config
}

fn activations(all: Activations) -> TokenStream {
    let [reset, update, candidate] = all.into_array().map(activation);
    quote! {
        gru_convert::gru_op::Activations { reset: #reset, update: #update, candidate: #candidate }
    }
}

fn activation(activation: Activation) -> TokenStream {
    let variant = variant(activation);
    quote! { gru_convert::gru_op::Activation::#variant }
}

/// `Debug` prints a variant as Rust writes it, and floats so that they read back unchanged.
fn variant(value: impl std::fmt::Debug) -> TokenStream {
    format!("{value:?}").parse().expect("a variant")
}

/// The call in `forward`.
pub(crate) fn call(
    gru: &Gru<'_>,
    ctx: &mut CodegenContext<'_, '_>,
) -> Result<TokenStream, ProcessError> {
    let name = Ident::new(gru.name, Span::call_site());
    let mut argument = |at: usize| gru.input(at).map(|input| (ctx.arg(input), input));
    let (x, _) = argument(input::X).ok_or_else(|| failed("X: expected an input, got none"))?;
    let lengths = argument(input::SEQUENCE_LENS);
    let initial_h = match argument(input::INITIAL_H) {
        Some((state, _)) => quote! { Some(#state) },
        None => quote! { None },
    };
    let output = |at: usize| match gru.output(at) {
        Some(output) => arg_to_ident(output).into_token_stream(),
        None => quote! { _ },
    };
    let (y, y_h) = (output(0), output(1));
    let run = match lengths {
        None => quote! { run(&self.#name, #x, None, #initial_h) },
        Some((lengths, argument)) => of_lengths(&name, x, lengths, argument, initial_h)?,
    };
    Ok(quote! { let (#y, #y_h) = gru_convert::onnx::#run; })
}

fn of_lengths(
    name: &Ident,
    x: TokenStream,
    lengths: TokenStream,
    argument: &Argument,
    initial_h: TokenStream,
) -> Result<TokenStream, ProcessError> {
    match &argument.ty {
        ArgType::Tensor(tensor) if tensor.rank == 1 && !tensor.dtype.is_float() => {
            Ok(quote! { run_with_lengths(&self.#name, #x, #lengths, #initial_h) })
        }
        // A shape is an array on the host.
        ArgType::Shape(_) => Ok(quote! {
            run(&self.#name, #x, Some(&#lengths.map(|length| usize::try_from(length).unwrap_or(0))), #initial_h)
        }),
        other => Err(failed(format!(
            "sequence_lens: expected a tensor of integers of rank 1, got {other:?}"
        ))),
    }
}
