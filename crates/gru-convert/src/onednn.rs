//! oneDNN's GRU and LBR-GRU in the plain layout `ldigo`: `weights_layer [L,D,I,3,H]`, `weights_iter
//! [L,D,H,3,H]` and an optional `bias [L,D,3,H]`. For LBR (linear before reset), the bias is `[L,D,4,H]`
//! with the candidate's recurrent bias last. oneDNN's gates u, r, o are z, r, n of gru-op.
//!
//! In oneDNN, layers above the first require I = H. Its directions are two separate stacks that are
//! joined after the last layer, but a [`GruBlock`] joins them after every layer. So several layers are
//! possible only with one direction. Other stacks are several primitives in oneDNN, and several blocks
//! with one layer in gru-op. Source: <https://uxlfoundation.github.io/oneDNN/dev_guide_rnn.html>.
//!
//! ```
//! # fn main() -> Result<(), gru_convert::ConvertError> {
//! use gru_convert::onednn;
//! use gru_op::{GruBlockConfig, Reset};
//! # let device = burn::tensor::Device::flex();
//! # let gru = GruBlockConfig::new(16, 16).with_num_layers(2).init(&device);
//! let dict = onednn::export(&gru, "")?;
//! assert_eq!(dict.get("bias").unwrap().shape()[..], [2, 1, 4, 16]);
//! let config = onednn::config(&dict, "")?;
//! assert_eq!(config.reset, Reset::AfterMatmul); // LBR, by its four biases
//! let gru = onednn::import(&dict, "", &config, &device)?;
//! # Ok(()) }
//! ```

use crate::{
    bias,
    error::ConvertError,
    state_dict::StateDict,
    system::{PLAIN, System, matrices},
};
use burn::tensor::{Device, Tensor};
use gru_op::{GateOrder, GruBlock, GruBlockConfig, GruWeights, Reset};

const SYSTEM: System = System {
    name: "oneDNN",
    layers: true,
    bidirectional: true,
    reverse: true,
    ..PLAIN
};
const ORDER: GateOrder = GateOrder::UpdateFirst;

/// The configuration of the primitive with the arrays under `prefix`: sizes, layers, directions and
/// biases. The number of biases shows whether the primitive is LBR ([`Reset::AfterMatmul`]). Without a
/// bias the result is the vanilla GRU ([`Reset::BeforeMatmul`]). Set it with `with_reset`. The layout is
/// time-major. `right2left` is `with_reverse(true)`.
///
/// # Errors
/// If a key is missing or unexpected, or if an array does not have the shape of a primitive that a block
/// can represent.
pub fn config(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    dict.expect_only(
        prefix,
        &["weights_layer", "weights_iter", "bias"],
        "a GRU has weights_layer, weights_iter and bias",
    )?;
    let key = |name: &str| format!("{prefix}{name}");
    let form = |name: &str, expected, actual: &[usize]| ConvertError::Form {
        name: key(name),
        expected,
        actual: actual.to_vec(),
    };
    let shape: [usize; 5] = dict.shape(&key("weights_layer"))?;
    let [layers, directions, i, _, h] = shape;
    if directions > 2 {
        return Err(form("weights_layer", "[L, 1 or 2, I, 3, H]", &shape));
    }
    if layers > 1 && (directions, i) != (1, h) {
        let expected = "[L, 1, H, 3, H] of several layers";
        return Err(form("weights_layer", expected, &shape));
    }
    let bias = dict.get(&key("bias")).map(|bias| bias.shape().to_vec());
    let reset = match bias.as_deref() {
        None | Some([_, _, 3, _]) => Reset::BeforeMatmul,
        Some([_, _, 4, _]) => Reset::AfterMatmul,
        Some(other) => {
            return Err(form("bias", "[L, D, 3, H] or [L, D, 4, H]", other));
        }
    };
    Ok(GruBlockConfig::new(i, h)
        .with_num_layers(layers)
        .with_bidirectional(directions == 2)
        .with_bias(bias.is_some())
        .with_reset(reset)
        .with_batch_first(false))
}

