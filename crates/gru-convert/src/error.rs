//! Errors of import and export.

use gru_op::GruError;
use std::path::PathBuf;

/// Why weights could not be imported or exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The weights or the configuration are not a valid GRU: a tensor is missing, unexpected or has
    /// another shape or dtype, an activation is not supported, or a size is wrong.
    #[error(transparent)]
    Gru(#[from] GruError),
    /// A tensor is empty, or has a form that no such GRU has. [`GruError::Shape`] is for a shape of other sizes.
    #[error("{name}: expected {expected}, got shape {actual:?}")]
    Form {
        /// The name of the tensor.
        name: String,
        /// The expected shape as a text.
        expected: &'static str,
        /// The actual shape.
        actual: Vec<usize>,
    },
    /// No tensor name starts with the prefix.
    #[error("expected tensors whose names start with {prefix:?}, got {actual}; {expected}")]
    Prefix {
        /// The prefix.
        prefix: String,
        /// The prefixes of GRUs, or the first names that exist.
        actual: String,
        /// The expected names.
        expected: &'static str,
    },
    /// Two tensors have the same name.
    #[error("{key}: expected one tensor of this name, got two")]
    SameKey {
        /// The name.
        key: String,
    },
    /// The arrays do not match the parameters of a model one to one.
    #[error("{}", differences.join("; "))]
    Unmatched {
        /// Parameters without an array, arrays without a parameter, and arrays of another shape.
        differences: Vec<String>,
    },
    /// The configuration does not match the imported GRU.
    #[error(
        "{what} of the configuration: expected {expected}, as the imported GRU has it, got {actual}"
    )]
    Mismatch {
        /// The option that differs.
        what: &'static str,
        /// The value from the arrays or the options of the system.
        expected: String,
        /// The value in the configuration.
        actual: String,
    },
    /// An attribute of an ONNX node that gru-op does not support, or an invalid attribute.
    #[error(transparent)]
    Attribute(#[from] gru_op::spec::onnx::AttributeError),
    /// The other system cannot express the block.
    #[error("{system} cannot express {what}")]
    Inexpressible {
        /// The system.
        system: &'static str,
        /// What it lacks.
        what: String,
    },
    /// A model file of another system does not follow its format, or lacks the requested item.
    #[error("{reason}")]
    Model {
        /// The error.
        reason: String,
    },
    /// The values of a tensor in a file cannot be read, or no recurrent layer has it.
    #[error("{name}: {reason}")]
    Tensor {
        /// The name of the tensor.
        name: String,
        /// The error.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {error}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error. Its kind is `InvalidData` if the file can be read.
        error: std::io::Error,
    },
}
