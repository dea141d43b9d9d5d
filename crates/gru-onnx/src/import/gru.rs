//! A GRU node of a parsed model, checked.

use burn_onnx::ext::{
    ArgType, Argument, AttrKind, CustomNode, DType, Node, ProcessError, TensorData,
};
use gru_spec::{Direction, GruSpec, Layout, onnx::Attributes};
use onnx_ir::gru::{GruConfig, GruDirection};

/// A node whose weights are known and whose attributes have kernels.
pub(crate) struct Gru<'a> {
    /// Unique in the model, and a valid identifier.
    pub(crate) name: &'a str,
    pub(crate) inputs: &'a [Argument],
    pub(crate) outputs: &'a [Argument],
    /// One for each direction.
    pub(crate) specs: Vec<GruSpec>,
    pub(crate) directions: &'static [Direction],
    pub(crate) layout: Layout,
    pub(crate) d_input: usize,
    pub(crate) d_hidden: usize,
    pub(crate) w: TensorData,
    pub(crate) r: TensorData,
    pub(crate) b: Option<TensorData>,
}

/// The positions of the operator's inputs.
pub(crate) mod input {
    pub(crate) const X: usize = 0;
    pub(crate) const W: usize = 1;
    pub(crate) const R: usize = 2;
    pub(crate) const B: usize = 3;
    pub(crate) const SEQUENCE_LENS: usize = 4;
    pub(crate) const INITIAL_H: usize = 5;
}

/// The weights by name and position.
pub(crate) const WEIGHTS: [(&str, usize); 3] = [("W", input::W), ("R", input::R), ("B", input::B)];

impl<'a> Gru<'a> {
    /// Reads a built-in `GRU` node.
    pub(crate) fn built_in(node: &'a Node) -> Result<Self, ProcessError> {
        let Node::Gru(gru) = node else {
            return Err(failed(format!(
                "expected a GRU, got {:?}",
                node.node_type()
            )));
        };
        let weights = WEIGHTS.map(|(_, at)| gru.inputs.get(at).and_then(Argument::value));
        let attributes = attributes_of(&gru.config);
        Self::new(&gru.name, &gru.inputs, &gru.outputs, attributes, weights)
    }

    /// Reads a node that [`mark_grus`](crate::mark_grus) marked.
    pub(crate) fn marked(node: &'a CustomNode) -> Result<Self, ProcessError> {
        let folded = |at| node.inputs.get(at).and_then(Argument::value);
        let weights =
            WEIGHTS.map(|(key, at)| node.attrs.get_tensor(key).cloned().or_else(|| folded(at)));
        let attributes = attributes_in(node)?;
        let mut gru = Self::new(&node.name, &node.inputs, &node.outputs, attributes, weights)?;
        // A cast to this type may have been skipped.
        let dtype = sequence_dtype(gru.inputs)?;
        for weight in [&mut gru.w, &mut gru.r].into_iter().chain(&mut gru.b) {
            *weight = weight.clone().convert_dtype(dtype);
        }
        Ok(gru)
    }

    fn new(
        name: &'a str,
        inputs: &'a [Argument],
        outputs: &'a [Argument],
        attributes: Attributes,
        [w, r, b]: [Option<TensorData>; 3],
    ) -> Result<Self, ProcessError> {
        let present = |at: usize| argument(inputs, at).is_some();
        if b.is_none() && present(input::B) {
            return Err(not_constant("B"));
        }
        let w = w.ok_or_else(|| not_constant("W"))?;
        let r = r.ok_or_else(|| not_constant("R"))?;
        let directions = attributes.directions().map_err(failed)?;
        let (d, h) = (directions.len(), r.shape().last().copied().unwrap_or(0));
        let i = w.shape().last().copied().unwrap_or(0);
        expect("hidden_size", attributes.hidden_size.unwrap_or(h), h)?;
        expect("shape of W", &w.shape()[..], &[d, 3 * h, i][..])?;
        expect("shape of R", &r.shape()[..], &[d, 3 * h, h][..])?;
        if let Some(b) = &b {
            expect("shape of B", &b.shape()[..], &[d, 6 * h][..])?;
        }
        for (key, weight) in [("W", Some(&w)), ("R", Some(&r)), ("B", b.as_ref())] {
            if let Some(dtype) = weight.map(TensorData::dtype)
                && !dtype.is_float()
            {
                return Err(failed(format!(
                    "{key}: expected floating-point numbers, got {dtype:?}"
                )));
            }
        }
        Ok(Self {
            name,
            inputs,
            outputs,
            specs: attributes.specs().map_err(failed)?,
            directions,
            layout: attributes.layout().map_err(failed)?,
            d_input: i,
            d_hidden: h,
            w,
            r,
            b,
        })
    }

