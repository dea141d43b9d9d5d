//! Why a call cannot be made.

use core::{error, fmt};

use crate::spec::{LengthsError, Sizes, SpecError};

/// Why a call cannot be made.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallError {
    /// The spec is not valid.
    Spec(SpecError),
    /// The buffers of these sizes exceed the address space.
    TooLarge {
        /// The sizes.
        sizes: Sizes,
    },
    /// A slice has the wrong number of elements.
    Length {
        /// The tensor's name.
        tensor: &'static str,
        /// The number that the sizes require.
        expected: usize,
        /// The number given.
        actual: usize,
    },
    /// The lengths of the rows do not fit the sizes.
    Lengths(LengthsError),
    /// A weight that would get 8 bits is infinite or NaN.
    NotFinite {
        /// The layer and direction.
        layer: usize,
        /// `w_ih` or `w_hh`.
        matrix: &'static str,
    },
    /// There is a start state, but there are no starts.
    NoStarts,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(error) => error.fmt(f),
            Self::TooLarge { sizes } => {
                let Sizes { n, t, i, h } = sizes;
                write!(
                    f,
                    "the sizes exceed the address space: n {n}, t {t}, i {i}, h {h}"
                )
            }
            Self::Length {
                tensor,
                expected,
                actual,
            } => write!(
                f,
                "{tensor} has the wrong number of elements, expected {expected}, got {actual}"
            ),
            Self::Lengths(error) => error.fmt(f),
            Self::NotFinite { layer, matrix } => write!(
                f,
                "{matrix} of layer {layer}: expected finite numbers for Precision::Int8, got an infinity or NaN"
            ),
            Self::NoStarts => f.write_str("start_state requires starts"),
        }
    }
}

impl error::Error for CallError {}
