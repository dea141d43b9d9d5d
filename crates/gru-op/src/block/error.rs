//! Why a block could not be made.

use burn::tensor::DType;

/// Why weights or a configuration do not make a GRU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GruError {
    /// An activation that has no kernel here or no name in another system.
    #[error("{gate} gate: activation {activation} is not supported")]
    Activation {
        /// Which gates.
        gate: &'static str,
        /// The activation's name.
        activation: String,
    },
    /// A tensor does not have the expected shape.
    #[error("{name}: expected shape {expected:?}, got {actual:?}")]
    Shape {
        /// Which tensor.
        name: String,
        /// The shape that was expected.
        expected: Vec<usize>,
        /// The shape that was found.
        actual: Vec<usize>,
    },
    /// A tensor has another number of dimensions.
    #[error("{name}: expected a tensor of rank {expected}, got shape {actual:?}")]
    Rank {
        /// Which tensor.
        name: String,
        /// How many were expected.
        expected: usize,
        /// The shape that was found.
        actual: Vec<usize>,
    },
    /// A tensor does not hold floating-point numbers.
    #[error("{name}: expected floating-point numbers, got {actual:?}")]
    DType {
        /// Which tensor.
        name: String,
        /// What it holds.
        actual: DType,
    },
    /// A tensor is missing.
    #[error("{key}: expected a tensor of this name, got none")]
    MissingKey {
        /// Its name.
        key: String,
    },
    /// A tensor is there that such a GRU does not have.
    #[error("{key}: not expected; {expected}")]
    UnexpectedKey {
        /// Its name.
        key: String,
        /// What names are expected.
        expected: &'static str,
    },
    /// Some gates have a bias and some have none.
    #[error("{name}: expected a bias, as the other gates have one, got none")]
    MissingBias {
        /// Which bias.
        name: String,
    },
    /// A configuration that makes no block.
    #[error("{reason}")]
    Config {
        /// Why not.
        reason: String,
    },
    /// The two directions of a module are configured differently.
    #[error("forward and reverse differ in {what}")]
    Directions {
        /// In what.
        what: &'static str,
    },
    /// Too many or too few of something.
    #[error("{what}: expected {expected}, got {actual}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many were expected.
        expected: usize,
        /// How many there are.
        actual: usize,
    },
    /// A tensor could not be read back from its device, or from its file.
    #[error("{name}: {reason}")]
    Read {
        /// Which tensor.
        name: String,
        /// What was wrong.
        reason: String,
    },
}

/// Rejects a tensor of another shape than the expected one.
pub(super) fn expect_shape(
    name: &str,
    expected: &[usize],
    actual: &[usize],
) -> Result<(), GruError> {
    if expected == actual {
        Ok(())
    } else {
        Err(GruError::Shape {
            name: name.to_owned(),
            expected: expected.to_vec(),
            actual: actual.to_vec(),
        })
    }
}
