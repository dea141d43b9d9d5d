//! Why weights could not be taken over or handed out.

use gru_op::GruError;

/// Why weights could not be taken over or handed out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The weights or the configuration do not make a GRU: a tensor is missing, unexpected or of
    /// another shape or dtype, an activation is not supported, or a size is wrong.
    #[error(transparent)]
    Gru(#[from] GruError),
    /// A tensor has a shape that none of its kind has, whatever the sizes.
    #[error("{name}: expected {expected}, got shape {actual:?}")]
    Form {
        /// Which tensor.
        name: String,
        /// What was expected, in letters.
        expected: &'static str,
        /// The shape that was found.
        actual: Vec<usize>,
    },
    /// No tensor has a name under the prefix.
    #[error("expected tensors whose names start with {prefix:?}, got none; {expected}")]
    Prefix {
        /// The prefix.
        prefix: String,
        /// What names are expected.
        expected: &'static str,
    },
    /// Two tensors would have the same name.
    #[error("{key}: expected one tensor of this name, got two")]
    SameKey {
        /// The name.
        key: String,
    },
    /// A configuration is that of another GRU than the imported one.
    #[error(
        "{what} of the configuration: expected {expected}, as the imported GRU has it, got {actual}"
    )]
    Mismatch {
        /// In what they differ.
        what: &'static str,
        /// What the arrays, or the options of the system, say.
        expected: String,
        /// What the configuration says.
        actual: String,
    },
    /// An option that gru-op does not have, or that makes no sense.
    #[error("{option}: expected {expected}, got {actual}")]
    Option {
        /// Its name in the other system.
        option: &'static str,
        /// What is understood.
        expected: String,
        /// What was given.
        actual: String,
    },
    /// The other system has no way to say this.
    #[error("{system} cannot express {what}")]
    Inexpressible {
        /// Which system.
        system: &'static str,
        /// What it lacks.
        what: String,
    },
    /// A model of another system is not as its format has it, or lacks what was asked for.
    #[error("{reason}")]
    Model {
        /// What was wrong.
        reason: String,
    },
    /// The numbers of a tensor of a model cannot be had.
    #[error("{name}: {reason}")]
    Tensor {
        /// Which tensor.
        name: String,
        /// What was wrong.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {reason}")]
    File {
        /// Which file.
        path: String,
        /// What was wrong.
        reason: String,
    },
}

/// Rejects a tensor of another shape than the expected one.
pub(crate) fn expect_shape(
    name: &str,
    expected: &[usize],
    actual: &[usize],
) -> Result<(), ConvertError> {
    if expected == actual {
        Ok(())
    } else {
        let error = GruError::Shape {
            name: name.to_owned(),
            expected: expected.to_vec(),
            actual: actual.to_vec(),
        };
        Err(error.into())
    }
}
