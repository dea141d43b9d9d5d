//! Generated code and error messages. `tests/onnx` compiles and runs the code of many more models.

use crate::{Error, GruOverride, Precision, lengths, weights, with_lengths};
use burn_onnx::{
    ModelGen,
    ext::{CustomOp, OpOverride},
};
use gru_testkit::onnx_file::{Attribute, GruModel, Value};
use onnx_ir::{Message, ModelProto, NodeProto};
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
};

const N: usize = 2;
const T: usize = 3;
const I: usize = 4;
const H: usize = 5;

fn value(name: &str, shape: &[usize]) -> Value {
    let data = (0..shape.iter().product()).map(|k| k as f64).collect();
    Value {
        name: name.into(),
        shape: shape.into(),
        is_int: false,
        data,
    }
}

/// A GRU with one direction and all inputs except the lengths.
fn model() -> GruModel {
    GruModel {
        attributes: vec![("hidden_size".into(), Attribute::Int(H as i64))],
        node_inputs: ["X", "W", "R", "B", "", "initial_h"]
            .map(String::from)
            .to_vec(),
        node_outputs: vec!["Y".into(), "Y_h".into()],
        inputs: vec![value("X", &[T, N, I]), value("initial_h", &[1, N, H])],
        outputs: vec![value("Y", &[T, 1, N, H]), value("Y_h", &[1, N, H])],
        constants: vec![
            value("W", &[1, 3 * H, I]),
            value("R", &[1, 3 * H, H]),
            value("B", &[1, 6 * H]),
        ],
        constant_nodes: false,
    }
}

fn with(name: &str, attribute: Attribute) -> GruModel {
    let mut model = model();
    model.attributes.push((name.into(), attribute));
    model
}

/// The generated code, or the panic of the build script.
fn generate(model: &GruModel, marked: bool) -> Result<String, String> {
    generate_with(GruOverride::new(), &model.to_bytes(), marked)
}

fn generate_with(
    gru: impl OpOverride + CustomOp + 'static,
    model: &[u8],
    marked: bool,
) -> Result<String, String> {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let path = folder.join("model.onnx");
    fs::write(&path, model).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let out = folder.join("out");
        let mut generator = ModelGen::new();
        generator.out_dir(out.to_str().unwrap());
        if marked {
            let copy = lengths::copy(&path, &folder.join("copy")).unwrap();
            generator.input(&copy).register_custom_op(gru);
        } else {
            generator
                .input(path.to_str().unwrap())
                .register_op_override(gru);
        }
        generator.run_from_cli();
        let code = fs::read_to_string(out.join("model.rs")).unwrap();
        // The code names the folder.
        code.replace(folder.to_str().unwrap(), "folder")
    }));
    result.map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(_) => "a panic without a text".into(),
    })
}

#[track_caller]
fn expect_code(model: &GruModel, marked: bool, expected: &[&str]) {
    expect_in(&generate(model, marked).unwrap(), expected);
}

#[track_caller]
fn expect_in(code: &str, expected: &[&str]) {
    // The formatter's choices do not matter.
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let dense = |text: &str| dense(text).replace(",)", ")").replace(",}", "}");
    for expected in expected {
        let found = dense(code).contains(&dense(expected));
        assert!(found, "expected {expected} in\n{code}");
    }
}

#[track_caller]
fn expect_error(model: &GruModel, marked: bool, expected: &str) {
    let error = generate(model, marked).unwrap_err();
    assert!(error.contains(expected), "expected {expected}, got {error}");
}

#[test]
fn default_options_are_not_written() {
    for (name, marked) in [("gru1", false), ("custom1", true)] {
        let code = [
            format!("{name}: gru_convert::gru_op::GruBlock"),
            format!(
                "let {name} = gru_convert::gru_op::GruBlockConfig::new(4, 5).with_batch_first(false)
                .with_reset(gru_convert::gru_op::Reset::BeforeMatmul).init(device);"
            ),
            format!("gru_convert::onnx::run(&self.{name}, x, None, Some(initial_h));"),
        ];
        expect_code(&model(), marked, &code.each_ref().map(String::as_str));
    }
}

