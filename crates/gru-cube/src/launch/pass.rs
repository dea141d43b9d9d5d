//! A pass, its plan, and how it runs.

use super::{
    Recurrence,
    buffers::Buffers,
    job::{Job, Plan},
    tensors::Tensors,
};
use crate::plan::{
    error::PlanError,
    schedule::{Schedule, Strategy},
};
use core::fmt;
use cubecl::client::Client;

/// A pass with the kernels that the device allows.
#[must_use]
pub struct PlannedPass<'a> {
    job: Job<'a>,
    plan: Plan,
    tensors: Tensors,
}

impl fmt::Debug for PlannedPass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlannedPass")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl<'a> PlannedPass<'a> {
    /// Plans a pass of a call that has steps, rows and hidden units.
    ///
    /// # Errors
    /// If the device does not allow the schedule or a tensor.
    ///
    /// # Panics
    /// As [`run`] does.
    pub fn new(
        client: &'a Client,
        call: &'a Recurrence,
        buffers: &'a Buffers,
        strategy: Strategy,
    ) -> Result<Self, PlanError> {
        Self::of(Job::new(client, call, buffers), strategy)
    }

    fn of(job: Job<'a>, strategy: Strategy) -> Result<Self, PlanError> {
        let (plan, tensors) = job.plan(strategy)?;
        Ok(Self { job, plan, tensors })
    }

    /// What runs. It does not depend on the sizes of the batch and the sequence.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Runs the pass, as [`run`] does.
    pub fn run(self) {
        self.job.launch(&self.plan, self.tensors);
    }
}

impl Plan {
    /// The schedule, by which the kernels can be forced.
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// Runs a pass with exactly these kernels. The sizes of the batch and the sequence may differ from the call
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
        let mut pass = PlannedPass::new(client, call, buffers, Strategy::Forced(self.schedule))?;
        // Long indices are right for every size.
        pass.plan.address = pass.plan.address.max(self.address);
        let plan = pass.plan;
        assert!(
            plan == *self,
            "gru_cube: expected the plan {plan:?}, got {self:?}"
        );
        pass.run();
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
        PlannedPass::of(job, strategy)?.run();
    }
    Ok(())
}
