//! Writes a block as a `.onnx` file.

use super::{
    Attributes, SYSTEM, node,
    proto::{self, element, kind},
    tensor,
};
use crate::{arrays, error::ConvertError, system::System};
use burn::tensor::{DType, TensorData};
use gru_op::GruBlock;
use prost::{Message, bytes::Bytes};

/// The operator set of a written model: the first whose `Split` takes its parts as an input. Runtimes of
/// the last years support it.
const OPSET: i64 = 13;
/// The version of the format for this operator set.
const IR_VERSION: i64 = 7;

/// What a file can express: a sequence of nodes.
const FILE: System = System {
    layers: true,
    ..SYSTEM
};

/// The inputs of a [model](model) in addition to `x`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct ModelInputs {
    /// An initial state `state [L·D,N,H]`. Without it the state is zero.
    pub state: bool,
    /// The number of valid steps of each row, `lengths [N]`, int32. Without it all steps are valid.
    pub lengths: bool,
}

impl ModelInputs {
    /// Sets whether the model has an initial state.
    pub fn with_state(self, state: bool) -> Self {
        Self { state, ..self }
    }

    /// Sets whether the model has lengths.
    pub fn with_lengths(self, lengths: bool) -> Self {
        Self { lengths, ..self }
    }
}

/// An ONNX model that computes the same as [`GruBlock::forward`], or
/// [`forward_with`](GruBlock::forward_with) lengths, in inference. Returns the bytes of a `.onnx` file.
///
/// Its inputs are `x`, `[N,T,I]` or `[T,N,I]` as in the block, and the inputs that `inputs` selects. Its
/// outputs are `y` and `new_state [L·D,N,H]`, as in the block. N and T are free. There is one GRU node
/// per layer, with `layout = 0`, which every runtime supports. Dropout is left out. Float64 parameters
/// give a float64 model, all others a float32 model.
///
/// ```
/// # use gru_convert::onnx::{self, ModelInputs};
/// # use gru_op::GruBlockConfig;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = burn::tensor::Device::flex();
/// # let dir = std::env::temp_dir().join("gru-convert-doc-onnx");
/// # std::fs::create_dir_all(&dir)?;
/// let gru = GruBlockConfig::new(3, 4).with_num_layers(2).init(&device);
/// let inputs = ModelInputs::default().with_state(true);
/// std::fs::write(dir.join("gru.onnx"), onnx::model(&gru, inputs)?)?;
/// # let model = onnx::Model::open(dir.join("gru.onnx"))?;
/// # assert_eq!(model.grus().len(), 2);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If ONNX cannot express a layer (see [`export`](super::export)), if only some parameters are float64, or if a
/// parameter cannot be read from its device.
pub fn model(block: &GruBlock, inputs: ModelInputs) -> Result<Vec<u8>, ConvertError> {
    FILE.check_block(block)?;
    let (directions, h) = (block.directions(), block.d_hidden);
    let has_bias = arrays::has_bias(block);
    let entries = block.layers.len();
    let mut graph = Builder::default();

    let mut x = if block.batch_first {
        graph.node("Transpose", &["x"], "x.time_first", vec![perm(&[1, 0, 2])])
    } else {
        "x".to_owned()
    };
    // [L·D,N,H] as one tensor per layer.
    let states = inputs.state.then(|| {
        let names: Vec<String> = (0..block.num_layers)
            .map(|k| format!("state.{k}"))
            .collect();
        let parts = vec![directions as i64; block.num_layers];
        let parts = graph.shape("state.parts", &parts);
        graph.nodes.push(proto::Node {
            input: vec!["state".into(), parts],
            output: names.clone(),
            name: Some("state.split".into()),
            op_type: Some("Split".into()),
            attribute: vec![int("axis", 0)],
        });
        names
    });
    let joined = graph.shape("y.shape", &[0, 0, (directions * h) as i64]);
    let is_double = of_one_type(block)?;
    let mut ends = Vec::with_capacity(block.num_layers);
    for (k, layer) in block.layers.chunks_exact(directions).enumerate() {
        let (dict, attributes) = node(layer, has_bias, "")?;
        let mut input = vec![x];
        for key in ["W", "R", "B"] {
            input.push(match dict.get(key) {
                Some(data) => graph.initializer(&format!("gru.{k}.{key}"), data),
                None => String::new(),
            });
        }
        input.push(if inputs.lengths { "lengths" } else { "" }.into());
        input.push(states.as_ref().map_or(String::new(), |s| s[k].clone()));
        while input.last().is_some_and(String::is_empty) {
            input.pop();
        }
        let (y, y_h) = (format!("gru.{k}.Y"), format!("gru.{k}.Y_h"));
        graph.nodes.push(proto::Node {
            input,
            output: vec![y.clone(), y_h.clone()],
            name: Some(format!("gru.{k}")),
            op_type: Some("GRU".into()),
            attribute: described(&attributes),
        });
        ends.push(y_h);
        // [T,D,N,H] to [T,N,D·H].
        let name = format!("gru.{k}.directions_last");
        let swapped = graph.node("Transpose", &[&y], &name, vec![perm(&[0, 2, 1, 3])]);
        x = graph.node(
            "Reshape",
            &[&swapped, &joined],
            &format!("gru.{k}.y"),
            vec![],
        );
    }
    if block.batch_first {
        graph.node("Transpose", &[&x], "y", vec![perm(&[1, 0, 2])])
    } else {
        graph.node("Identity", &[&x], "y", vec![])
    };
    let ends: Vec<&str> = ends.iter().map(String::as_str).collect();
    graph.node("Concat", &ends, "new_state", vec![int("axis", 0)]);

    let (n, t) = (Size::Free("N"), Size::Free("T"));
    let time_first = |features: usize| {
        if block.batch_first {
            [n, t, Size::Is(features)]
        } else {
            [t, n, Size::Is(features)]
        }
    };
    let number = if is_double {
        element::DOUBLE
    } else {
        element::FLOAT
    };
    let state = [Size::Is(entries), n, Size::Is(h)];
    let mut takes = vec![value("x", number, &time_first(block.d_input))];
    if inputs.lengths {
        takes.push(value("lengths", element::INT32, &[n]));
    }
    if inputs.state {
        takes.push(value("state", number, &state));
    }
    let gives = vec![
        value("y", number, &time_first(directions * h)),
        value("new_state", number, &state),
    ];
    Ok(graph.finish(takes, gives).encode_to_vec())
}

