//! Generated code and error messages. `tests/onnx` compiles and runs the code of many more models.

use super::{GruOverride, MarkError, Precision, mark, mark_grus};
use burn_onnx::{
    ModelGen,
    ext::{CustomOp, DType, OpOverride, TensorData},
};
use gru_testkit::onnx_file::{Attribute, GruModel, Value};
use onnx_ir::{AttributeProto, AttributeType, Message, ModelProto, NodeProto};
use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::ErrorKind,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
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
    let path = temporary.path().join("model.onnx");
    fs::write(&path, model).unwrap();
    generate_from(gru, &path, marked)
}

fn generate_from(
    gru: impl OpOverride + CustomOp + 'static,
    path: &Path,
    marked: bool,
) -> Result<String, String> {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let out = folder.join("out");
        let mut generator = ModelGen::new();
        generator.out_dir(out.to_str().unwrap());
        if marked {
            let copy = mark::copy(path, &folder.join("copy")).unwrap();
            generator.input(&copy).register_custom_op(gru);
        } else {
            generator
                .input(path.to_str().unwrap())
                .register_op_override(gru);
        }
        generator.run_from_cli();
        let code = out.join(path.with_extension("rs").file_name().unwrap());
        let record = fs::read(code.with_extension("bpk")).unwrap();
        let mut hasher = DefaultHasher::new();
        record.hash(&mut hasher);
        let code = fs::read_to_string(code).unwrap();
        // The code names the folder.
        let code = code.replace(folder.to_str().unwrap(), "folder");
        format!("{code}// The record has the hash {}.", hasher.finish())
    }));
    result.map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(_) => "a panic without a text".into(),
    })
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

/// Options with their default value are not written.
#[test]
fn blocks_and_prepared_blocks() {
    let config = "gru_convert::gru_op::GruBlockConfig::new(4, 5).with_batch_first(false)
        .with_reset(gru_convert::gru_op::Reset::BeforeMatmul).init(device)";
    let int8 = "gru_convert::gru_op::Precision::Int8";
    for (name, marked) in [("gru1", false), ("custom1", true)] {
        let run = format!("gru_convert::onnx::run(&self.{name}, x, None, Some(initial_h));");
        let code = generate(&model(), marked).unwrap();
        let field = format!("{name}: gru_convert::gru_op::GruBlock");
        expect_in(&code, &[&field, &format!("let {name} = {config};"), &run]);
        let prepared = GruOverride::prepared(Precision::Int8);
        let code = generate_with(prepared, &model().to_bytes(), marked).unwrap();
        let new = "gru_convert::onnx::PreparedBlock::new";
        let field = format!("{name}: gru_convert::onnx::PreparedBlock");
        let init = format!("let {name} = {new}({config}, {int8});");
        expect_in(&code, &[&field, &init, &run]);
    }
}

/// The reasons for the copy.
#[test]
fn the_parser_rejects_lengths_and_different_activations() {
    let names = ["HardSigmoid", "Relu", "Sigmoid", "Tanh"].map(String::from);
    let mut both = with("activations", Attribute::Texts(names.to_vec()));
    let direction = Attribute::Text("bidirectional".into());
    both.attributes.push(("direction".into(), direction));
    for constant in &mut both.constants {
        constant.shape[0] = 2;
        constant.data.extend_from_within(..);
    }
    expect_error(&both, false, "different activations per direction");
    let mut ragged = model();
    ragged.node_inputs[4] = "lengths".into();
    let mut lengths = value("lengths", &[N]);
    lengths.is_int = true;
    ragged.inputs.push(lengths);
    expect_error(&ragged, false, "sequence_lens");
}

/// A marked node has its weights as attributes, so the model does not store them as constants too.
#[test]
fn weights_are_stored_once() {
    let code = generate(&model(), true).unwrap();
    assert!(!code.contains("constant1"), "{code}");
}

/// Some exporters store equal weights of two layers once, and name the copy by an Identity node. Converters to
/// float16 insert a cast.
#[test]
fn weights_behind_another_node() {
    for (name, attribute) in [("Identity", None), ("Cast", Some(("to", 1)))] {
        let mut proto = ModelProto::parse_from_bytes(&model().to_bytes()).unwrap();
        let graph = proto.graph.as_mut().unwrap();
        graph.node[0].input[1] = "W_of_layer_2".into();
        graph
            .node
            .insert(0, node(name, "W", "W_of_layer_2", attribute));
        if name == "Cast" {
            let w = graph
                .initializer
                .iter_mut()
                .find(|w| w.name == "W")
                .unwrap();
            let numbers: Vec<f32> = (0..3 * H * I).map(|k| k as f32).collect();
            let halves = TensorData::new(numbers, [3 * H * I]).convert_dtype(DType::F16);
            (w.data_type, w.raw_data) = (10, halves.as_bytes().to_vec().into());
            w.float_data.clear();
        }
        let bytes = proto.write_to_bytes().unwrap();
        let code = generate_with(GruOverride::new(), &bytes, true);
        assert_eq!(code.unwrap(), generate(&model(), true).unwrap(), "{name}");
    }
}

