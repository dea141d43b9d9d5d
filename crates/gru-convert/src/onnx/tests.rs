//! Broken and misleading files.

mod nodes;
mod outside;
mod sparse;

use super::{
    Attributes, Model, ModelInputs, model,
    proto::{self, element, kind},
    write::{attribute, int},
};
use crate::error::ConvertError;
use burn::tensor::{DType, Device, TensorData};
use gru_op::GruBlockConfig;
use nodes::{constant, encoded, file, floats, gru, identity, r, w};
use prost::{Message, bytes::Bytes};
use rand::{Rng, SeedableRng, rngs::StdRng};

fn import(bytes: Vec<u8>, name: &str) -> Result<(), ConvertError> {
    Model::from_bytes(bytes)?
        .import(name, &Device::flex())
        .map(|_| ())
}

#[test]
fn weights_are_found_everywhere() {
    let r = proto::Tensor {
        raw_data: Some(
            r().float_data
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect(),
        ),
        float_data: vec![],
        ..r()
    };
    let nodes = vec![
        constant("c", w()),
        identity("c", "c2"),
        identity("c2", "w"),
        gru("", &["x", "w", "r", "", "", "h0"]),
    ];
    let model = Model::from_bytes(file(nodes, vec![r])).expect("a model");
    // A node without a name gets the name of its first output.
    let [gru] = model.grus() else {
        panic!("{:?}", model.grus())
    };
    assert_eq!(gru.name(), ".Y");
    assert_eq!(gru.inputs()[5], "h0");
    let dict = model.weights(".Y").expect("weights");
    for (key, len) in [("W", 6), ("R", 12)] {
        let values: Vec<f32> = dict.get(key).expect(key).iter().collect();
        assert_eq!(values, (0..len).map(|k| k as f32).collect::<Vec<_>>());
    }
    assert!(!model.config(".Y").expect("a config").bias);
    assert_eq!(model.constant("c2").expect("w").shape()[..], [1, 6, 1]);
}

/// Converters to float16 keep some operators in float32 by casts.
#[test]
fn weights_behind_casts() {
    let cast = |from: &str, to: &str, dtype: i32| proto::Node {
        op_type: Some("Cast".into()),
        attribute: vec![int("to", dtype.into())],
        ..identity(from, to)
    };
    let nodes = vec![
        cast("a", "half", element::FLOAT16),
        cast("half", "single", element::FLOAT),
        cast("a", "integer", element::INT32),
    ];
    let a = floats("a", &[2], vec![1.0, 1.0001]);
    let model = Model::from_bytes(file(nodes, vec![a])).expect("a model");
    let data = model.constant("single").expect("numbers");
    assert_eq!(data, TensorData::from([1.0f32, 1.0]));
    assert!(model.constant("integer").is_err());
}

#[test]
fn all_float_types_are_read() {
    let half = |data_type, bits: [i32; 2]| proto::Tensor {
        dims: vec![2],
        data_type: Some(data_type),
        int32_data: bits.to_vec(),
        name: Some("half".into()),
        ..Default::default()
    };
    let double = proto::Tensor {
        dims: vec![1, 2],
        data_type: Some(element::DOUBLE),
        double_data: vec![1.0, -2.5],
        name: Some("double".into()),
        ..Default::default()
    };
    let raw = proto::Tensor {
        raw_data: Some(vec![0x00, 0x3c, 0x00, 0xc1].into()),
        int32_data: vec![],
        ..half(element::FLOAT16, [0, 0])
    };
    let bytes = [1f64, -2.5].map(f64::to_le_bytes);
    let raw_double = proto::Tensor {
        raw_data: Some(bytes.concat().into()),
        double_data: vec![],
        ..double.clone()
    };
    for (tensor, dtype) in [
        (half(element::FLOAT16, [0x3c00, 0xc100]), DType::F16),
        (raw, DType::F16),
        (raw_double, DType::F64),
        (half(element::BFLOAT16, [0x3f80, 0xc020]), DType::BF16),
        (double, DType::F64),
    ] {
        let name = tensor.name.clone().expect("a name");
        let model = Model::from_bytes(file(vec![], vec![tensor])).expect("a model");
        let data = model.constant(&name).expect("numbers");
        assert_eq!(data.dtype(), dtype);
        assert_eq!(data.iter::<f64>().collect::<Vec<_>>(), [1.0, -2.5]);
    }
}