/// Whether all parameters are float64.
///
/// # Errors
/// If only some are: the nodes of a model pass one type on.
fn of_one_type(block: &GruBlock) -> Result<bool, ConvertError> {
    let dtypes = block.weights().into_iter().flat_map(|weights| {
        let matrices = weights.w_ih.into_iter().chain([weights.w_hh]);
        let biases = weights.b_ih.into_iter().chain(weights.b_hh);
        let matrices = matrices.map(|matrix| matrix.dtype());
        matrices.chain(biases.map(|bias| bias.dtype()))
    });
    let (double, other): (Vec<_>, Vec<_>) = dtypes.partition(|&dtype| dtype == DType::F64);
    if !double.is_empty() && !other.is_empty() {
        return Err(FILE.lacks("parameters of which only some are float64"));
    }
    Ok(other.is_empty())
}

/// The nodes and constants of a graph, in order.
#[derive(Default)]
struct Builder {
    nodes: Vec<proto::Node>,
    initializers: Vec<Bytes>,
}

impl Builder {
    /// Adds a node with one output and returns the output's name.
    fn node(&mut self, op: &str, input: &[&str], output: &str, attribute: Vec<Bytes>) -> String {
        self.nodes.push(proto::Node {
            input: input.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            name: Some(format!("{output}.{op}")),
            op_type: Some(op.to_owned()),
            attribute,
        });
        output.to_owned()
    }

    fn initializer(&mut self, name: &str, data: &TensorData) -> String {
        let tensor = tensor::write(name, data).encode_to_vec();
        self.initializers.push(tensor.into());
        name.to_owned()
    }

