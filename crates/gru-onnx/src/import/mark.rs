//! A copy of a model whose GRUs the parser does not check.

use super::gru::WEIGHTS;
use onnx_ir::{
    AttributeProto, AttributeType, GraphProto, Message, ModelProto, NodeProto, TensorProto,
};
use std::{
    collections::{BTreeSet, HashMap},
    env,
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read, Seek, SeekFrom},
    path::{Component, Path, PathBuf},
};

/// The domain of marked nodes.
pub(crate) const DOMAIN: &str = "gru-op";

/// Why [`mark_grus`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MarkError {
    /// A file could not be read or written, or is no ONNX model.
    #[error("{path}: {error}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error. Its kind is `InvalidData` if the file is no ONNX model.
        error: io::Error,
    },
    /// The program is not a build script.
    #[error(
        "mark_grus: expected the variable OUT_DIR, which Cargo sets for a build script, got none"
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
/// ```no_run
/// # fn main() -> Result<(), gru_onnx::MarkError> {
/// burn_onnx::ModelGen::new()
///     .input(&gru_onnx::mark_grus("model.onnx")?)
///     .out_dir("model/")
///     .register_custom_op(gru_onnx::GruOverride::new())
///     .run_from_script();
/// # Ok(())
/// # }
/// ```
///
/// Loop bodies and branches are not changed. Files with tensors outside of the model are linked or copied, too. A build
/// script that prints `rerun-if-changed` lines must print one for the model, too.
///
/// # Errors
/// If a file cannot be read, is not an ONNX model, or cannot be written.
pub fn mark_grus(model: impl AsRef<Path>) -> Result<String, MarkError> {
    let out = env::var_os("OUT_DIR").ok_or(MarkError::OutDir)?;
    // Models of the same name in several folders have a copy each.
    let mut hasher = DefaultHasher::new();
    model.as_ref().hash(&mut hasher);
    let folder = format!("gru-onnx/{:016x}", hasher.finish());
    copy(model.as_ref(), &PathBuf::from(out).join(folder))
}

/// Writes the copy to a folder.
pub(crate) fn copy(model: &Path, folder: &Path) -> Result<String, MarkError> {
    let bytes = fs::read(model).map_err(|e| failed(model, e))?;
    let no_model = |reason: &str| invalid(model, format!("expected an ONNX model, got {reason}"));
    let proto = ModelProto::parse_from_bytes(&bytes);
    let mut proto = proto.map_err(|reason| no_model(&reason.to_string()))?;
    let graph = proto.graph.as_mut();
    let graph = graph.ok_or_else(|| no_model("one without a graph"))?;
    mark(graph, model)?;
    let mut locations = BTreeSet::new();
    external_files(graph, &mut locations);
    for location in locations {
        let (from, to) = (external(model, location)?, folder.join(location));
        link(&from, &to).map_err(|e| failed(&to, e))?;
    }
    let copy = folder.join(model.file_name().unwrap_or_default());
    let written = proto
        .write_to_bytes()
        .map_err(|e| invalid(&copy, e.to_string()))?;
    fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    // A model that names itself as the file of a tensor would be overwritten through its link.
    if copy.exists() {
        fs::remove_file(&copy).map_err(|e| failed(&copy, e))?;
    }
    fs::write(&copy, written).map_err(|e| failed(&copy, e))?;
    Ok(copy.display().to_string())
}

fn failed(path: &Path, error: io::Error) -> MarkError {
    let path = path.to_path_buf();
    MarkError::File { path, error }
}

fn invalid(path: &Path, reason: String) -> MarkError {
    failed(path, io::Error::new(io::ErrorKind::InvalidData, reason))
}

/// Finds the files of all tensors outside of the model.
fn external_files<'a>(graph: &'a GraphProto, files: &mut BTreeSet<&'a str>) {
    let attributes = || graph.node.iter().flat_map(|node| &node.attribute);
    let constants = attributes().filter_map(|attribute| attribute.t.as_ref());
    for tensor in graph.initializer.iter().chain(constants) {
        files.extend(entry(tensor, "location"));
    }
    for inner in attributes().flat_map(|a| a.g.as_ref().into_iter().chain(&a.graphs)) {
        external_files(inner, files);
    }
}

fn entry<'a>(tensor: &'a TensorProto, key: &str) -> Option<&'a str> {
    let found = tensor.external_data.iter().find(|entry| entry.key == key);
    found.map(|entry| entry.value.as_str())
}

/// The path of a file with tensors, which must be below the folder of the model.
fn external(model: &Path, location: &str) -> Result<PathBuf, MarkError> {
    let plain = |c: Component| matches!(c, Component::Normal(_) | Component::CurDir);
    if Path::new(location).components().all(plain) {
        Ok(model.with_file_name(location))
    } else {
        let reason = format!("expected tensors below the model's folder, got {location:?}");
        Err(invalid(model, reason))
    }
}

/// A second name for a file, or a copy where the file system has no second names.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    // Writing to an earlier link would change the original.
    if to.exists() {
        fs::remove_file(to)?;
    }
    let from = from.canonicalize()?;
    fs::hard_link(&from, to).or_else(|_| fs::copy(&from, to).map(|_| ()))
}

/// Moves the numbers of a tensor from another file into the tensor.
fn embed(tensor: &mut TensorProto, model: &Path) -> Result<(), MarkError> {
    let Some(location) = entry(tensor, "location") else {
        return Ok(());
    };
    let path = external(model, location)?;
    let number = |key| entry(tensor, key).and_then(|value| value.parse().ok());
    let (offset, length) = (number("offset").unwrap_or(0), number("length"));
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|mut file| {
        file.seek(SeekFrom::Start(offset))?;
        file.take(length.unwrap_or(u64::MAX))
            .read_to_end(&mut bytes)
    });
    read.map_err(|e| failed(&path, e))?;
    tensor.raw_data = bytes.into();
    tensor.external_data.clear();
    tensor.data_location = Default::default();
    Ok(())
}

/// Marks the GRU nodes, and moves their weights into attributes. As inputs, the generated model would store
/// them a second time, because the parser does not remove constant inputs of operators that it does not know.
fn mark(graph: &mut GraphProto, model: &Path) -> Result<(), MarkError> {
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
            // Equal weights of two layers are one tensor in some files. Converters to float16 insert casts to the
            // type of X.
            "Identity" | "Cast" => node
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
    let mut weights: HashMap<String, TensorProto> = weights
        .filter_map(|name| Some((name.clone(), (*constants.get(name.as_str())?).clone())))
        .collect();
    for tensor in weights.values_mut() {
        embed(tensor, model)?;
    }
    for node in graph.node.iter_mut().filter(|node| is_gru(node)) {
        mark_node(node, &weights);
    }
    Ok(())
}

fn is_gru(node: &NodeProto) -> bool {
    node.op_type == "GRU" && matches!(node.domain.as_str(), "" | "ai.onnx")
}

fn mark_node(node: &mut NodeProto, constants: &HashMap<String, TensorProto>) {
    for (key, at) in WEIGHTS {
        let Some(tensor) = node.input.get(at).and_then(|name| constants.get(name)) else {
            continue; // Absent, or computed. Code generation uses what the parser folds, and reports the rest.
        };
        let mut attribute = AttributeProto::new();
        attribute.name = key.into();
        attribute.type_ = AttributeType::TENSOR.into();
        attribute.t = Some(tensor.clone()).into();
        node.attribute.push(attribute);
        node.input[at].clear();
    }
    node.domain = DOMAIN.into();
}
