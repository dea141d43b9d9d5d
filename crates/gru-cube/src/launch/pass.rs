//! A pass, its plan, and how it runs.

use super::{job::Job, recurrence::Recurrence};
use crate::{
    kernel::rule::Pass,
    plan::{
        Kernels,
        error::PlanError,
        schedule::{Schedule, Strategy},
    },
};
use cubecl::{
    client::Client,
    ir::{AddressType, ElemType},
    server::Handle,
};
use cubecl_common::device::ServiceId;
use std::ops::Range;

/// A pass, with the buffers that are no inputs of the [`Recurrence`].
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

/// The kernels of a pass on a device, and everything for which they are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Plan {
    pub(super) device: ServiceId,
    pub(super) pass: Pass,
    pub(super) schedule: Schedule,
    pub(super) kernels: Kernels,
    pub(super) dtype: ElemType,
    /// Type of the indices.
    pub(super) address: AddressType,
    /// A bit for each tensor that the kernels bind.
    pub(super) bound: u16,
    /// Small tensors share a buffer.
    pub(super) shares: bool,
}

impl Plan {
    /// Plans a pass of a call that has steps, rows and hidden units.
    ///
    /// # Errors
    /// If the device does not allow the schedule or a tensor.
    ///
    /// # Panics
    /// As [`run`] does.
    pub fn new(
        client: &Client,
        call: &Recurrence,
        buffers: &Buffers,
        strategy: Strategy,
    ) -> Result<Self, PlanError> {
        Job::new(client, call, buffers).plan(strategy)
    }

    /// The schedule, by which the kernels can be forced.
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// Runs a pass with exactly these kernels. The sizes of the batch and the sequence may differ from those of the call
    /// that was planned. Otherwise as [`run`].
    ///
    /// # Errors
    /// If the device does not allow a tensor.
    ///
    /// # Panics
    /// If the pass needs other kernels.
    pub fn run(
        &self,
        client: &Client,
        call: &Recurrence,
        buffers: &Buffers,
    ) -> Result<(), PlanError> {
        let job = Job::new(client, call, buffers);
        let own = job.plan(Strategy::Forced(self.schedule))?;
        // Long indices are right for every size.
        let address = own.address.max(self.address);
        let expected = Self { address, ..own };
        assert!(
            expected == *self,
            "gru_cube: expected the plan {expected:?}, got {self:?}"
        );
        job.launch(self);
        Ok(())
    }
}

/// Runs a pass. The function does not wait for the device, except for a persistent kernel in another stream.
///
/// # Errors
/// If the device does not allow the schedule or a tensor.
///
/// # Panics
/// - If a buffer is too short, or the type is not a float of 16 or 32 bits.
/// - If starts or lengths lack a tensor, or lengths do not fit the call.
/// - If the steps of a forward pass do not exist, or a backward pass has none.
pub fn run(
    client: &Client,
    call: &Recurrence,
    buffers: &Buffers,
    strategy: Strategy,
) -> Result<(), PlanError> {
    let job = Job::new(client, call, buffers);
    if call.sizes.n * job.steps.len() * call.sizes.h > 0 {
        job.launch(&job.plan(strategy)?);
    }
    Ok(())
}
