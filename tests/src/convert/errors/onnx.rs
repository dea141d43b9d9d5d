//! ONNX: attributes and arrays that are not a GRU node.

use super::{super::*, ErrorCase};
use burn::{module::Param, tensor::DType};

/// Changes a node of zeros and imports it.
fn node(change: impl FnOnce(&mut onnx::Attributes, &mut StateDict)) -> Result<(), ConvertError> {
    let mut dict = StateDict::new();
    dict.insert("W", zeros([1, 3 * H, I]));
    dict.insert("R", zeros([1, 3 * H, H]));
    let mut attributes = onnx::Attributes::default();
    change(&mut attributes, &mut dict);
    let config = onnx::config(&attributes, &dict, "")?;
    onnx::import(&dict, "", &config, &device())?;
    Ok(())
}

pub const CASES: &[ErrorCase] = &[
    (
        "onnx-unexpected",
        || node(|_, d| d.insert("P", zeros([1]))),
        "P: not expected; a GRU has W, R and B",
    ),
    (
        "onnx-direction",
        || node(|a, _| a.direction = "backward".into()),
        "direction: expected forward, reverse or bidirectional, got backward",
    ),
    (
        "onnx-layout",
        || node(|a, _| a.layout = 2),
        "layout: expected 0 or 1, got 2",
    ),
    (
        "onnx-hidden-size",
        || node(|a, _| a.hidden_size = Some(7)),
        "hidden_size: expected 5, got 7",
    ),
    (
        "onnx-activations",
        || node(|a, _| a.activations = vec!["Sigmoid".into()]),
        "activations: expected 2, got 1",
    ),
    (
        "onnx-affine",
        || node(|a, _| a.activations = vec!["Affine".into(), "Tanh".into()]),
        "activation_alpha: expected a value for Affine, got none",
    ),
    (
        "onnx-alpha",
        || node(|a, _| a.activation_alpha = vec![0.5]),
        "activation_alpha: expected 0, got 1",
    ),
    (
        "onnx-slope",
        || {
            node(|a, _| {
                a.activations = vec!["Sigmoid".into(), "LeakyRelu".into()];
                a.activation_alpha = vec![-1.0];
            })
        },
        "activations: expected parameters that this crate has kernels for, got GruSpec: \
         candidate activation LeakyRelu { alpha: -1.0 }: alpha must be finite and not negative",
    ),
    (
        "onnx-clip",
        || node(|a, _| a.clip = Some(-1.0)),
        "clip: expected a positive number, got -1",
    ),
    (
        "onnx-directions",
        || node(|a, _| a.direction = "bidirectional".into()),
        "W: expected shape [2, 15, 3], got [1, 15, 3]",
    ),
    (
        "onnx-small-clip",
        || onnx::export(&block(config().with_clip_gates(Some(1e-46))), "").map(|_| ()),
        "ONNX cannot express clip_gates 1e-46",
    ),
    (
        "onnx-two-types",
        || {
            let mut gru = block(config().with_num_layers(2));
            let w_hh = gru.layers[1].w_hh.val().cast(DType::F64);
            gru.layers[1].w_hh = Param::from_tensor(w_hh);
            onnx::model(&gru, onnx::ModelInputs::default()).map(|_| ())
        },
        "ONNX cannot express parameters of which only some are float64",
    ),
];
