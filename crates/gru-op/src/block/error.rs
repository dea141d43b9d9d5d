//! Errors of configurations and weights.

use burn::tensor::DType;

/// Weights or a configuration that do not describe a GRU.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The texts explain the fields.
pub enum GruError {
    /// An activation that has no kernel here, or no name in another system.
    #[error("{gate} gate: activation {activation} is not supported")]
    Activation {
        gate: &'static str,
        activation: String,
    },
    /// A tensor has a wrong shape.
    #[error("{name}: expected shape {expected:?}, got {actual:?}")]
    Shape {
        name: String,
        expected: Vec<usize>,
        actual: Vec<usize>,
    },
    /// A tensor has a wrong number of dimensions.
    #[error("{name}: expected a tensor of rank {expected}, got shape {actual:?}")]
    Rank {
        name: String,
        expected: usize,
        actual: Vec<usize>,
    },
    /// A tensor is not floating-point.
    #[error("{name}: expected floating-point numbers, got {actual:?}")]
    DType { name: String, actual: DType },
    /// A device does not support the dtype of a tensor.
    #[error("{name}: {device} does not support {dtype:?}")]
    Unsupported {
        name: String,
        dtype: DType,
        device: String,
    },
    /// A parameter is float64, and a prepared block computes in float32.
    #[error("{name}: expected float32 or half precision in a prepared block, got float64")]
    Float64 { name: String },
    /// A weight is infinite or NaN, and 8 bits cannot represent it.
    #[error("{name}: expected finite numbers for Precision::Int8, got an infinity or NaN")]
    NotFinite { name: String },
    /// A tensor is missing.
    #[error("{key}: expected a tensor of this name, got none")]
    MissingKey { key: String },
    /// A tensor that the GRU does not have.
    #[error("{key}: not expected; {expected}")]
    UnexpectedKey { key: String, expected: &'static str },
    /// A backend does not support this precision of prepared weights.
    #[error(
        "expected Precision::Full on {device}, got {precision:?}; weights of 16 and 8 bits require the backend \
         flex or ndarray"
    )]
    Precision {
        precision: gru_spec::Precision,
        device: String,
    },
    /// An invalid configuration.
    #[error("{reason}")]
    Config { reason: String },
    /// An invalid spec of a layer.
    #[error(transparent)]
    Spec(#[from] gru_spec::SpecError),
    /// A wrong number of something.
    #[error("{what}: expected {expected}, got {actual}")]
    Count {
        what: &'static str,
        expected: usize,
        actual: usize,
    },
    /// A tensor could not be read from its device or its file.
    #[error("{name}: {reason}")]
    Read { name: String, reason: String },
}

impl GruError {
    /// Returns an error if a tensor has another shape.
    #[doc(hidden)]
    pub fn expect_shape(name: &str, expected: &[usize], actual: &[usize]) -> Result<(), Self> {
        if expected == actual {
            return Ok(());
        }
        Err(Self::Shape {
            name: name.to_owned(),
            expected: expected.to_vec(),
            actual: actual.to_vec(),
        })
    }
}
