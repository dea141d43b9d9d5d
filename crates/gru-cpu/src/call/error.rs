//! What does not fit together.

use super::Dims;
use std::{error, fmt};

/// Why a call cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The spec is one that [`GruSpec::check`](crate::spec::GruSpec::check) refuses.
    Spec {
        /// What it says.
        reason: String,
    },
    /// No memory holds such sizes.
    TooLarge {
        /// The sizes.
        dims: Dims,
    },
    /// A slice has not the number of elements that the sizes ask for.
    Length {
        /// Of which tensor.
        tensor: &'static str,
        /// By the sizes.
        expected: usize,
        /// As given.
        actual: usize,
    },
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec { reason } => f.write_str(reason),
            Self::TooLarge { dims } => {
                let Dims { n, t, i, h } = dims;
                write!(f, "no memory holds sizes of n {n}, t {t}, i {i}, h {h}")
            }
            Self::Length {
                tensor,
                expected,
                actual,
            } => write!(
                f,
                "{tensor} has the wrong number of elements, expected {expected}, got {actual}"
            ),
        }
    }
}

impl error::Error for CallError {}

/// # Panics
/// With the operation's name, if there is something to refuse.
pub(crate) fn or_panic(op: &str, checked: Result<(), CallError>) {
    if let Err(error) = checked {
        panic!("{op}: {error}");
    }
}
