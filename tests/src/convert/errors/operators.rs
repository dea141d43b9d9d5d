//! Systems with their own arrays: TensorFlow, oneDNN, cuDNN and MPSGraph.

use super::{super::*, ErrorCase};

/// Changes the oneDNN arrays of a block and imports them.
fn onednn_with(
    of: GruBlockConfig,
    change: impl FnOnce(&mut StateDict),
) -> Result<(), ConvertError> {
    let mut dict = onednn::export(&block(of), "")?;
    change(&mut dict);
    let config = onednn::config(&dict, "")?;
    onednn::import(&dict, "", &config, &device()).map(|_| ())
}

/// Changes the MPSGraph arrays and descriptor of a block and imports them with a changed configuration.
fn mps_graph_with(
    change: impl FnOnce(&mut GruDescriptor, &mut StateDict),
    configure: impl FnOnce(GruBlockConfig) -> GruBlockConfig,
) -> Result<(), ConvertError> {
    let (mut dict, mut descriptor) = mps_graph::export(&block(config()), "")?;
    change(&mut descriptor, &mut dict);
    let config = configure(mps_graph::config(&descriptor, &dict, "")?);
    mps_graph::import(&descriptor, &dict, "", &config, &device()).map(|_| ())
}

pub const CASES: &[ErrorCase] = &[
    (
        "unexpected-elsewhere",
        || {
            let mut dict = cudnn::export(&block(config()), "gru.")?;
            dict.insert("other.w9", zeros([1]));
            cudnn::config(&dict, "gru.")?;
            dict.insert("gru.w6", zeros([1]));
            cudnn::config(&dict, "gru.").map(|_| ())
        },
        "gru.w6: not expected; a pseudo-layer has w0 to w5 and b0 to b5",
    ),
    (
        "cudnn-one-bias",
        || {
            let mut dict = cudnn::export(&block_with(&config(), Biases::None), "")?;
            dict.insert("b3", zeros([H]));
            let config = cudnn::config(&dict, "")?;
            cudnn::import(&dict, "", &config, &device()).map(|_| ())
        },
        "b4: expected a tensor of this name, got none",
    ),
    (
        "tensorflow-rows",
        || {
            let mut dict = StateDict::new();
            dict.insert("w_ru", zeros([H, 2 * H]));
            dict.insert("w_c", zeros([H, H]));
            dict.insert("b_ru", zeros([2 * H]));
            dict.insert("b_c", zeros([H]));
            tensorflow::config(&dict, "").map(|_| ())
        },
        "w_c: expected [I+H, H] with I above 0, got shape [5, 5]",
    ),
    (
        "onednn-stack",
        || onednn::export(&block(config().with_num_layers(2)), "").map(|_| ()),
        "oneDNN cannot express several layers in both directions or with I other than H",
    ),
    (
        "onednn-two-stacks",
        || {
            onednn_with(config(), |d| {
                d.insert("weights_layer", zeros([2, 2, H, 3, H]))
            })
        },
        "weights_layer: expected [L, 1, H, 3, H] of several layers, got shape [2, 2, 5, 3, 5]",
    ),
    (
        "onednn-directions",
        || {
            onednn_with(config(), |d| {
                d.insert("weights_layer", zeros([1, 3, I, 3, H]))
            })
        },
        "weights_layer: expected [L, 1 or 2, I, 3, H], got shape [1, 3, 3, 3, 5]",
    ),
    (
        "onednn-biases",
        || onednn_with(config(), |d| d.insert("bias", zeros([1, 1, 5, H]))),
        "bias: expected [L, D, 3, H] or [L, D, 4, H], got shape [1, 1, 5, 5]",
    ),
    (
        "onednn-gates",
        || {
            onednn_with(config(), |d| {
                d.insert("weights_iter", zeros([1, 1, H, 4, H]))
            })
        },
        "weights_iter: expected shape [1, 1, 5, 3, 5], got [1, 1, 5, 4, 5]",
    ),
    (
        "mps-graph-direction",
        || mps_graph_with(|d, _| d.bidirectional = true, |c| c),
        "recurrentWeight: expected [2, 3H, H], as the descriptor is bidirectional, got shape [15, 5]",
    ),
    (
        "mps-graph-two",
        || {
            mps_graph_with(
                |_, d| d.insert("recurrentWeight", zeros([2, 3 * H, H])),
                |c| c,
            )
        },
        "recurrentWeight: expected [3H, H], as the descriptor is not bidirectional, got shape [2, 15, 5]",
    ),
    (
        "mps-graph-projected",
        || {
            let (dict, descriptor) = mps_graph::export(&block(config()), "a.")?;
            let dict = dict.renamed(|key| key.replace("a.inputWeight", "inputWeight"))?;
            mps_graph::config(&descriptor, &dict, "a.").map(|_| ())
        },
        "a.inputWeight: expected a tensor of this name, got none",
    ),
    (
        "mps-graph-update",
        || mps_graph_with(|_, _| {}, |config| config.with_update(Update::Takes)),
        "update of the configuration: expected Keeps, as the imported GRU has it, got Takes",
    ),
    (
        "mps-graph-reset",
        || {
            let (dict, descriptor) = mps_graph::export(&block_with(&config(), Biases::None), "")?;
            let config = mps_graph::config(&descriptor, &dict, "")?;
            let config = config.with_reset(Reset::BeforeMatmul);
            mps_graph::import(&descriptor, &dict, "", &config, &device()).map(|_| ())
        },
        "reset of the configuration: expected AfterMatmul, as the imported GRU has it, got BeforeMatmul",
    ),
    (
        "mps-graph-reverse",
        || mps_graph_with(|_, _| {}, |config| config.with_reverse(true)),
        "reverse of the configuration: expected false, as the imported GRU has it, got true",
    ),
];
