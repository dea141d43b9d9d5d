//! The GRUs of a `.onnx` file.

use super::{Node, config, elsewhere, import, proto, sparse, tensor};
use crate::{
    error::ConvertError,
    state_dict::{StateDict, shown},
};
use burn::tensor::{DType, Device, TensorData};
use gru_op::{
    GruBlock, GruBlockConfig, GruError,
    files::{self, Limit, ONNX},
};
use prost::{Message, bytes::Bytes};
use std::{
    collections::BTreeMap,
    io::{self, Cursor},
    path::{Path, PathBuf},
};

const NO_CONSTANT: &str = "expected an initializer or a Constant node, got neither; an exporter \
                           that folds constants makes one of what is computed from them";

/// The maximum size of a protocol-buffer file.
const MAX_FILE: u64 = 1 << 31;

/// The numbers of fields: the graph of a model, and nodes and tensors of a graph.
const GRAPH: u32 = 7;
const NODE: u32 = 1;
const INITIALIZER: u32 = 5;
const SPARSE_INITIALIZER: u32 = 15;
/// A function of a model.
const FUNCTION: u32 = 25;
/// The bytes that an entry of a graph needs.
const ENTRY: u64 = 512;

/// The maximum number of `Cast` and `Identity` nodes one after the other.
const CHAIN: usize = 16;

/// A `.onnx` file: the GRU nodes of its main graph, and its constants by name.
///
/// ```no_run
/// # fn main() -> Result<(), gru_convert::ConvertError> {
/// use gru_convert::onnx;
/// # let device = burn::tensor::Device::flex();
/// let model = onnx::Model::open("enhancer.onnx")?;
/// for gru in model.grus() {
///     println!("{} {:?}", gru.name(), model.config(gru.name())?);
/// }
/// let gru = model.import("GRU_14", &device)?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Model {
    grus: Vec<Node>,
    /// The GRU of each name, if there is only one.
    names: BTreeMap<String, Option<usize>>,
    /// The GRU of each output.
    outputs: BTreeMap<String, usize>,
    constants: BTreeMap<String, Constant>,
    /// Recurrent nodes that are not read.
    elsewhere: elsewhere::Elsewhere,
    /// The path of the file, next to which are tensors outside of it.
    path: Option<PathBuf>,
}

/// The source of a name's values.
#[derive(Debug, Clone)]
enum Constant {
    /// A tensor in the file.
    Tensor(Bytes),
    /// A sparse tensor in the file, or the reason why its dense values are not read.
    Sparse(Result<Bytes, String>),
    /// Another constant, converted by a `Cast` node, or unchanged by an `Identity` node.
    Same(String, Option<DType>),
    /// Two constants have this name.
    Ambiguous,
}

/// An attribute of a node.
fn attribute(node: &proto::Node, name: &str) -> Option<proto::Attribute> {
    let all = node.attribute.iter();
    let mut all = all.filter_map(|bytes| proto::decode::<proto::Attribute>(bytes).ok());
    all.find(|attribute| attribute.name() == name)
}

