//! What training keeps for backward.

/// What training keeps for backward in addition to the inputs and the states. Gradients are the same up to rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Checkpointing {
    /// The gates: 4·T·N·H floats with reset-after, 3·T·N·H with reset-before.
    #[default]
    KeepGates,
    /// Nothing. Backward recomputes the gates from the states, some steps at a time, with about a third
    /// more arithmetic. On the CPU, only inputs, states and their gradients then grow with T. On a GPU,
    /// a chunk of `x·w_ih` also grows, up to a sixteenth of inputs and states. On backends without
    /// kernels, which use the framework's own operations, backward recomputes the gates of all steps at
    /// once.
    Recompute,
}
