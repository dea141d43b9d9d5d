use super::*;
use burn::{
    nn::{Linear, LinearConfig, gru::GruConfig},
    tensor::{Bool, Device, Tensor, TensorData, s},
};
use gru_convert::onnx::{self, file};
use gru_op::{
    Activation, Activations, GruBlock, GruBlockConfig, GruSpec, GruWeights, SequenceOptions,
    Update, gru_sequence_with,
};

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

type Forward = fn(&Model, Tensor<3>) -> Tensor<3>;

fn flags(x: &Tensor<3>) -> Tensor<2, Bool> {
    x.clone().narrow(2, 0, 1).greater_elem(0.5).squeeze_dim(2)
}

fn with(m: &Model, x: Tensor<3>, options: SequenceOptions<3>) -> Tensor<3> {
    m.gru.forward_with(x, options).0
}

fn sequence(x: Tensor<3>, weights: &GruWeights, options: SequenceOptions<2>) -> Tensor<3> {
    gru_sequence_with(x, weights, &GruSpec::default(), options).0
}

macro_rules! calls {
    ($($expected:literal: |$m:ident, $x:ident| $call:expr;)+) => {
        &[$(($expected, |$m, $x| $call)),+]
    };
}

/// Calls that ONNX cannot express, and operations that are not in the tables.
#[test]
fn calls_without_a_node() {
    let calls: &[(&str, Forward)] = calls! {
        "GRU 0 of the model (gru.layers.0.w_ih): ONNX' GRU has no starts of new sequences within a row":
            |m, x| with(m, x.clone(), SequenceOptions::new().starts(flags(&x)));
        "GRU 0 of the model (gru.layers.0.w_ih): ONNX' GRU has no mask; if the valid steps of each row are its first \
         steps, set with_prefix_masks(true)":
            |m, x| with(m, x.clone(), SequenceOptions::new().mask(flags(&x)));
        "GRU 0 of the model (gru.layers.0.w_ih): ONNX' GRU has no packed rows; export forward_with and a mask":
            |m, x| m.gru.forward_packed(Tensor::zeros([7, I], &x.device()), &[5, 2], None).0.unsqueeze();
        "GRU 0 of the model (gru.layers.0.w_ih): ONNX' GRU has no constant lengths; export forward_with and a mask":
            |m, x| with(m, x.narrow(0, 0, 2), SequenceOptions::new().lengths(&[3, 1]));
        "GRU 0 of the model (gru.layers.0.w_ih): ONNX' GRU has no recurrent dropout": |m, x| {
            let dropped = Tensor::ones([x.dims()[0], H], &x.device());
            sequence(x, &m.gru.weights()[0], SequenceOptions::new().recurrent_mask(dropped))
        };
        "GRU 0 of the model (gru.layers.0.w_hh): ONNX' GRU has no input that is already projected": |m, x| {
            let mut weights = m.gru.weights().remove(0);
            weights.w_ih = None;
            sequence(Tensor::cat(vec![x; H], 2), &weights, SequenceOptions::new())
        };
        "GRU 0 of the model (gru.layers.0): expected weights that are parameters, got computed weights": |m, x| {
            let mut weights = m.gru.weights().remove(0);
            weights.w_hh = weights.w_hh.mul_scalar(2);
            sequence(x, &weights, SequenceOptions::new())
        };
        "operation gru_op::states_and_gates: expected gru_op::states, got gru_op::states_and_gates":
            |m, x| m.gru.gates(x, SequenceOptions::new()).remove(0).update;
        "operation Sort at or after head: this operation has no entry in the table of operations":
            |m, x| m.head.forward(m.gru.forward(x, None).0).sort(1);
        // Burn's own GRU assigns slices.
        "operation Empty: this operation has no entry in the table of operations":
            |_m, x| GruConfig::new(I, H, true).init(&x.device()).forward(x.narrow(1, 0, 1), None);
    };
    for (expected, call) in calls {
        assert_eq!(&message(&model_of(config()), call), expected);
    }
}

/// A model or an input that records gradients.
#[test]
fn autodiff() {
    let [plain, autodiff] = [Device::flex(), Device::flex().autodiff()];
    let export = |model: &GruBlock, device: &Device| {
        let inputs = |[n, t]: [usize; 2]| Tensor::<3>::zeros([n, t, I], device);
        Exporter::new().export(model, ["N", "T"], inputs, |m, x| m.forward(x, None))
    };
    let model = config().init(&autodiff);
    assert_eq!(export(&model, &autodiff), Err(ExportError::Autodiff));
    assert_eq!(
        export(&model.valid(), &autodiff),
        Err(ExportError::Autodiff)
    );
    assert_eq!(export(&model, &plain), Err(ExportError::Autodiff));
    assert!(
        ExportError::Autodiff
            .to_string()
            .contains("`model.valid()`")
    );
    assert!(export(&model.valid(), &plain).is_ok());
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
    let same = Exporter::new().export(&model, ["N", "N"], x, |_, x| x);
    assert_eq!(
        same.unwrap_err().to_string(),
        "symbols: expected different names, got \"N\" again"
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