impl Model {
    /// Opens a file. Tensors in separate files are read on request.
    ///
    /// # Errors
    /// If the file is not a valid model, or if a GRU has an unknown attribute or an attribute with
    /// another type.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
        let path = path.as_ref();
        let failed = |error: io::Error| ConvertError::File {
            path: path.into(),
            error,
        };
        let file = files::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        if size > MAX_FILE {
            let reason = format!("expected at most {MAX_FILE} bytes, as ONNX has it, got {size}");
            return Err(failed(files::invalid(reason)));
        }
        let bytes = files::read(path).map_err(failed)?;
        Self::read(bytes.into(), Some(path.to_owned())).map_err(|error| match error {
            ConvertError::Model { reason } => failed(files::invalid(reason)),
            other => other,
        })
    }

    /// Reads a model from memory. It must contain all its tensors.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ConvertError> {
        Self::read(bytes.into(), None)
    }

    fn read(bytes: Bytes, path: Option<PathBuf>) -> Result<Self, ConvertError> {
        let file = path
            .as_deref()
            .map_or("".into(), |path| path.to_string_lossy());
        let file = file.into_owned();
        let no_model = |reason: String| ConvertError::Model {
            reason: files::mismatch(ONNX, &file, &mut Cursor::new(&bytes), reason),
        };
        let broken = |error: prost::DecodeError| no_model(error.to_string());
        let (mut graph, mut functions) = (None, Vec::new());
        for field in proto::fields(bytes.clone()) {
            match field.map_err(broken)? {
                (GRAPH, content) => graph = Some(content),
                (FUNCTION, content) => functions.push(content),
                _ => {}
            }
        }
        let graph = graph.ok_or_else(|| no_model("it has no graph".into()))?;
        let mut model = Self {
            path,
            ..Self::default()
        };
        let mut limit = Limit::new(bytes.len() as u64);
        for field in proto::fields(graph) {
            let (number, content) = field.map_err(broken)?;
            limit.claim(ENTRY).map_err(no_model)?;
            if number == INITIALIZER {
                let name = proto::TensorName::decode(content.clone())
                    .map_err(broken)?
                    .name;
                model.add(name.unwrap_or_default(), Constant::Tensor(content));
            } else if number == SPARSE_INITIALIZER {
                let name = sparse::name(&content).map_err(no_model)?;
                model.add_sparse(name, content, &mut limit);
            } else if number == NODE {
                let kind = proto::NodeKind::decode(content.clone()).map_err(broken)?;
                if matches!(kind.domain.as_deref(), None | Some("" | "ai.onnx")) {
                    model.add_node(kind.op_type.as_deref(), &content, &mut limit)?;
                }
                elsewhere::add_node(&mut model.elsewhere, &content, &mut limit)
                    .map_err(no_model)?;
            }
        }
        for function in &functions {
            elsewhere::add_function(&mut model.elsewhere, function, &mut limit)
                .map_err(no_model)?;
        }
        Ok(model)
    }

    fn add_node(
        &mut self,
        kind: Option<&str>,
        bytes: &Bytes,
        limit: &mut Limit,
    ) -> Result<(), ConvertError> {
        let Some(kind @ ("GRU" | "Constant" | "Identity" | "Cast")) = kind else {
            return Ok(());
        };
        let node: proto::Node = proto::decode(bytes).map_err(|reason| ConvertError::Model {
            reason: format!("{kind}: {reason}"),
        })?;
        match (kind, &node.output[..]) {
            ("GRU", _) => {
                let (gru, place) = (Node::read(node)?, self.grus.len());
                let named = self.names.entry(gru.name().to_owned());
                named.and_modify(|gru| *gru = None).or_insert(Some(place));
                for output in gru.outputs().iter().filter(|name| !name.is_empty()) {
                    self.outputs.entry(output.clone()).or_insert(place);
                }
                self.grus.push(gru);
            }
            ("Constant", [name]) => {
                if let Some(tensor) = attribute(&node, "value").and_then(|value| value.t) {
                    self.add(name.clone(), Constant::Tensor(tensor));
                } else if let Some(tensor) =
                    attribute(&node, "sparse_value").and_then(|value| value.sparse_tensor)
                {
                    self.add_sparse(name.clone(), tensor, limit);
                }
            }
            (_, [name]) => {
                let to = attribute(&node, "to").and_then(|to| {
                    let (dtype, _) = tensor::float(to.i().try_into().ok()?)?;
                    Some(dtype)
                });
                if let ([from], true) = (&node.input[..], kind == "Identity" || to.is_some()) {
                    self.add(name.clone(), Constant::Same(from.clone(), to));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_sparse(&mut self, name: String, tensor: Bytes, limit: &mut Limit) {
        let claimed = sparse::claim(&tensor, limit);
        self.add(name, Constant::Sparse(claimed.map(|()| tensor)));
    }

    fn add(&mut self, name: String, constant: Constant) {
        let entry = self.constants.entry(name);
        entry
            .and_modify(|constant| *constant = Constant::Ambiguous)
            .or_insert(constant);
    }

    /// The GRU nodes of the main graph, in order. Loop bodies, branches and functions are not read,
    /// and the error for a GRU in one of them says so.
    pub fn grus(&self) -> &[Node] {
        &self.grus
    }

    /// The GRU with this name. If several GRUs share a name, use the name of an output.
    ///
    /// # Errors
    /// If there is no such GRU, or more than one.
    pub fn gru(&self, name: &str) -> Result<&Node, ConvertError> {
        let named = self.names.get(name).copied().flatten();
        let found = named.or_else(|| self.outputs.get(name).copied());
        found.map(|gru| &self.grus[gru]).ok_or_else(|| {
            let names = shown(self.grus.iter().map(Node::name));
            let named = self.elsewhere.get_key_value(name);
            let other = named.or_else(|| self.elsewhere.first_key_value());
            let other = other.map_or(String::new(), |(name, is)| format!("; {name:?} is {is}"));
            ConvertError::Model {
                reason: format!(
                    "expected the name of one GRU, or of its output, got {name:?}; there are {names}{other}"
                ),
            }
        })
    }

    /// The values of a constant: an initializer, a `Constant` node (both also sparse), or an `Identity` of one, or a `Cast` of
    /// one to a float type. It may belong to a layer that is not a GRU.
    ///
    /// # Errors
    /// - If the name is not a constant, or two constants have it.
    /// - If the tensor has no floating-point numbers, or its size does not match its shape.
    /// - If it is in another file that cannot be read or is outside of the model's folder.
    pub fn constant(&self, name: &str) -> Result<TensorData, ConvertError> {
        let broken = |reason: String| ConvertError::Tensor {
            name: name.to_owned(),
            reason,
        };
        let (mut at, mut casts) = (name, Vec::new());
        let path = self.path.as_deref();
        for _ in 0..=CHAIN {
            let data = match self.constants.get(at) {
                Some(Constant::Tensor(bytes)) => {
                    let tensor = proto::decode(bytes).map_err(broken)?;
                    tensor::read(name, &tensor, path)?
                }
                Some(Constant::Sparse(bytes)) => {
                    let bytes = bytes.as_ref().map_err(|reason| broken(reason.clone()))?;
                    sparse::read(name, bytes, path)?
                }
                Some(Constant::Same(other, cast)) => {
                    at = other;
                    casts.extend(*cast);
                    continue;
                }
                Some(Constant::Ambiguous) => {
                    return Err(broken("expected one constant of this name, got two".into()));
                }
                None => return Err(broken(NO_CONSTANT.into())),
            };
            let casts = casts.into_iter().rev();
            return Ok(casts.fold(data, TensorData::convert_dtype));
        }
        Err(broken(format!(
            "expected at most {CHAIN} Cast and Identity nodes before it"
        )))
    }

    /// `W`, `R` and the optional `B` of a GRU.
    ///
    /// # Errors
    /// If there is no such GRU, or if its weights are not readable constants.
    pub fn weights(&self, name: &str) -> Result<StateDict, ConvertError> {
        let gru = self.gru(name)?;
        let mut dict = StateDict::new();
        for (key, input) in [("W", 1), ("R", 2), ("B", 3)] {
            match gru.inputs().get(input).filter(|value| !value.is_empty()) {
                Some(value) => dict.insert(key, self.constant(value)?),
                None if key == "B" => {}
                None => return Err(GruError::MissingKey { key: key.into() }.into()),
            }
        }
        Ok(dict)
    }

    /// The configuration of a GRU.
    ///
    /// # Errors
    /// As [`weights`](Self::weights) and [`config`].
    pub fn config(&self, name: &str) -> Result<GruBlockConfig, ConvertError> {
        Ok(self.read_gru(name)?.0)
    }

    fn read_gru(&self, name: &str) -> Result<(GruBlockConfig, StateDict), ConvertError> {
        let dict = self.weights(name)?;
        let config = config(&dict, "", self.gru(name)?.attributes())?;
        Ok((config, dict))
    }

    /// Imports consecutive GRUs, first to last, as the layers of one block, as exporters write a GRU
    /// with several layers. All must have the same H, layout and directions.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), gru_convert::ConvertError> {
    /// let model = gru_convert::onnx::Model::open("model.onnx")?;
    /// let block = model.import_layers(&["gru1", "gru2"], &burn::tensor::Device::flex())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`import`](Self::import). Also if there are no names, or if the GRUs are not layers of one
    /// block.
    pub fn import_layers(&self, names: &[&str], device: &Device) -> Result<GruBlock, ConvertError> {
        let grus: Result<Vec<_>, _> = names.iter().map(|name| self.read_gru(name)).collect();
        let grus = grus?;
        let Some((first, _)) = grus.first() else {
            return Err(ConvertError::Model {
                reason: "expected the names of GRUs, got none".into(),
            });
        };
        let (mut options, mut weights) = (Vec::new(), Vec::new());
        for (k, (config, dict)) in grus.iter().enumerate() {
            // The common properties of the layers, and the number of input features that this layer must
            // have.
            let says = |of: &GruBlockConfig, d_input: usize| {
                format!(
                    "d_input {d_input}, d_hidden {}, bidirectional {}, reverse {}, batch_first {}",
                    of.d_hidden, of.bidirectional, of.reverse, of.batch_first
                )
            };
            let d_input = first.layer_inputs(k * first.layer_count());
            let (expected, actual) = (says(first, d_input), says(config, config.d_input));
            if expected != actual {
                let name = names[k];
                let reason = format!("layer {k}, {name:?}: expected {expected}, got {actual}");
                return Err(ConvertError::Model { reason });
            }
            let block = import(dict, "", config, device)?;
            options.extend((0..config.layer_count()).map(|k| config.options_of(k)));
            weights.extend(block.weights());
        }
        let config = first.clone().with_num_layers(names.len());
        Ok(config.with_layers(options).init_with(weights)?)
    }

    /// Imports a GRU as a block with one layer. [`run`](super::run) runs the block in ONNX' layouts.
    /// `initial_h` is an argument of the block and not a part of it. [`constant`](Self::constant) reads
    /// an `initial_h` in the file.
    ///
    /// # Errors
    /// As [`weights`](Self::weights) and [`import`].
    pub fn import(&self, name: &str, device: &Device) -> Result<GruBlock, ConvertError> {
        let (config, dict) = self.read_gru(name)?;
        import(&dict, "", &config, device)
    }
}