#[test]
fn attributes_are_read_by_name() {
    let all = [
        attribute("activations", kind::STRINGS, |a| {
            a.strings = vec!["LeakyRelu".into(), "HardSigmoid".into()];
        }),
        attribute("activation_alpha", kind::FLOATS, |a| {
            a.floats = vec![0.25, 0.5]
        }),
        attribute("activation_beta", kind::FLOATS, |a| a.floats = vec![0.75]),
        attribute("clip", kind::FLOAT, |a| a.f = Some(3.0)),
        attribute("direction", kind::STRING, |a| a.s = Some("reverse".into())),
        int("hidden_size", 2),
        int("layout", 1),
        int("linear_before_reset", 1),
        // Attribute of operator set 1. It does not affect the results.
        int("output_sequence", 1),
    ];
    let all = all.map(|bytes| proto::Attribute::decode(bytes).expect("an attribute"));
    let expected = Attributes {
        activations: vec!["LeakyRelu".into(), "HardSigmoid".into()],
        activation_alpha: vec![0.25, 0.5],
        activation_beta: vec![0.75],
        clip: Some(3.0),
        direction: "reverse".into(),
        hidden_size: Some(2),
        layout: 1,
        linear_before_reset: 1,
    };
    let read = |attributes: Vec<proto::Attribute>| {
        let mut node = gru("gru", &["x", "w", "r"]);
        node.attribute = attributes.into_iter().map(encoded).collect();
        let model = Model::from_bytes(file(vec![node], vec![w(), r()]))?;
        model.gru("gru").map(|node| node.attributes().clone())
    };
    assert_eq!(read(all.to_vec()).expect("a node"), expected);
    // The first version of the format had no types.
    let untyped = |a: &proto::Attribute| proto::Attribute {
        r#type: None,
        ..a.clone()
    };
    let without = all.iter().map(untyped).collect();
    assert_eq!(read(without).expect("a node"), expected);
    for attribute in &all {
        let name = attribute.name();
        let wrong = proto::Attribute {
            r#type: Some(kind::INTS),
            ..attribute.clone()
        };
        let error = read(vec![wrong]).expect_err(name).to_string();
        let says = format!("GRU \"gru\": attribute {name}: expected type ");
        assert!(error.starts_with(&says), "{error}");
    }
}

#[test]
fn errors_name_the_cause() {
    type Change = fn(&mut proto::Node, &mut Vec<proto::Tensor>);
    let cases: [(Change, &str); 13] = [
        (|_, _| {}, "nothing"),
        (
            |node, _| node.input.truncate(2),
            "R: expected a tensor of this name, got none",
        ),
        (
            |node, _| node.input[1] = String::new(),
            "W: expected a tensor of this name, got none",
        ),
        (
            |node, _| node.input[1] = "x".into(),
            "x: expected an initializer or a Constant node, got neither; an exporter that folds \
             constants makes one of what is computed from them",
        ),
        (
            |_, tensors| tensors[0].dims = vec![1, 6, 2],
            "w: expected 12 numbers for shape [1, 6, 2], got 6",
        ),
        (
            |_, tensors| tensors[0].dims = vec![i64::MAX, i64::MAX, 4],
            "w: expected sizes that fit in memory, got [9223372036854775807, 9223372036854775807, 4]",
        ),
        (
            |_, tensors| tensors[0].dims = vec![-1, 6, 1],
            "w: expected sizes that fit in memory, got [-1, 6, 1]",
        ),
        (
            |_, tensors| tensors[0].data_type = Some(element::INT64),
            "w: expected element type 1 (float), 10 (float16), 11 (double) or 16 (bfloat16), got 7",
        ),
        (
            |_, tensors| tensors[0].raw_data = Some(vec![0; 7].into()),
            "w: expected numbers of 4 bytes, got 7 bytes",
        ),
        (
            |_, tensors| tensors[1].dims = vec![1, 4, 3],
            "R: expected [D, 3H, H], got shape [1, 4, 3]; expected a GRU, got another cell: not three gates",
        ),
        (
            |node, _| node.attribute = vec![int("hidden_size", -2)],
            "GRU \"gru\": hidden_size: expected a positive number, got -2",
        ),
        (
            |node, _| node.attribute = vec![attribute("layout", kind::FLOAT, |_| {})],
            "GRU \"gru\": attribute layout: expected type 2, got 1",
        ),
        (
            |node, _| node.attribute = vec![int("input_forget", 0)],
            "GRU \"gru\": attribute input_forget: expected one of the operator's, activations, \
             activation_alpha, activation_beta, clip, direction, hidden_size, layout, \
             linear_before_reset",
        ),
    ];
    for (change, expected) in cases {
        let (mut node, mut tensors) = (gru("gru", &["x", "w", "r"]), vec![w(), r()]);
        change(&mut node, &mut tensors);
        let imported = import(file(vec![node], tensors), "gru");
        let got = imported
            .err()
            .map_or("nothing".into(), |error| error.to_string());
        assert_eq!(got, expected);
    }
}