#[test]
fn prepared_blocks() {
    for (name, marked) in [("gru1", false), ("custom1", true)] {
        let gru = GruOverride::prepared(Precision::Int8);
        let code = generate_with(gru, &model().to_bytes(), marked).unwrap();
        let expected = [
            format!("{name}: gru_convert::onnx::PreparedBlock"),
            format!(
                "let {name} = gru_convert::onnx::PreparedBlock::new(
                gru_convert::gru_op::GruBlockConfig::new(4, 5).with_batch_first(false)
                .with_reset(gru_convert::gru_op::Reset::BeforeMatmul).init(device),
                gru_convert::gru_op::Precision::Int8);"
            ),
            format!("gru_convert::onnx::run(&self.{name}, x, None, Some(initial_h));"),
        ];
        expect_in(&code, &expected.each_ref().map(String::as_str));
    }
}

#[test]
fn absent_inputs_and_outputs() {
    let mut model = model();
    model.node_inputs.truncate(3);
    model.node_outputs[0].clear();
    model.inputs.truncate(1);
    model.outputs.remove(0);
    model.constants.truncate(2);
    let code = [
        ".with_bias(false)",
        "let (gru1_out1, gru1_out2) = gru_convert::onnx::run(&self.gru1, x, None, None);",
    ];
    expect_code(&model, false, &code);
}

#[test]
fn directions_with_different_activations() {
    let names = ["HardSigmoid", "Relu", "Sigmoid", "Tanh"].map(String::from);
    let mut model = with("activations", Attribute::Texts(names.to_vec()));
    let direction = Attribute::Text("bidirectional".into());
    model.attributes.push(("direction".into(), direction));
    for constant in &mut model.constants {
        constant.shape[0] = 2;
        constant.data.extend_from_within(..);
    }
    expect_code(
        &model,
        true,
        &[
            "update: gru_convert::gru_op::Activation::HardSigmoid { alpha: 0.20000000298023224, \
             beta: 0.5 }",
            "let mut reverse = config.layer_options(); reverse.activations = \
             gru_convert::gru_op::Activations { reset: gru_convert::gru_op::Activation::Sigmoid",
            ".with_bidirectional(true)",
        ],
    );
    // The reason for the copy.
    expect_error(&model, false, "different activations per direction");
}

#[test]
fn lengths_are_a_tensor() {
    let mut model = model();
    model.node_inputs[4] = "lengths".into();
    let mut lengths = value("lengths", &[N]);
    lengths.is_int = true;
    model.inputs.push(lengths);
    expect_code(
        &model,
        true,
        &["gru_convert::onnx::run_with_lengths(&self.custom1, x, lengths, Some(initial_h));"],
    );
    expect_error(&model, false, "sequence_lens");
}

/// A marked node has its weights as attributes, so the model does not store them as constants too.
#[test]
fn weights_are_stored_once() {
    let code = generate(&model(), true).unwrap();
    assert!(!code.contains("constant1"), "{code}");
}

/// Some exporters store equal weights of two layers once, and name the copy by an Identity node.
#[test]
fn weights_behind_an_identity_node() {
    let mut proto = ModelProto::parse_from_bytes(&model().to_bytes()).unwrap();
    let graph = proto.graph.as_mut().unwrap();
    graph.node[0].input[1] = "W_of_layer_2".into();
    let mut identity = NodeProto::new();
    identity.op_type = "Identity".into();
    identity.input = vec!["W".into()];
    identity.output = vec!["W_of_layer_2".into()];
    graph.node.insert(0, identity);
    let bytes = proto.write_to_bytes().unwrap();
    let code = generate_with(GruOverride::new(), &bytes, true);
    assert_eq!(code.unwrap(), generate(&model(), true).unwrap());
}

