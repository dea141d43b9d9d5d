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
//! assert_eq!(config.spec.reset, Reset::AfterMatmul); // LBR, by its four biases
//! let gru = onednn::import(&dict, "", &config, &device)?;
//! # Ok(()) }
//! ```

use crate::{
    arrays::{self, Array, Form::*, N, Parameter::*, ZRN},
    error::ConvertError,
    looks::{Layer, Names, explained},
    state_dict::StateDict,
    system::{PLAIN, System},
};
use burn::tensor::Device;
use gru_op::{GruBlock, GruBlockConfig, Reset};

const SYSTEM: System = System {
    name: "oneDNN",
    layers: true,
    bidirectional: true,
    reverse: true,
    ..PLAIN
};

/// Primitives by their recurrent weight `[L,D,H,G,H]`.
pub(crate) const LOOKS: Names = Names {
    module: "onednn",
    layer: |dict, key| {
        let prefix = key.strip_suffix("weights_iter")?;
        match dict.get(key)?.shape()[..] {
            [_, _, h, gates, _] => Some(Layer::new(prefix, gates.saturating_mul(h), h)),
            _ => None,
        }
    },
    check: |dict, prefix| arrays::check(dict, &arrays(prefix, &read(dict, prefix)?)),
};

/// The configuration of the primitive with the arrays under `prefix`: sizes, layers, directions and
/// biases. The number of biases shows whether the primitive is LBR ([`Reset::AfterMatmul`]). Without a
/// bias the result is the vanilla GRU ([`Reset::BeforeMatmul`]). Set it with `with_reset`. The layout is
/// time-major. `right2left` is `with_reverse(true)`.
///
/// # Errors
/// If a key is missing or unexpected, or if an array does not have the shape of a primitive that a block
/// can represent.
pub fn config(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    read(dict, prefix).map_err(|error| explained(error, dict, prefix, &LOOKS))
}

fn read(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
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
    arrays::import(dict, &arrays(prefix, &found), config, device)
}

/// The arrays of a primitive that computes the same as `block`. A bias without a counterpart is added to
/// another bias.
///
/// # Errors
/// If there is no such primitive: several layers in both directions or with I other than H, another
/// update rule, an activation, a clip, or zoneout. Also if a tensor cannot be read from its device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<StateDict, ConvertError> {
    SYSTEM.check_block(block)?;
    let stack = (block.directions(), block.d_input);
    if block.num_layers > 1 && stack != (1, block.d_hidden) {
        return Err(SYSTEM.lacks("several layers in both directions or with I other than H"));
    }
    arrays::export(&block.layers, &arrays(prefix, &block.config()))
}

/// Layers and directions have the order of the block's layers.
fn arrays(prefix: &str, config: &GruBlockConfig) -> Vec<Array> {
    let (l, all, h) = (config.num_layers, 0..config.layer_count(), config.d_hidden);
    let (d, i) = (all.len() / l, config.d_input);
    let array = |name, shape, parts| (format!("{prefix}{name}"), shape, all.clone(), parts);
    let gates = (InputBias, ZRN, Columns);
    let bias = match config.layer_spec(0).reset {
        Reset::BeforeMatmul => array("bias", vec![l, d, 3, h], vec![gates]),
        Reset::AfterMatmul => {
            let candidate = (RecurrentBias, N, Columns);
            array("bias", vec![l, d, 4, h], vec![gates, candidate])
        }
    };
    let input = vec![(Input, ZRN, Columns)];
    let recurrent = vec![(Recurrent, ZRN, Columns)];
    let mut arrays = vec![
        array("weights_layer", vec![l, d, i, 3, h], input),
        array("weights_iter", vec![l, d, h, 3, h], recurrent),
    ];
    arrays.extend(config.bias.then_some(bias));
    arrays
}
