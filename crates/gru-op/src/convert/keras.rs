//! Keras' `layers.GRU`: `kernel`, `recurrent_kernel`, `bias`, gates in columns z, r, n.
//!
//! | Keras | here |
//! |---|---|
//! | `reset_after` | [`Reset`]; it also decides the form of the bias |
//! | `activation`, `recurrent_activation` | [`activations`] |
//! | `go_backwards` | `with_reverse(true)`; Keras' output is then in processing order: flip ours along time |
//! | `mask` | [`GruBlock::forward_masked`](crate::GruBlock::forward_masked) |
//! | `recurrent_dropout` | `with_recurrent_dropout`: one mask for all gates, where Keras draws three |
//! | `return_sequences=False` | the last step of the output; with holes in the mask and no valid step, that is zero, not the state |
//!
//! Source: <https://keras.io/api/layers/recurrent_layers/gru>.

use super::{ConvertError, GateOrder, StateDict, both_biases, w_ih};
use crate::{
    GruWeights,
    spec::{Activation, Activations, Reset},
};
use burn::tensor::Device;

const SYSTEM: &str = "Keras";
const ORDER: GateOrder = GateOrder::UpdateFirst;

/// One `layers.GRU` (or one half of a `Bidirectional`): `kernel [I,3H]`, `recurrent_kernel
/// [H,3H]`, and if it has one `bias`, `[2,3H]` with `reset_after`, else `[3H]`.
///
/// ```no_run
/// # fn main() -> Result<(), gru_op::convert::ConvertError> {
/// use gru_op::{GruBlockConfig, Reset, convert::{StateDict, keras}};
/// # let (dict, device) = (StateDict::new(), burn::tensor::Device::flex());
/// let weights = keras::import(&dict, "gru/gru_cell/", Reset::AfterMatmul, &device)?;
/// let gru = GruBlockConfig::new(8, 16)
///     .with_activations(keras::activations("tanh", "sigmoid")?)
///     .init_with(vec![weights])?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// If a key is missing or unexpected, or an array has not the shape or dtype of such a layer.
pub fn import(
    dict: &StateDict,
    prefix: &str,
    reset: Reset,
    device: &Device,
) -> Result<GruWeights, ConvertError> {
    dict.expect_only(
        prefix,
        &["kernel", "recurrent_kernel", "bias"],
        "a GRU has kernel, recurrent_kernel and bias",
    )?;
    let key = |name: &str| format!("{prefix}{name}");
    let [i, _] = dict.shape(&key("kernel"))?;
    let [h, _] = dict.shape(&key("recurrent_kernel"))?;
    let columns = |name: &str, rows: usize| -> Result<_, ConvertError> {
        let matrix = dict.tensor(&key(name), [rows, 3 * h], device)?;
        Ok(ORDER.reorder(matrix, 1, 1))
    };
    let (b_ih, b_hh) = match (dict.get(&key("bias")), reset) {
        (None, _) => (None, None),
        (Some(_), Reset::AfterMatmul) => {
            let both = columns("bias", 2)?;
            let row = |k| both.clone().narrow(0, k, 1).squeeze_dim(0);
            (Some(row(0)), Some(row(1)))
        }
        (Some(_), Reset::BeforeMatmul) => {
            let bias = dict.tensor::<1>(&key("bias"), [3 * h], device)?;
            (Some(ORDER.reorder(bias, 0, 1)), None)
        }
    };
    Ok(GruWeights {
        w_ih: Some(columns("kernel", i)?),
        w_hh: columns("recurrent_kernel", h)?,
        b_ih,
        b_hh,
    })
}

/// The arrays of the `layers.GRU` with these weights. Without `reset_after` Keras has one bias: a
/// second is added to it.
///
/// # Errors
/// If there is no `w_ih`, or a tensor cannot be read back from its device.
pub fn export(weights: &GruWeights, prefix: &str, reset: Reset) -> Result<StateDict, ConvertError> {
    let mut dict = StateDict::new();
    let key = |name: &str| format!("{prefix}{name}");
    let kernel = w_ih(SYSTEM, weights)?;
    dict.put(key("kernel"), ORDER.reorder(kernel, 1, 1))?;
    let recurrent = ORDER.reorder(weights.w_hh.clone(), 1, 1);
    dict.put(key("recurrent_kernel"), recurrent)?;
    if let Some((b_ih, b_hh)) = both_biases(weights) {
        let (b_ih, b_hh) = (ORDER.reorder(b_ih, 0, 1), ORDER.reorder(b_hh, 0, 1));
        match reset {
            Reset::AfterMatmul => {
                dict.put(
                    key("bias"),
                    burn::tensor::Tensor::stack::<2>(vec![b_ih, b_hh], 0),
                )?;
            }
            Reset::BeforeMatmul => dict.put(key("bias"), b_ih + b_hh)?,
        }
    }
    Ok(dict)
}

/// The activations of a layer, by Keras' names: `activation` of the candidate,
/// `recurrent_activation` of the two gates.
///
/// Keras 3's `hard_sigmoid` is `clamp(v/6 + 1/2, 0, 1)`.
///
/// # Errors
/// If a name is not one of linear, sigmoid, tanh, relu, hard_sigmoid, elu, leaky_relu, softsign,
/// softplus.
pub fn activations(
    activation: &str,
    recurrent_activation: &str,
) -> Result<Activations, ConvertError> {
    let gates = named("reset and update", recurrent_activation)?;
    Ok(Activations {
        reset: gates,
        update: gates,
        candidate: named("candidate", activation)?,
    })
}

fn named(gate: &'static str, name: &str) -> Result<Activation, ConvertError> {
    Ok(match name {
        "linear" => Activation::Identity,
        "sigmoid" => Activation::Sigmoid,
        "tanh" => Activation::Tanh,
        "relu" => Activation::Relu,
        "hard_sigmoid" => Activation::HardSigmoid {
            alpha: 1.0 / 6.0,
            beta: 0.5,
        },
        "elu" => Activation::Elu { alpha: 1.0 },
        // Keras 3's default slope.
        "leaky_relu" => Activation::LeakyRelu { alpha: 0.2 },
        "softsign" => Activation::Softsign,
        "softplus" => Activation::Softplus,
        other => {
            return Err(ConvertError::Activation {
                gate,
                activation: other.into(),
            });
        }
    })
}