#[test]
fn ambiguous_names_are_errors() {
    let (first, mut second) = (gru("a", &["x", "w", "r"]), gru("a", &["x", "w", "r"]));
    second.output = vec!["y2".into()];
    let bytes = file(vec![first, second], vec![w(), r()]);
    let model = Model::from_bytes(bytes).expect("a model");
    let says = "expected the name of one GRU, or of its output, got \"a\"; there are \"a\", \"a\"";
    assert_eq!(model.gru("a").expect_err("two").to_string(), says);
    assert_eq!(model.gru("y2").expect("one").outputs(), ["y2"]);
    assert!(model.gru("").is_err() && model.gru("b").is_err());
}

#[test]
fn cyclic_names_are_errors() {
    let nodes = vec![
        identity("a", "w"),
        identity("w", "a"),
        gru("gru", &["x", "w", "r"]),
    ];
    let error = import(file(nodes, vec![r()]), "gru").expect_err("no numbers");
    let says = "w: expected at most 16 Cast and Identity nodes before it";
    assert_eq!(error.to_string(), says);
}

#[test]
fn broken_files_are_errors() {
    let block = GruBlockConfig::new(2, 3)
        .with_num_layers(2)
        .with_bidirectional(true);
    let inputs = ModelInputs {
        state: true,
        lengths: true,
    };
    let bytes = model(&block.init(&Device::flex()), inputs).expect("a model");
    let all = |bytes: Vec<u8>| {
        let Ok(model) = Model::from_bytes(bytes) else {
            return;
        };
        for gru in model.grus() {
            let _ = model.import(gru.name(), &Device::flex());
        }
    };
    for len in 0..bytes.len() {
        all(bytes[..len].to_vec());
    }
    let mut random = StdRng::seed_from_u64(20261122);
    for _ in 0..5_000 {
        let mut bytes = bytes.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        all(bytes);
    }
    assert!(Model::from_bytes(vec![0xff; 64]).is_err());
    let error = Model::from_bytes(vec![]).expect_err("nothing");
    assert_eq!(
        error.to_string(),
        "expected an ONNX model, got an empty file"
    );
}

/// Another loader may take the other one.
#[test]
fn constants_of_one_name_are_an_error() {
    let node = || gru("gru", &["x", "w", "r"]);
    for (nodes, tensors) in [
        (vec![node()], vec![w(), r(), w()]),
        (vec![node(), constant("w", w())], vec![w(), r()]),
        (vec![node(), identity("r", "w")], vec![w(), r()]),
    ] {
        let error = import(file(nodes, tensors), "gru").expect_err("two");
        let says = "w: expected one constant of this name, got two";
        assert_eq!(error.to_string(), says);
    }
}

/// An empty entry of a list needs only two bytes of a file. Millions of them must not become structures of hundreds.
#[test]
fn many_entries_are_an_error() {
    let names = attribute("activations", kind::STRINGS, |a| {
        a.strings = vec![Bytes::new(); 100];
    });
    let with_names = proto::Node {
        attribute: vec![names],
        ..gru("gru", &[])
    };
    let with_inputs = gru("gru", &[""; 100]);
    let few = "expected at most 64 inputs, outputs, attributes and texts";
    for (nodes, says) in [
        (vec![proto::Node::default(); 300_000], "its arrays claim"),
        (vec![with_names], few),
        (vec![with_inputs], few),
    ] {
        let read = Model::from_bytes(file(nodes, vec![]));
        let error = read.expect_err("a hostile file").to_string();
        assert!(error.contains(says), "{error}");
    }
}
