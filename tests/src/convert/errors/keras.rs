//! Keras: arrays, activation names, and layers that Keras does not have.

use super::{super::*, ErrorCase};

/// Changes the Keras arrays of a block and imports them with a changed configuration.
fn keras_with(
    of: GruBlockConfig,
    change: impl FnOnce(&mut StateDict),
    configure: impl FnOnce(GruBlockConfig) -> GruBlockConfig,
) -> Result<(), ConvertError> {
    let mut dict = keras::export(&block(of), "")?;
    change(&mut dict);
    let config = configure(keras::config(&dict, "")?);
    keras::import(&dict, "", &config, &device()).map(|_| ())
}

pub const CASES: &[ErrorCase] = &[
    (
        "keras-other-reset",
        || {
            keras_with(
                config(),
                |_| {},
                |config| config.with_reset(Reset::BeforeMatmul),
            )
        },
        "reset of the configuration: expected AfterMatmul, as the imported GRU has it, got BeforeMatmul",
    ),
    (
        "keras-bias",
        || keras_with(config(), |d| d.insert("bias", zeros([1, 2, 3 * H])), |c| c),
        "bias: expected [3H], or [2, 3H] with reset_after, got shape [1, 2, 15]",
    ),
    (
        "keras-two-layers",
        || {
            let mut dict = keras::export(&block(config()), "gru/gru_cell/")?;
            dict.extend(keras::export(&block(config()), "gru_1/gru_cell/")?);
            keras::config(&dict, "").map(|_| ())
        },
        "gru_1/gru_cell/recurrent_kernel: not expected; a GRU has kernel, recurrent_kernel and \
         bias, or 0, 1 and 2, a Bidirectional has them under forward_… and backward_…",
    ),
    (
        "keras-unknown-array",
        || keras_with(config(), |d| d.insert("scale", zeros([H])), |c| c),
        "scale: not expected; a GRU has kernel, recurrent_kernel and bias, or 0, 1 and 2, a \
         Bidirectional has them under forward_… and backward_…",
    ),
    (
        "keras-names-of-two-kinds",
        || keras_with(config(), |d| d.insert("0", zeros([H])), |c| c),
        "bias: not expected; a GRU has kernel, recurrent_kernel and bias, or 0, 1 and 2, a \
         Bidirectional has them under forward_… and backward_…",
    ),
    (
        "keras-two-forward",
        || {
            let mut dict = keras::export(&block(config()), "first/")?;
            dict.extend(keras::export(&block(config()), "forward_gru/")?);
            keras::config(&dict, "").map(|_| ())
        },
        "forward_gru/recurrent_kernel: not expected; a GRU has kernel, recurrent_kernel and \
         bias, or 0, 1 and 2, a Bidirectional has them under forward_… and backward_…",
    ),
    (
        "keras-bias-of-one",
        || {
            let both = config().with_bidirectional(true);
            let mut dict = keras::export(&block_with(&both, Biases::None), "")?;
            dict.insert("backward_layer/bias", zeros([2, 3 * H]));
            let config = keras::config(&dict, "")?;
            keras::import(&dict, "", &config, &device()).map(|_| ())
        },
        "forward_layer/bias: expected a tensor of this name, got none",
    ),
    (
        "keras-gates",
        || {
            let activations = Activations {
                reset: Activation::Tanh,
                ..Default::default()
            };
            keras::activation_names(&activations).map(|_| ())
        },
        "Keras cannot express different activations of the reset and the update gate",
    ),
    (
        "keras-no-name",
        || {
            let activations = Activations {
                candidate: Activation::Elu { alpha: 0.5 },
                ..Default::default()
            };
            keras::activation_names(&activations).map(|_| ())
        },
        "candidate gate: activation Elu { alpha: 0.5 } is not supported",
    ),
    (
        "keras-activation",
        || keras::activations("mish", "sigmoid").map(|_| ()),
        "candidate gate: activation mish is not supported",
    ),
];
