use super::*;
use burn::{
    nn::{Linear, LinearConfig, gru::GruConfig},
    tensor::{Bool, Device, Tensor, TensorData, s},
};
use gru_convert::onnx::{self, file};
use gru_op::{Activation, Activations, GruBlock, GruBlockConfig, SequenceOptions, Update};

const I: usize = 3;
const H: usize = 4;

#[derive(Module, Debug)]
struct Model {
    gru: GruBlock,
    head: Linear,
}

fn config() -> GruBlockConfig {
    GruBlockConfig::new(I, H)
}

fn model_of(config: GruBlockConfig) -> Model {
    let device = Device::flex();
    Model {
        gru: config.init(&device),
        head: LinearConfig::new(H, 2).init(&device),
    }
}

fn x([n, t]: [usize; 2]) -> Tensor<3> {
    Tensor::zeros([n, t, I], &Device::flex())
}

/// The message for this forward pass.
fn message<O: Values>(model: &Model, forward: impl Fn(&Model, Tensor<3>) -> O) -> String {
    let exporter = Exporter::new();
    exporter
        .export(model, ["N", "T"], x, forward)
        .unwrap_err()
        .to_string()
}

/// GRUs that ONNX cannot express.
#[test]
fn grus_without_a_node() {
    let plain = |m: &Model, x: Tensor<3>| m.gru.forward(x, None).0;
    let gates = Activations::from([Activation::Sigmoid, Activation::Relu, Activation::Tanh]);
    let tanh = Activations::from([Activation::Tanh; 3]);
    for (config, expected) in [
        (config().with_zoneout(0.1), "zoneout"),
        (
            config().with_activations(gates),
            "different activations of the reset gate and the update gate",
        ),
        (config().with_clip_state(Some(1.0)), "clip of the state"),
        (
            config().with_clip_gates(Some(1e-60)),
            "clip of the gates that is zero in float32",
        ),
        (
            config().with_update(Update::Takes).with_activations(tanh),
            "update rule h = (1−z)·h + z·n for this activation",
        ),
    ] {
        let expected =
            format!("GRU 0 of the model (gru.layers.0.w_ih): ONNX' GRU has no {expected}");
        assert_eq!(message(&model_of(config), plain), expected);
    }
}

/// Calls that ONNX cannot express.
#[test]
fn calls_without_a_node() {
    let model = model_of(config());
    let flags = |x: &Tensor<3>| -> Tensor<2, Bool> {
        x.clone()
            .narrow(2, 0, 1)
            .greater_elem(0.5)
            .squeeze_dim::<2>(2)
    };
    let no =
        |what: &str| format!("GRU 0 of the model (gru.layers.0.w_ih): ONNX' GRU has no {what}");
    let starts = |m: &Model, x: Tensor<3>| {
        let options = SequenceOptions::new().starts(flags(&x));
        m.gru.forward_with(x, options).0
    };
    assert_eq!(
        message(&model, starts),
        no("starts of new sequences within a row")
    );
    let mask = |m: &Model, x: Tensor<3>| {
        let options = SequenceOptions::new().mask(flags(&x));
        m.gru.forward_with(x, options).0
    };
    let expected =
        "mask; if the valid steps of each row are its first steps, set with_prefix_masks(true)";
    assert_eq!(message(&model, mask), no(expected));
    let packed = |m: &Model, _: Tensor<3>| {
        let device = m.gru.layers[0].w_hh.device();
        m.gru
            .forward_packed(Tensor::zeros([7, I], &device), &[5, 2], None)
            .0
    };
    assert_eq!(
        message(&model, packed),
        no("packed rows; export forward_with and a mask")
    );
    let lengths = |m: &Model, x: Tensor<3>| {
        let options = SequenceOptions::new().lengths(&[3, 1]);
        m.gru.forward_with(x, options).0
    };
    let error = Exporter::new()
        .export(&model, [], |[]| x([2, 3]), lengths)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        no("constant lengths; export forward_with and a mask")
    );
}

