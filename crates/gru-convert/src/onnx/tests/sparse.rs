//! Sparse weights, and recurrent nodes that are not read.

use super::{
    import,
    nodes::{constant, encoded, file, floats, gru, r, w},
};
use crate::onnx::{
    Model,
    proto::{self, element},
    write::attribute,
};
use prost::{Message, bytes::Bytes, encoding};

/// Zeros except at these places.
fn tensor(name: &str, dims: &[i64], of_indices: &[i64], indices: &[i64]) -> proto::SparseTensor {
    let values = indices.len() as i64 / of_indices.get(1).unwrap_or(&1).max(&1);
    let numbers = (0..values).map(|k| k as f32 + 1.0).collect();
    let indices = proto::Tensor {
        dims: of_indices.to_vec(),
        data_type: Some(element::INT64),
        int64_data: indices.to_vec(),
        ..Default::default()
    };
    proto::SparseTensor {
        values: Some(encoded(floats(name, &[values], numbers))),
        indices: Some(encoded(indices)),
        dims: dims.to_vec(),
    }
}

/// A model with a sparse initializer, or with the tensor in a `Constant`.
fn models(sparse: &proto::SparseTensor) -> [Vec<u8>; 2] {
    let gru = || gru("gru", &["x", "w", "r"]);
    let mut graph = proto::Graph {
        node: vec![encoded(gru())],
        initializer: vec![encoded(r())],
        ..Default::default()
    }
    .encode_to_vec();
    encoding::bytes::encode(15, &encoded(sparse.clone()), &mut graph);
    let mut model = Vec::new();
    encoding::bytes::encode(7, &Bytes::from(graph), &mut model);
    let value = attribute("sparse_value", 11, |a| {
        a.sparse_tensor = Some(encoded(sparse.clone()))
    });
    let constant = proto::Node {
        attribute: vec![value],
        ..constant("w", w())
    };
    [model, file(vec![constant, gru()], vec![r()])]
}

#[test]
fn sparse_weights_are_dense() {
    for (of_indices, indices) in [
        (&[3][..], &[0, 2, 5][..]),
        (&[3, 3], &[0, 0, 0, 0, 2, 0, 0, 5, 0]),
    ] {
        for bytes in models(&tensor("w", &[1, 6, 1], of_indices, indices)) {
            let model = Model::from_bytes(bytes.clone()).expect("a model");
            let values: Vec<f32> = model.constant("w").expect("w").iter().collect();
            assert_eq!(values, [1.0, 0.0, 2.0, 0.0, 0.0, 3.0]);
            import(bytes, "gru").expect("a GRU");
        }
    }
    for bytes in models(&tensor("w", &[1, 6, 1], &[0], &[])) {
        let model = Model::from_bytes(bytes).expect("a model");
        let values: Vec<f32> = model.constant("w").expect("w").iter().collect();
        assert_eq!(values, [0.0; 6]);
    }
}

#[test]
fn sparse_weights_are_checked() {
    const HUGE: i64 = 1 << 40;
    for (dims, of_indices, indices, expected) in [
        (
            &[1, 6, 1][..],
            &[1][..],
            &[6][..],
            "w: expected indices below [6], got [6]",
        ),
        (
            &[1, 6, 1],
            &[1],
            &[-1],
            "w: expected indices below [6], got [-1]",
        ),
        (
            &[1, 6, 1],
            &[1, 3],
            &[0, 6, 0],
            "w: expected indices below [1, 6, 1], got [0, 6, 0]",
        ),
        (
            &[1, 6, 1],
            &[2],
            &[3, 3],
            "w: expected each index once, got [3] twice",
        ),
        (
            &[1, 6, 1],
            &[1, 2],
            &[0, 1],
            "w: expected sparse values [K] and indices [K] or [K, 3], got [1] and [1, 2]",
        ),
        (&[1, -6, 1], &[1], &[0], "w: expected sizes, got [1, -6, 1]"),
        (&[1, HUGE, 1], &[1], &[0], "its arrays claim 879609"),
        (
            &[HUGE, HUGE, HUGE],
            &[1],
            &[0],
            "its arrays claim 184467440737095",
        ),
    ] {
        for bytes in models(&tensor("w", dims, of_indices, indices)) {
            let error = import(bytes, "gru").expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

#[test]
fn nodes_that_are_not_read_are_named() {
    let graph = |node: proto::Node| proto::Graph {
        node: vec![encoded(node)],
        ..Default::default()
    };
    let holds = |op: &str, node: proto::Node| {
        let mut body = attribute("body", 5, |_| {});
        let mut bytes = body.to_vec();
        encoding::bytes::encode(6, &encoded(graph(node)), &mut bytes);
        body = bytes.into();
        proto::Node {
            op_type: Some(op.into()),
            attribute: vec![body],
            ..constant("y", w())
        }
    };
    let inner = || gru("inner", &["x", "w", "r"]);
    let lstm = proto::Node {
        op_type: Some("LSTM".into()),
        ..gru("lstm", &["x", "w", "r"])
    };
    for (nodes, name, expected) in [
        (
            vec![holds("If", inner())],
            "inner",
            "got \"inner\"; there are none; \"inner\" is a GRU in a branch or body of \"If\", and only the main graph is read",
        ),
        (
            vec![holds("If", holds("Loop", inner()))],
            "inner.Y",
            "\"inner.Y\" is a GRU in a branch or body of \"Loop\"",
        ),
        (
            vec![holds("Scan", inner())],
            "x",
            "there are none; \"inner\" is a GRU in a branch or body of \"Scan\"",
        ),
        (
            vec![lstm],
            "lstm",
            "there are none; \"lstm\" is an LSTM: four gates",
        ),
    ] {
        let error = import(file(nodes, vec![]), name)
            .expect_err(name)
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}