    /// Adds integers, the type of shapes in ONNX.
    fn shape(&mut self, name: &str, values: &[i64]) -> String {
        let tensor = proto::Tensor {
            dims: vec![values.len() as i64],
            data_type: Some(element::INT64),
            int64_data: values.to_vec(),
            name: Some(name.to_owned()),
            ..Default::default()
        };
        self.initializers.push(tensor.encode_to_vec().into());
        name.to_owned()
    }

    fn finish(self, input: Vec<Bytes>, output: Vec<Bytes>) -> proto::Model {
        let nodes = self.nodes.iter().map(|n| n.encode_to_vec().into());
        proto::Model {
            ir_version: Some(IR_VERSION),
            producer_name: Some("gru-op".into()),
            graph: Some(proto::Graph {
                node: nodes.collect(),
                name: Some("gru".into()),
                initializer: self.initializers,
                input,
                output,
            }),
            opset_import: vec![proto::OperatorSet {
                domain: Some(String::new()),
                version: Some(OPSET),
            }],
        }
    }
}

/// A size of an input or output.
#[derive(Clone, Copy)]
pub enum Size<'a> {
    /// A constant.
    Is(usize),
    /// A size that each call defines. It may have no name.
    Free(&'a str),
}

/// The name, type and shape of an input or output.
pub fn value(name: &str, elem_type: i32, sizes: &[Size<'_>]) -> Bytes {
    let dim = |size: &Size<'_>| match *size {
        Size::Is(size) => proto::Dim {
            value: Some(size as i64),
            param: None,
        },
        Size::Free(name) => proto::Dim {
            value: None,
            param: (!name.is_empty()).then(|| name.to_owned()),
        },
    };
    let shape = proto::Shape {
        dim: sizes.iter().map(dim).collect(),
    };
    let info = proto::ValueInfo {
        name: Some(name.to_owned()),
        r#type: Some(proto::Type {
            tensor_type: Some(proto::TensorType {
                elem_type: Some(elem_type),
                shape: Some(shape),
            }),
        }),
    };
    info.encode_to_vec().into()
}

/// The attributes of a GRU node that differ from the operator's defaults.
pub fn described(attributes: &Attributes) -> Vec<Bytes> {
    let default = Attributes::default();
    let mut list = Vec::new();
    if let Some(size) = attributes.hidden_size {
        list.push(int("hidden_size", size as i64));
    }
    if attributes.linear_before_reset != default.linear_before_reset {
        list.push(int("linear_before_reset", attributes.linear_before_reset));
    }
    if attributes.direction != default.direction {
        list.push(attribute("direction", kind::STRING, |a| {
            a.s = Some(attributes.direction.clone().into());
        }));
    }
    if let Some(clip) = attributes.clip {
        list.push(attribute("clip", kind::FLOAT, |a| a.f = Some(clip)));
    }
    if !attributes.activations.is_empty() {
        let names = attributes.activations.iter().cloned().map(Bytes::from);
        list.push(attribute("activations", kind::STRINGS, |a| {
            a.strings = names.collect();
        }));
    }
    for (name, values) in [
        ("activation_alpha", &attributes.activation_alpha),
        ("activation_beta", &attributes.activation_beta),
    ] {
        if !values.is_empty() {
            list.push(attribute(name, kind::FLOATS, |a| a.floats = values.clone()));
        }
    }
    list
}

fn perm(dims: &[i64]) -> Bytes {
    attribute("perm", kind::INTS, |a| a.ints = dims.to_vec())
}

/// An attribute with an integer.
pub fn int(name: &str, value: i64) -> Bytes {
    attribute(name, kind::INT, |a| a.i = Some(value))
}

/// An attribute of a type of [`kind`], with the value that `fill` sets.
pub fn attribute(name: &str, r#type: i32, fill: impl FnOnce(&mut proto::Attribute)) -> Bytes {
    let mut attribute = proto::Attribute {
        name: Some(name.to_owned()),
        r#type: Some(r#type),
        ..Default::default()
    };
    fill(&mut attribute);
    attribute.encode_to_vec().into()
}
