//! A copy of a model whose GRUs the parser does not check.

use crate::gru::WEIGHTS;
use onnx_ir::{
    AttributeProto, AttributeType, GraphProto, Message, ModelProto, NodeProto, TensorProto,
};
use std::{
    collections::HashMap,
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

/// The domain of marked nodes.
pub(crate) const DOMAIN: &str = "gru-op";

/// Why [`with_lengths`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {reason}")]
    File {
        /// The path of the file.
        path: String,
        /// The error.
        reason: String,
    },
    /// The weights of a GRU are in another file, next to the model.
    #[error(
        "GRU {node:?}: {key}: expected a tensor inside the model file, got one in another file"
    )]
    External {
        /// The name of the node in the model.
        node: String,
        /// `W`, `R` or `B`.
        key: &'static str,
    },
    /// The program is not a build script.
    #[error(
        "with_lengths: expected the variable OUT_DIR, which Cargo sets for a build script, got none"
    )]
    OutDir,
}

/// Writes a copy of a model to `OUT_DIR`, and returns its path for `ModelGen::input`. In the copy, GRU nodes
/// are operators of the domain `gru-op`, for `register_custom_op(GruOverride::new())`.
///
/// The parser of burn-onnx rejects some GRUs before an override sees them. In the copy it accepts:
/// - GRUs with `sequence_lens`,
/// - bidirectional GRUs whose directions have different activations,
/// - GRUs without the attribute `hidden_size`.
///
/// Loop bodies and branches are not changed. A build script that prints `rerun-if-changed` lines must print one for the
/// model, too.
///
/// # Errors
/// If the file cannot be read, is not an ONNX model, or cannot be written. Also if the weights of a GRU are
/// outside of the file.
pub fn with_lengths(model: impl AsRef<Path>) -> Result<String, Error> {
    let out = env::var_os("OUT_DIR").ok_or(Error::OutDir)?;
    // Models of the same name in several folders have a copy each.
    let mut hasher = DefaultHasher::new();
    model.as_ref().hash(&mut hasher);
    let folder = format!("gru-onnx/{:016x}", hasher.finish());
    copy(model.as_ref(), &PathBuf::from(out).join(folder))
}

/// Writes the copy to a folder.
pub(crate) fn copy(model: &Path, folder: &Path) -> Result<String, Error> {
    let file = |path: &Path, reason: String| Error::File {
        path: path.display().to_string(),
        reason,
    };
    let bytes = fs::read(model).map_err(|e| file(model, e.to_string()))?;
    let proto = ModelProto::parse_from_bytes(&bytes).map_err(|e| e.to_string());
    let no_model = |reason: &str| file(model, format!("expected an ONNX model, got {reason}"));
    let mut proto = proto.map_err(|reason| no_model(&reason))?;
    let graph = proto.graph.as_mut();
    mark(graph.ok_or_else(|| no_model("one without a graph"))?)?;
    let copy = folder.join(model.file_name().unwrap_or_default());
    let written = proto
        .write_to_bytes()
        .map_err(|e| file(&copy, e.to_string()))?;
    fs::create_dir_all(folder).map_err(|e| file(folder, e.to_string()))?;
    fs::write(&copy, written).map_err(|e| file(&copy, e.to_string()))?;
    Ok(copy.display().to_string())
}

/// Marks the GRU nodes, and moves their weights into attributes. As inputs, the generated model would store
/// them a second time, because the parser does not remove constant inputs of operators that it does not know.
fn mark(graph: &mut GraphProto) -> Result<(), Error> {
    let mut constants: HashMap<&str, &TensorProto> = HashMap::new();
    for tensor in &graph.initializer {
        constants.insert(&tensor.name, tensor);
    }
    for node in &graph.node {
        let value = match node.op_type.as_str() {
            "Constant" => {
                let value = node.attribute.iter().find(|a| a.name == "value");
                value.and_then(|a| a.t.as_ref())
            }
            // Equal weights of two layers are one tensor in some files.
            "Identity" => node
                .input
                .first()
                .and_then(|name| constants.get(name.as_str()).copied()),
            _ => None,
        };
        if let (Some(value), Some(name)) = (value, node.output.first()) {
            constants.insert(name, value);
        }
    }
    // The rest of the model is not copied.
    let weights = graph.node.iter().filter(|node| is_gru(node));
    let weights = weights
        .flat_map(|node| WEIGHTS.map(|(_, at)| node.input.get(at)))
        .flatten();
    let weights: HashMap<String, TensorProto> = weights
        .filter_map(|name| Some((name.clone(), (*constants.get(name.as_str())?).clone())))
        .collect();
    for node in graph.node.iter_mut().filter(|node| is_gru(node)) {
        mark_node(node, &weights)?;
    }
    Ok(())
}

fn is_gru(node: &NodeProto) -> bool {
    node.op_type == "GRU" && matches!(node.domain.as_str(), "" | "ai.onnx")
}

fn mark_node(node: &mut NodeProto, constants: &HashMap<String, TensorProto>) -> Result<(), Error> {
    for (key, at) in WEIGHTS {
        let Some(tensor) = node.input.get(at).and_then(|name| constants.get(name)) else {
            continue; // Absent, or computed. Code generation reports computed weights.
        };
        if !tensor.external_data.is_empty() {
            let node = node.name.clone();
            return Err(Error::External { node, key });
        }
        let mut attribute = AttributeProto::new();
        attribute.name = key.into();
        attribute.type_ = AttributeType::TENSOR.into();
        attribute.t = Some(tensor.clone()).into();
        node.attribute.push(attribute);
        node.input[at].clear();
    }
    node.domain = DOMAIN.into();
    Ok(())
}
