//! Parts of models.

use crate::onnx::{
    proto::{self, element},
    write::attribute,
};
use prost::{Message, bytes::Bytes};

pub fn encoded(message: impl Message) -> Bytes {
    message.encode_to_vec().into()
}

pub fn floats(name: &str, dims: &[i64], values: Vec<f32>) -> proto::Tensor {
    proto::Tensor {
        dims: dims.to_vec(),
        data_type: Some(element::FLOAT),
        float_data: values,
        name: Some(name.into()),
        ..Default::default()
    }
}

pub fn constant(name: &str, tensor: proto::Tensor) -> proto::Node {
    proto::Node {
        output: vec![name.into()],
        op_type: Some("Constant".into()),
        attribute: vec![attribute("value", 4, |a| a.t = Some(encoded(tensor)))],
        ..Default::default()
    }
}

pub fn identity(from: &str, to: &str) -> proto::Node {
    proto::Node {
        input: vec![from.into()],
        output: vec![to.into()],
        op_type: Some("Identity".into()),
        ..Default::default()
    }
}

/// A GRU with I = 1 and H = 2.
pub fn gru(name: &str, inputs: &[&str]) -> proto::Node {
    proto::Node {
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: vec![format!("{name}.Y"), String::new()],
        name: Some(name.into()),
        op_type: Some("GRU".into()),
        attribute: vec![],
    }
}

pub fn file(nodes: Vec<proto::Node>, initializers: Vec<proto::Tensor>) -> Vec<u8> {
    proto::Model {
        graph: Some(proto::Graph {
            node: nodes.into_iter().map(encoded).collect(),
            initializer: initializers.into_iter().map(encoded).collect(),
            ..Default::default()
        }),
        ..Default::default()
    }
    .encode_to_vec()
}

pub fn w() -> proto::Tensor {
    floats("w", &[1, 6, 1], (0..6).map(|k| k as f32).collect())
}

pub fn r() -> proto::Tensor {
    floats("r", &[1, 6, 2], (0..12).map(|k| k as f32).collect())
}
