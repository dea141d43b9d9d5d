//! What training keeps for backward.

/// What training keeps for backward, beyond the inputs and the states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Memory {
    /// The gates: 4·T·N·H floats with reset-after, 3·T·N·H with reset-before.
    #[default]
    Speed,
    /// Nothing: backward makes the gates anew from the states, some steps at a time, with about a
    /// third more arithmetic. On the CPU no memory but that of inputs, states and their gradients
    /// grows with T; on a GPU a piece of `x·w_ih` does, as large as a sixteenth of inputs and states.
    /// Where a framework's own operations stand in for kernels, the gates of all steps are made at
    /// once.
    Lean,
}