#[test]
fn errors_name_the_node() {
    let mut computed = model();
    let w = computed.constants.remove(0);
    computed.inputs.push(w);
    let mut no_r = model();
    no_r.constants[1].shape = vec![1, 3 * H - 3, H];
    no_r.constants[1].data.truncate((3 * H - 3) * H);
    let alpha = |alpha| {
        let names = vec!["Sigmoid".into(), "LeakyRelu".into()];
        let mut model = with("activations", Attribute::Texts(names));
        let alpha = Attribute::Floats(vec![alpha; 2]);
        model.attributes.push(("activation_alpha".into(), alpha));
        model
    };
    for (model, marked, expected) in [
        (
            &computed,
            true,
            "node 'custom1': W: expected an initializer or a Constant node",
        ),
        (
            &no_r,
            false,
            "node 'gru1': shape of R: expected [1, 15, 5], got [1, 12, 5]",
        ),
        (
            &alpha(0.5),
            false,
            "node 'gru1': activation_alpha: expected 1, got 2",
        ),
        (
            &with("layout", Attribute::Int(2)),
            true,
            "node 'custom1': layout: expected 0 or 1, got 2",
        ),
        (
            &with("clip", Attribute::Float(-1.0)),
            true,
            "node 'custom1': clip: expected a positive number, got -1",
        ),
        (
            &with("clip", Attribute::Int(1)),
            true,
            "node 'custom1': clip: expected the type Float32, got Int64",
        ),
    ] {
        expect_error(model, marked, expected);
    }
    let mut slope = alpha(-0.5);
    slope.attributes.pop();
    let negative = Attribute::Floats(vec![-0.5]);
    slope.attributes.push(("activation_alpha".into(), negative));
    expect_error(&slope, false, "alpha must be finite and not negative");
}

/// All three weights are inputs of the model. Burn's own GRU accepts this.
#[test]
fn weights_that_are_inputs() {
    let mut model = model();
    let weights = std::mem::take(&mut model.constants);
    model.inputs.extend(weights);
    let expected = "OpOverride::field for node 'gru1': B: expected an initializer";
    expect_error(&model, false, expected);
}

#[test]
fn files_that_cannot_be_copied() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let model = folder.join("no-model.onnx");
    let missing = lengths::copy(&model, folder).unwrap_err();
    assert!(matches!(missing, Error::File { .. }), "{missing}");
    for (content, reason) in [
        (&b"text"[..], "expected an ONNX model"),
        (&[], "without a graph"),
    ] {
        fs::write(&model, content).unwrap();
        let error = lengths::copy(&model, folder).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    // A test is not a build script.
    assert!(matches!(with_lengths(&model), Err(Error::OutDir)));
}

/// ONNX: row `gate · H + unit` of direction d, gates z, r, n. A block: column `gate · H + unit`, gates r, z, n.
#[test]
fn gates_are_reordered_and_transposed() {
    let w = value("W", &[2, 3 * H, I]);
    let floats: Vec<f32> = w.data.iter().map(|&x| x as f32).collect();
    let data = burn_onnx::ext::TensorData::new(floats, w.shape.clone());
    let bytes = weights::columns(&data, 1, H, I);
    let (columns, _) = bytes.as_chunks();
    let columns: Vec<f32> = columns
        .iter()
        .map(|&bytes| f32::from_ne_bytes(bytes))
        .collect();
    for (gate, of_onnx) in [("r", 1), ("z", 0), ("n", 2)] {
        let of_block = ["r", "z", "n"]
            .iter()
            .position(|&name| name == gate)
            .unwrap();
        for (unit, feature) in (0..H).flat_map(|unit| (0..I).map(move |feature| (unit, feature))) {
            let row = 3 * H + of_onnx * H + unit;
            let expected = (row * I + feature) as f32;
            let got = columns[feature * 3 * H + of_block * H + unit];
            assert_eq!(got, expected, "{gate}, unit {unit}, feature {feature}");
        }
    }
    assert_eq!(columns.len(), 3 * H * I);
}
