//! A graph of ONNX that grows operation by operation.

use super::{Value, constants::element_of, trace::Trace};
use burn::backend::{capture::TensorId, ir::TensorIr};
use gru_convert::onnx::file::{self, Size, attribute, kind};
use prost::{Message, bytes::Bytes};
use std::collections::{HashMap, HashSet};

/// The operator set: the first with layer normalization and with `axes` as an input of every reduction.
const OPSET: i64 = 18;
/// The version of the format for this operator set.
const IR_VERSION: i64 = 8;

/// A size of a shape.
#[derive(Debug, Clone, PartialEq)]
pub enum Dim {
    Is(i64),
    /// The size of an axis of a tensor.
    Of(String, usize),
}

/// A name for a size, and its size in each capture.
pub type Symbol<'a> = (&'a str, Vec<usize>);

pub struct Graph<'a> {
    pub trace: &'a Trace,
    symbols: &'a [Symbol<'a>],
    /// The names of inputs and results.
    names: HashMap<TensorId, String>,
    /// Where a size that depends on a symbol is found.
    axes: HashMap<Vec<usize>, (String, usize)>,
    nodes: Vec<file::Node>,
    /// The results of a node without its names.
    made: HashMap<Vec<u8>, Vec<String>>,
    pub initializers: HashMap<String, Bytes>,
    /// The names of initializers, by their content.
    pub stored: HashMap<Vec<u8>, String>,
    taken: HashSet<String>,
    /// Names that nodes read before it was known what they name.
    aliases: HashMap<String, String>,
    /// Names that were read.
    pub used: HashSet<String>,
}

impl<'a> Graph<'a> {
    pub fn new(trace: &'a Trace, symbols: &'a [Symbol<'a>], inputs: &[String]) -> Self {
        let mut graph = Self {
            trace,
            symbols,
            names: HashMap::new(),
            axes: HashMap::new(),
            nodes: Vec::new(),
            made: HashMap::new(),
            initializers: HashMap::new(),
            stored: HashMap::new(),
            taken: HashSet::new(),
            aliases: HashMap::new(),
            used: HashSet::new(),
        };
        for (input, name) in trace.inputs.iter().zip(inputs) {
            graph.set(input.id, name.clone());
        }
        graph
    }

    /// Reserves the name of an input or output.
    ///
    /// # Errors
    /// If it exists.
    pub fn reserve(&mut self, name: &str) -> Result<(), String> {
        if name.is_empty() || !self.taken.insert(name.to_owned()) {
            return Err(format!(
                "names: expected different names that are not empty, got {name:?} again"
            ));
        }
        Ok(())
    }

    /// Gives a tensor a name that nodes read already.
    pub fn alias(&mut self, name: &str, tensor: String) {
        self.aliases.insert(name.to_owned(), tensor);
    }

    /// A name that does not exist yet.
    pub fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        for k in 1.. {
            if self.taken.insert(unique.clone()) {
                break;
            }
            unique = format!("{name}_{k}");
        }
        unique
    }

    /// Names the result of an operation.
    pub fn set(&mut self, id: TensorId, name: String) {
        if let Some(axes) = self.trace.sizes.get(&id) {
            for (axis, sizes) in axes.iter().enumerate() {
                let place = (name.clone(), axis);
                self.axes.entry(sizes.clone()).or_insert(place);
            }
        }
        self.names.insert(id, name);
    }

    /// The name of a tensor that an operation reads.
    ///
    /// # Errors
    /// If it is a constant that depends on a size.
    pub fn read(&mut self, tensor: &TensorIr) -> Result<String, String> {
        self.read_id(tensor.id)
    }

    pub fn read_id(&mut self, id: TensorId) -> Result<String, String> {
        if let Some(name) = self.names.get(&id) {
            self.used.insert(name.clone());
            return Ok(name.clone());
        }
        let trace = self.trace;
        let Some(constant) = trace.constants.get(&id) else {
            return Err(format!(
                "expected a recorded tensor, got tensor {}",
                id.value()
            ));
        };
        let data = &constant.data;
        if data.len() > 1 {
            let name = self.range(constant)?;
            self.names.insert(id, name.clone());
            return Ok(name);
        }
        self.data(constant.name.as_deref().unwrap_or("constant"), &data[0])
    }