/// Nothing that depends on a size becomes a constant without notice.
#[test]
fn constants_that_depend_on_a_size() {
    let model = model_of(config());
    let ramp = |_: &Model, x: Tensor<3>| {
        let t = x.dims()[1];
        let ramp: Vec<f32> = (0..t).map(|k| k as f32).collect();
        let ramp = Tensor::<1>::from_data(TensorData::new(ramp, [t]), &x.device());
        x + ramp.reshape([1, t, 1])
    };
    let expected = "expected the same constants for all sizes, or the integers from 0 to a size";
    let error = message(&model, ramp);
    assert!(error.contains(expected), "{error}");
    let root = |_: &Model, x: Tensor<3>| {
        let t = x.dims()[1] as f64;
        x / t.sqrt()
    };
    let error = message(&model, root);
    assert!(
        error.contains("DivScalar: expected the same number for all sizes, or a size"),
        "{error}"
    );
    let some = |_: &Model, x: Tensor<3>| {
        let t = x.dims()[1];
        x.slice(s![.., ..t * t / 200, ..])
    };
    let error = message(&model, some);
    assert!(
        error.contains("Slice: expected the size of an axis, got the sizes"),
        "{error}"
    );
    let branch = |_: &Model, x: Tensor<3>| if x.dims()[0] > 100 { x.exp() } else { x.sin() };
    let error = message(&model, branch);
    assert_eq!(
        error,
        "operation 0: expected the same operation for all sizes, got Sin and Exp and Exp"
    );
    let axis = |_: &Model, x: Tensor<3>| x;
    let inputs = |[n, t]: [usize; 2]| Tensor::<3>::zeros([n, t + 1, I], &Device::flex());
    let error = Exporter::new()
        .export(&model, ["N", "T"], inputs, axis)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("axis 1 of input_0: expected a constant or the size of a symbol"),
        "{error}"
    );
}

#[test]
fn other_errors() {
    let model = model_of(config());
    let sorted = |m: &Model, x: Tensor<3>| m.head.forward(m.gru.forward(x, None).0).sort(1);
    let expected =
        "operation Sort at or after head: this operation has no entry in the table of operations";
    assert_eq!(message(&model, sorted), expected);
    // Burn's own GRU assigns slices.
    let gru = GruConfig::new(I, H, true).init(&Device::flex());
    let inputs = |[n]: [usize; 1]| Tensor::<3>::zeros([n, 5, I], &Device::flex());
    let error = Exporter::new()
        .export(&gru, ["N"], inputs, |gru, x| gru.forward(x, None))
        .unwrap_err();
    assert!(error.to_string().starts_with("operation Empty"), "{error}");
    let elsewhere = |_: &Model, _: Tensor<3>| x([1, 1]);
    let error = message(&model, elsewhere);
    assert!(
        error.starts_with("output: expected a tensor on the capture device"),
        "{error}"
    );
    let names = |exporter: Exporter| {
        let forward = |m: &Model, x: Tensor<3>| m.gru.forward(x, None);
        exporter
            .export(&model, ["N", "T"], x, forward)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        names(Exporter::new().with_output_names(["y"])),
        "outputs: expected 2 names, got 1"
    );
    let twice = names(Exporter::new().with_input_names(["output_0"]));
    assert!(
        twice.contains("expected different names that are not empty, got \"output_0\" again"),
        "{twice}"
    );
    let many = Exporter::new().export(&model, ["A", "B", "C", "D", "E"], |_| x([1, 1]), |_, x| x);
    assert_eq!(
        many.unwrap_err().to_string(),
        "symbols: expected at most 4, got 5"
    );
}

fn parsed(bytes: &[u8]) -> (onnx::Model, Vec<String>) {
    use prost::Message;
    let graph = file::Model::decode(bytes).unwrap().graph.unwrap();
    let nodes = graph
        .node
        .iter()
        .map(|node| file::Node::decode(&node[..]).unwrap());
    let kinds = nodes.filter_map(|node| node.op_type).collect();
    (onnx::Model::from_bytes(bytes.to_vec()).unwrap(), kinds)
}

/// Both directions are one node. The final state is `Y_h`. Equal weights are stored once, under their path.
#[test]
fn nodes_of_a_bidirectional_block() {
    let model = model_of(config().with_bidirectional(true).with_num_layers(2));
    let forward = |m: &Model, x: Tensor<3>| {
        let (y, state) = m.gru.forward(x.clone(), None);
        (y, state, m.gru.forward(x, None).0)
    };
    let bytes = Exporter::new()
        .export(&model, ["N", "T"], x, forward)
        .unwrap();
    let (file, kinds) = parsed(&bytes);
    assert_eq!(kinds.iter().filter(|kind| *kind == "GRU").count(), 4);
    assert!(!kinds.contains(&"Slice".into()));
    let weights = &file.grus()[0].inputs()[1..4];
    assert_eq!(
        weights,
        ["gru.layers.0.W", "gru.layers.0.R", "gru.layers.0.B"]
    );
    assert_eq!(file.grus()[0].attributes().direction, "bidirectional");
    assert!(file.grus().iter().any(|gru| gru.outputs().len() == 2));
}
