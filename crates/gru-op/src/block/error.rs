//! Errors of configurations and weights.

use burn::tensor::DType;

/// Weights or a configuration that do not describe a GRU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GruError {
    /// An activation that has no kernel here, or no name in another system.
    #[error("{gate} gate: activation {activation} is not supported")]
    Activation {
        /// The gates.
        gate: &'static str,
        /// The name of the activation.
        activation: String,
    },
    /// A tensor has a wrong shape.
    #[error("{name}: expected shape {expected:?}, got {actual:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// The expected shape.
        expected: Vec<usize>,
        /// The actual shape.
        actual: Vec<usize>,
    },
    /// A tensor has a wrong number of dimensions.
    #[error("{name}: expected a tensor of rank {expected}, got shape {actual:?}")]
    Rank {
        /// The tensor.
        name: String,
        /// The expected rank.
        expected: usize,
        /// The actual shape.
        actual: Vec<usize>,
    },
    /// A tensor is not floating-point.
    #[error("{name}: expected floating-point numbers, got {actual:?}")]
    DType {
        /// The tensor.
        name: String,
        /// The actual dtype.
        actual: DType,
    },
    /// A device does not support the dtype of a tensor.
    #[error("{name}: {device} does not support {dtype:?}")]
    Unsupported {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
        /// The device.
        device: String,
    },
    /// A parameter is float64, and a prepared block computes in float32.
    #[error("{name}: expected float32 or half precision in a prepared block, got float64")]
    Float64 {
        /// The parameter.
        name: String,
    },
    /// A tensor is missing.
    #[error("{key}: expected a tensor of this name, got none")]
    MissingKey {
        /// Its name.
        key: String,
    },
    /// A tensor that the GRU does not have.
    #[error("{key}: not expected; {expected}")]
    UnexpectedKey {
        /// Its name.
        key: String,
        /// The expected names.
        expected: &'static str,
    },
    /// A backend does not support this precision of prepared weights.
    #[error(
        "expected Precision::Full on {device}, got {precision:?}; weights of 16 and 8 bits require the backend \
         flex or ndarray"
    )]
    Precision {
        /// The precision.
        precision: gru_spec::Precision,
        /// The device.
        device: String,
    },
    /// An invalid configuration.
    #[error("{reason}")]
    Config {
        /// What is invalid.
        reason: String,
    },
    /// A wrong number of something.
    #[error("{what}: expected {expected}, got {actual}")]
    Count {
        /// What was counted.
        what: &'static str,
        /// The expected number.
        expected: usize,
        /// The actual number.
        actual: usize,
    },
    /// A tensor could not be read from its device or its file.
    #[error("{name}: {reason}")]
    Read {
        /// The tensor.
        name: String,
        /// What failed.
        reason: String,
    },
}

/// Returns an error if a tensor has another shape.
pub(super) fn expect_shape(
    name: &str,
    expected: &[usize],
    actual: &[usize],
) -> Result<(), GruError> {
    if expected == actual {
        return Ok(());
    }
    Err(GruError::Shape {
        name: name.to_owned(),
        expected: expected.to_vec(),
        actual: actual.to_vec(),
    })
}