    /// The size that has these values in the captures.
    ///
    /// # Errors
    /// If no axis of a tensor has it.
    pub fn size(&mut self, sizes: &[usize]) -> Result<Dim, String> {
        if sizes.iter().all(|&size| size == sizes[0]) {
            return Ok(Dim::Is(sizes[0] as i64));
        }
        let Some((name, axis)) = self.axes.get(sizes).cloned() else {
            return Err(format!(
                "expected the size of an axis, got the sizes {sizes:?}"
            ));
        };
        self.used.insert(name.clone());
        Ok(Dim::Of(name, axis))
    }

    /// A row of sizes. Adjacent constant sizes are one tensor.
    pub fn shape(&mut self, dims: &[Dim]) -> String {
        let mut parts = Vec::new();
        let is_constant = |dim: &Dim| matches!(dim, Dim::Is(_));
        for group in dims.chunk_by(|a, b| is_constant(a) && is_constant(b)) {
            parts.push(match &group[0] {
                Dim::Is(_) => {
                    let sizes = group.iter().filter_map(|dim| match dim {
                        Dim::Is(size) => Some(*size),
                        Dim::Of(..) => None,
                    });
                    self.integers(&sizes.collect::<Vec<_>>())
                }
                Dim::Of(name, axis) => {
                    let axis = *axis as i64;
                    let range = [("start", axis), ("end", axis + 1)];
                    let range = range.map(|(name, value)| file::int(name, value));
                    self.node("Shape", std::slice::from_ref(name), range.into())
                }
            });
        }
        match parts.len() {
            1 => parts.remove(0),
            _ => self.node("Concat", &parts, vec![file::int("axis", 0)]),
        }
    }

