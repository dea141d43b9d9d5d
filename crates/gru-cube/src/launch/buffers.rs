//! The buffers of a pass.

use cubecl::server::Handle;
use std::ops::Range;

/// A pass, with the buffers that are no inputs of the [`Recurrence`](crate::Recurrence).
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // There is one for a launch, behind a reference.
pub enum Buffers {
    /// Computes the state after every step, and the gates if there is a buffer for them. A pass may compute some steps
    /// only, so that a caller can compute `x·w_ih` in chunks of time.
    ///
    /// Sequence kernels and persistent kernels are one launch, or a few if the sequence is long or rows have different
    /// lengths. Step kernels are one launch for each product. A time-out of a grid barrier makes the states NaN.
    Forward {
        /// The steps to compute, in the order of computation. The states of the steps before them are already in the
        /// output.
        steps: Range<usize>,
        /// Output: state after every step, `[N,T,H]` or `[T,N,H]`.
        states: Handle,
        /// Output: the gates, for the backward pass: `r | z | n | q_n`, `[…,4H]`, with the reset after the product;
        /// `r | z | n`, `[…,3H]`, with the reset before it. Undefined at skipped steps.
        gates: Option<Handle>,
    },
    /// Computes the gradients of `Σ states ⊙ d_states` with respect to `x` and the initial state, and the rhs operands
    /// of the weight gradients.
    ///
    /// A sequence kernel is one launch with a resident weight, otherwise two. A persistent kernel is three launches. Both
    /// have a few more if the sequence is long or rows have different lengths. Step kernels need one launch for each
    /// product and two more. The additional launches transpose the weight and compute the gradient of the initial state.
    /// A time-out of a grid barrier makes the gradients NaN.
    Backward {
        /// Upstream gradient of the states, `[N,T,H]` or `[T,N,H]`.
        d_states: Handle,
        /// The states that the forward pass wrote.
        states: Handle,
        /// The gates that the forward pass wrote.
        gates: Handle,
        /// Output: gradients of the pre-activations, in the shape of the gates: `dr̄ | dz̄ | dn̄ | dn̄⊙r` or
        /// `dr̄ | dz̄ | dn̄`; zeros at skipped steps. Columns `0..3H` are the gradient of `x`. If absent, they overwrite
        /// the gates. Then no other code may read the gates.
        d_gates: Option<Handle>,
        /// Output: gradient of the initial state `[N,H]`. `[2N,H]` with a start state, whose gradient is rows N..2N.
        /// Float32 for every type of the call, because kernels sum over all steps in it.
        d_h0: Handle,
    },
}