    /// An input that is connected.
    pub(crate) fn input(&self, at: usize) -> Option<&'a Argument> {
        argument(self.inputs, at)
    }

    /// An output that is connected.
    pub(crate) fn output(&self, at: usize) -> Option<&'a Argument> {
        self.outputs
            .get(at)
            .filter(|output| !output.name.is_empty())
    }
}

/// The dtype of `X`, which must be a sequence.
pub(crate) fn sequence_dtype(inputs: &[Argument]) -> Result<DType, ProcessError> {
    match argument(inputs, input::X).map(|x| &x.ty) {
        Some(ArgType::Tensor(x)) if x.rank == 3 => Ok(x.dtype),
        other => Err(failed(format!(
            "X: expected a tensor of rank 3, got {other:?}"
        ))),
    }
}

fn argument(inputs: &[Argument], at: usize) -> Option<&Argument> {
    inputs.get(at).filter(|input| !input.is_optional())
}

pub(crate) fn failed(reason: impl ToString) -> ProcessError {
    ProcessError::Custom(reason.to_string())
}

fn not_constant(key: &str) -> ProcessError {
    failed(format!(
        "{key}: expected an initializer or a Constant node, got a value that the model computes or reads, or a sparse \
         tensor, which only `gru_convert::onnx` reads"
    ))
}

fn expect<T: PartialEq + std::fmt::Debug>(
    what: &str,
    actual: T,
    expected: T,
) -> Result<(), ProcessError> {
    if actual == expected {
        Ok(())
    } else {
        Err(failed(format!(
            "{what}: expected {expected:?}, got {actual:?}"
        )))
    }
}

/// The attributes that onnx-ir parsed. It keeps the activations of one direction, after a check that both
/// directions have the same.
fn attributes_of(config: &GruConfig) -> Attributes {
    let names = [config.gate_activation, config.hidden_activation].map(|name| format!("{name:?}"));
    let directions = config.direction.num_directions();
    Attributes {
        activations: std::iter::repeat_n(names, directions).flatten().collect(),
        activation_alpha: config.activation_alpha.clone().unwrap_or_default(),
        activation_beta: config.activation_beta.clone().unwrap_or_default(),
        clip: config.clip,
        direction: match config.direction {
            GruDirection::Forward => "forward",
            GruDirection::Reverse => "reverse",
            GruDirection::Bidirectional => "bidirectional",
        }
        .into(),
        hidden_size: Some(config.hidden_size),
        layout: config.batch_first.into(),
        linear_before_reset: config.linear_before_reset.into(),
    }
}

/// The attributes of a marked node, as the file has them.
fn attributes_in(node: &CustomNode) -> Result<Attributes, ProcessError> {
    let attrs = &node.attrs;
    for (name, expected) in [
        ("activations", AttrKind::Strings),
        ("activation_alpha", AttrKind::Float32s),
        ("activation_beta", AttrKind::Float32s),
        ("clip", AttrKind::Float32),
        ("direction", AttrKind::String),
        ("hidden_size", AttrKind::Int64),
        ("layout", AttrKind::Int64),
        ("linear_before_reset", AttrKind::Int64),
    ] {
        if let Some(kind) = attrs.kind(name)
            && kind != expected
        {
            return Err(failed(format!(
                "{name}: expected the type {expected:?}, got {kind:?}"
            )));
        }
    }
    let default = Attributes::default();
    let floats = |name| attrs.get_f32s(name).unwrap_or_default().to_vec();
    let names = attrs.get_strings("activations").unwrap_or_default();
    let size = attrs.get_i64("hidden_size");
    let hidden_size = size.map(usize::try_from).transpose();
    Ok(Attributes {
        activations: names.to_vec(),
        activation_alpha: floats("activation_alpha"),
        activation_beta: floats("activation_beta"),
        clip: attrs.get_f32("clip"),
        direction: attrs
            .get_string("direction")
            .map_or(default.direction, String::from),
        hidden_size: hidden_size.map_err(|e| failed(format!("hidden_size: {e}, got {size:?}")))?,
        layout: attrs.get_i64("layout").unwrap_or(default.layout),
        linear_before_reset: attrs.get_i64("linear_before_reset").unwrap_or(0),
    })
}