    /// The sizes of each axis of a tensor in the captures.
    pub fn sizes(&self, tensor: &TensorIr) -> &'a [Vec<usize>] {
        &self.trace.sizes[&tensor.id]
    }

    /// The result of a node, or of an equal node.
    pub fn node(&mut self, op: &str, input: &[String], attributes: Vec<Bytes>) -> String {
        self.nodes(op, input, attributes, &[op]).remove(0)
    }

    /// A node with several results.
    pub fn nodes(
        &mut self,
        op: &str,
        input: &[String],
        attribute: Vec<Bytes>,
        results: &[&str],
    ) -> Vec<String> {
        let node = file::Node {
            input: input.to_vec(),
            op_type: Some(op.to_owned()),
            attribute,
            ..Default::default()
        };
        let key = node.encode_to_vec();
        if let Some(results) = self.made.get(&key) {
            return results.clone();
        }
        let output: Vec<_> = results.iter().map(|name| self.unique(name)).collect();
        self.made.insert(key, output.clone());
        self.push(node, output.clone());
        output
    }

    /// A node whose results have names already. An empty name is no result.
    pub fn push(&mut self, mut node: file::Node, mut output: Vec<String>) {
        for names in [&mut node.input, &mut output] {
            while names.last().is_some_and(String::is_empty) {
                names.pop();
            }
        }
        node.name = output.iter().find(|name| !name.is_empty()).cloned();
        node.output = output;
        self.nodes.push(node);
    }

    /// The node that makes each result.
    fn makers(&self) -> HashMap<&str, usize> {
        let nodes = self.nodes.iter().enumerate();
        let results = nodes.map(|(k, node)| node.output.iter().map(move |name| (name.as_str(), k)));
        let results = results.flatten();
        results.filter(|(name, _)| !name.is_empty()).collect()
    }

    /// The nodes that `roots` depend on, each after the nodes whose results it reads.
    pub fn dependencies<'r>(&self, roots: impl IntoIterator<Item = &'r str>) -> Vec<usize> {
        let makers = self.makers();
        let (mut order, mut seen) = (Vec::new(), HashSet::new());
        let mut stack: Vec<(usize, bool)> = Vec::new();
        for root in roots {
            stack.extend(makers.get(root).map(|&k| (k, false)));
            while let Some((k, is_ready)) = stack.pop() {
                if is_ready {
                    order.push(k);
                } else if seen.insert(k) {
                    stack.push((k, true));
                    let inputs = self.nodes[k].input.iter().rev();
                    let inputs = inputs.filter_map(|name| makers.get(name.as_str()));
                    stack.extend(inputs.map(|&k| (k, false)));
                }
            }
        }
        order
    }

    /// Whether a tensor depends on another.
    pub fn depends(&self, name: &str, on: &str) -> bool {
        let nodes = self.dependencies([name]);
        let mut inputs = nodes.iter().flat_map(|&k| &self.nodes[k].input);
        name == on || inputs.any(|input| input == on)
    }

    /// The file.
    ///
    /// # Errors
    /// If the type of an input or output is not supported.
    pub fn finish(mut self, outputs: &[String]) -> Result<file::Model, String> {
        for (output, name) in self.trace.outputs.iter().zip(outputs) {
            let node = file::Node {
                input: vec![self.read_id(output.id)?],
                op_type: Some("Identity".into()),
                ..Default::default()
            };
            self.push(node, vec![name.clone()]);
        }
        for name in self.nodes.iter_mut().flat_map(|node| &mut node.input) {
            while let Some(tensor) = self.aliases.get(name) {
                *name = tensor.clone();
            }
        }
        let order = self.dependencies(outputs.iter().map(String::as_str));
        let read: HashSet<&String> = order.iter().flat_map(|&k| &self.nodes[k].input).collect();
        let mut initializer: Vec<_> = self.initializers.iter().collect();
        initializer.retain(|(name, _)| read.contains(name));
        initializer.sort();
        let info = |(value, name): (&Value, &String)| self.info(value, name);
        let inputs = self.trace.inputs.iter();
        let inputs = inputs.map(|input| info((input, &self.names[&input.id])));
        let outputs = self.trace.outputs.iter().zip(outputs).map(info);
        let nodes = order.iter().map(|&k| self.nodes[k].encode_to_vec().into());
        Ok(file::Model {
            ir_version: Some(IR_VERSION),
            producer_name: Some("gru-onnx".into()),
            graph: Some(file::Graph {
                node: nodes.collect(),
                name: Some("model".into()),
                initializer: initializer
                    .into_iter()
                    .map(|(_, bytes)| bytes.clone())
                    .collect(),
                input: inputs.collect::<Result<_, _>>()?,
                output: outputs.collect::<Result<_, _>>()?,
            }),
            opset_import: vec![file::OperatorSet {
                domain: Some(String::new()),
                version: Some(OPSET),
            }],
        })
    }

    /// The name, type and shape of an input or output.
    fn info(&self, value: &Value, name: &str) -> Result<Bytes, String> {
        let sizes = self.trace.sizes[&value.id].iter().map(|sizes| {
            let mut symbols = self.symbols.iter();
            let symbol = symbols.find(|(_, of_symbol)| of_symbol == sizes);
            match symbol {
                Some((name, _)) => Size::Free(name),
                None if sizes.iter().all(|&size| size == sizes[0]) => Size::Is(sizes[0]),
                None => Size::Free(""),
            }
        });
        let sizes: Vec<_> = sizes.collect();
        Ok(file::value(name, element_of(value.dtype)?, &sizes))
    }
}

pub fn ints(name: &str, values: &[usize]) -> Bytes {
    let values = values.iter().map(|&value| value as i64).collect();
    attribute(name, kind::INTS, |a| a.ints = values)
}

pub fn float(name: &str, value: f32) -> Bytes {
    attribute(name, kind::FLOAT, |a| a.f = Some(value))
}