/// The primitive with the arrays under `prefix`, as a block with `config`.
///
/// # Errors
/// If a key is missing or unexpected, if an array does not have the shape or dtype of such a primitive,
/// or if `config` does not match.
pub fn import(
    dict: &StateDict,
    prefix: &str,
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    let found = self::config(dict, prefix)?;
    SYSTEM.check_config(config, &found)?;
    let (entries, i, h) = (found.layer_count(), found.d_input, found.d_hidden);
    let (l, biases) = (found.num_layers, biases(found.reset));
    let d = entries / l;
    let key = |name: &str| format!("{prefix}{name}");
    // Layers and directions have the order of the block's layers.
    let matrices = |name: &str, rows: usize| -> Result<Tensor<3>, ConvertError> {
        let all: Tensor<5> = dict.tensor(&key(name), [l, d, rows, 3, h], device)?;
        Ok(ORDER.reorder(all.reshape([entries, rows, 3 * h]), 2, 1))
    };
    let (w_layer, w_iter) = (matrices("weights_layer", i)?, matrices("weights_iter", h)?);
    let bias: Option<Tensor<4>> = found
        .bias
        .then(|| dict.tensor(&key("bias"), [l, d, biases, h], device))
        .transpose()?;
    let bias = bias.map(|bias| bias.reshape([entries, biases * h]));
    let of_candidate = |b: Tensor<1>| {
        let of_gates = Tensor::zeros([2 * h], (&b.device(), b.dtype()));
        Tensor::cat(vec![of_gates, b], 0)
    };
    let weights = (0..entries).map(|k| {
        let one = |all: &Tensor<3>| all.clone().narrow(0, k, 1).squeeze_dim::<2>(0);
        let bias = |from, len| -> Option<Tensor<1>> {
            let all: Tensor<2> = bias.clone()?.narrow(0, k, 1).narrow(1, from, len);
            Some(all.squeeze_dim(0))
        };
        GruWeights {
            w_ih: Some(one(&w_layer)),
            w_hh: one(&w_iter),
            b_ih: bias(0, 3 * h).map(|b| ORDER.reorder(b, 0, 1)),
            b_hh: (biases == 4)
                .then(|| bias(3 * h, h))
                .flatten()
                .map(of_candidate),
        }
    });
    Ok(config.init_with(weights.collect())?)
}

/// The arrays of a primitive that computes the same as `block`. A bias without a counterpart is added to
/// another bias.
///
/// # Errors
/// If there is no such primitive: several layers in both directions or with I other than H, another
/// update rule, an activation, a clip, or zoneout. Also if a tensor cannot be read from its device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<StateDict, ConvertError> {
    SYSTEM.check_block(block)?;
    let (l, d, i, h) = (
        block.num_layers,
        block.directions(),
        block.d_input,
        block.d_hidden,
    );
    if l > 1 && (d, i) != (1, h) {
        return Err(SYSTEM.lacks("several layers in both directions or with I other than H"));
    }
    let layers = block.layers.iter();
    let columns = |k: usize| {
        let columns = layers.clone().map(move |layer| {
            let columns = matrices(layer)[k].clone();
            ORDER.reorder(columns, 1, 1)
        });
        columns.collect::<Vec<Tensor<2>>>()
    };
    let [w_layer, w_iter] = [0, 1].map(columns);
    let bias = layers.map(|layer| {
        let (weights, reset) = (layer.weights(), layer.spec.reset);
        let (b, b_n) = bias::joined(&weights, reset);
        let b = b.unwrap_or_else(|| bias::zeros(&weights, 3 * h));
        let b = ORDER.reorder(b, 0, 1);
        match reset {
            Reset::BeforeMatmul => b,
            Reset::AfterMatmul => {
                let b_n = b_n.unwrap_or_else(|| bias::zeros(&weights, h));
                Tensor::cat(vec![b, b_n], 0)
            }
        }
    });
    let key = |name: &str| format!("{prefix}{name}");
    let mut dict = StateDict::new();
    let w_layer: Tensor<3> = Tensor::stack(w_layer, 0);
    dict.put(key("weights_layer"), w_layer.reshape([l, d, i, 3, h]))?;
    let w_iter: Tensor<3> = Tensor::stack(w_iter, 0);
    dict.put(key("weights_iter"), w_iter.reshape([l, d, h, 3, h]))?;
    if bias::any(block) {
        let bias: Tensor<2> = Tensor::stack(bias.collect(), 0);
        let biases = biases(block.layers[0].spec.reset);
        dict.put(key("bias"), bias.reshape([l, d, biases, h]))?;
    }
    Ok(dict)
}

/// The number of rows of the bias.
fn biases(reset: Reset) -> usize {
    match reset {
        Reset::AfterMatmul => 4,
        Reset::BeforeMatmul => 3,
    }
}
