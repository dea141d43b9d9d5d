//! Weights from other modules and systems, each with its own gate order and layout.

mod burn_nn;

/// Why weights could not be taken over.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ImportError {
    /// The module uses an activation that this crate has no kernel for.
    #[error("{gate} gate: activation {activation} is not supported")]
    Activation {
        /// Which gate: "reset and update" or "candidate".
        gate: &'static str,
        /// The activation's name.
        activation: String,
    },
    /// A tensor has another shape than the rest of the module asks for.
    #[error("{name}: expected shape {expected:?}, got {actual:?}")]
    Shape {
        /// Which tensor.
        name: String,
        /// The shape that was expected.
        expected: Vec<usize>,
        /// The shape that was found.
        actual: Vec<usize>,
    },
    /// Some gates have a bias and some have none.
    #[error("{name}: expected a bias, as the other gates have one, got none")]
    MissingBias {
        /// Which bias.
        name: String,
    },
    /// The two directions of a module are configured differently.
    #[error("forward and reverse differ in {what}")]
    Directions {
        /// In what.
        what: &'static str,
    },
}