/// A node with one input, and an integer as attribute.
fn node(operator: &str, input: &str, output: &str, attribute: Option<(&str, i64)>) -> NodeProto {
    let mut node = NodeProto::new();
    node.op_type = operator.into();
    node.input = vec![input.into()];
    node.output = vec![output.into()];
    if let Some((name, number)) = attribute {
        let mut attribute = AttributeProto::new();
        attribute.name = name.into();
        attribute.type_ = AttributeType::INT.into();
        attribute.i = number;
        node.attribute.push(attribute);
    }
    node
}

/// PyTorch stores larger tensors in a file next to the model.
#[test]
fn weights_in_another_file() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/models/onnx");
    let name = "torch_layers_dynamo.onnx";
    let path = models.join(name);
    let code = generate_from(GruOverride::new(), &path, true).unwrap();
    assert_eq!(code.matches("gru_convert::onnx::run(").count(), 2, "{code}");
    // The second copy must not change the file to which the first is a link.
    let data = fs::read(models.join(format!("{name}.data"))).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let copy = mark::copy(&path, temporary.path()).unwrap();
        assert_eq!(fs::read(format!("{copy}.data")).unwrap(), data);
        let proto = ModelProto::parse_from_bytes(&fs::read(copy).unwrap()).unwrap();
        let grus = proto.graph.node.iter().filter(|node| node.op_type == "GRU");
        let weights = grus
            .flat_map(|gru| &gru.attribute)
            .filter_map(|a| a.t.as_ref());
        let weights: Vec<_> = weights.collect();
        assert_eq!(weights.len(), 6);
        let in_data = |bytes: &[u8]| data.windows(bytes.len()).any(|window| window == bytes);
        assert!(weights.iter().all(|weight| weight.external_data.is_empty()));
        assert!(weights.iter().any(|weight| in_data(&weight.raw_data)));
    }
    let elsewhere = temporary.path().join("elsewhere.onnx");
    let copied_from = |location: &str| {
        let mut proto = ModelProto::parse_from_bytes(&fs::read(&path).unwrap()).unwrap();
        let tensors = &mut proto.graph.as_mut().unwrap().initializer;
        let entries = tensors.iter_mut().flat_map(|t| &mut t.external_data);
        for entry in entries.filter(|entry| entry.key == "location") {
            entry.value = location.into();
        }
        let bytes = proto.write_to_bytes().unwrap();
        fs::write(&elsewhere, &bytes).unwrap();
        let copy = mark::copy(&elsewhere, &temporary.path().join("copy"));
        assert!(fs::read(&elsewhere).unwrap() == bytes, "the model changed");
        copy
    };
    let error = copied_from("../weights").unwrap_err();
    let expected = "expected tensors below the model's folder, got \"../weights\"";
    assert!(error.to_string().ends_with(expected), "{error}");
    copied_from("elsewhere.onnx").unwrap();
}

#[test]
fn weights_that_the_parser_folds() {
    let mut model = model();
    model.constants[0].name = "W0".into();
    let mut proto = ModelProto::parse_from_bytes(&model.to_bytes()).unwrap();
    let concat = node("Concat", "W0", "W", Some(("axis", 0)));
    proto.graph.as_mut().unwrap().node.insert(0, concat);
    let bytes = proto.write_to_bytes().unwrap();
    for marked in [false, true] {
        let code = generate_with(GruOverride::new(), &bytes, marked).unwrap();
        expect_in(&code, &["gru_convert::gru_op::GruBlockConfig::new(4, 5)"]);
    }
}

#[test]
fn errors_name_the_node() {
    let mut computed = model();
    let w = computed.constants.remove(0);
    computed.inputs.push(w);
    let mut no_r = model();
    no_r.constants[1].shape = vec![1, 3 * H - 3, H];
    no_r.constants[1].data.truncate((3 * H - 3) * H);
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
            &with("clip", Attribute::Int(1)),
            true,
            "node 'custom1': clip: expected the type Float32, got Int64",
        ),
    ] {
        expect_error(model, marked, expected);
    }
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
    let kind = |error: &MarkError| match error {
        MarkError::File { path, error } if *path == model => Some(error.kind()),
        _ => None,
    };
    let missing = mark::copy(&model, folder).unwrap_err();
    assert_eq!(kind(&missing), Some(ErrorKind::NotFound), "{missing}");
    for (content, reason) in [
        (&b"text"[..], "expected an ONNX model"),
        (&[], "without a graph"),
    ] {
        fs::write(&model, content).unwrap();
        let error = mark::copy(&model, folder).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(kind(&error), Some(ErrorKind::InvalidData), "{error}");
    }
    // A test is not a build script.
    assert!(matches!(mark_grus(&model), Err(MarkError::OutDir)));
}
