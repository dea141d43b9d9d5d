//! The checks and the launches of a pass.

use super::{
    Recurrence,
    buffers::Buffers,
    count_launch,
    grid::Grid,
    shared::{share, shared_buffer},
    spread,
    tensors::Tensors,
};
use crate::{
    kernel::{
        backward::gru_backward_sequence,
        forward::gru_forward_sequence,
        rule::Pass,
        sequence::SequenceKernel,
        steps::{
            Steps,
            backward::gru_backward_step,
            forward::gru_forward_step,
            transpose::{TRANSPOSE, gru_transpose},
        },
        threads::Threads,
    },
    plan::{
        Kernels, Problem,
        error::PlanError,
        plan_of,
        schedule::{Schedule, Strategy},
        tensor::check_tensors,
        time::Launch,
    },
};
use cubecl::{
    client::Client,
    ir::{AddressType, ElemType},
    prelude::*,
    server::Handle,
};
use cubecl_common::device::ServiceId;
use std::ops::Range;

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

/// A checked pass.
pub(super) struct Job<'a> {
    client: &'a Client,
    call: &'a Recurrence,
    buffers: &'a Buffers,
    pass: Pass,
    pub(super) steps: Range<usize>,
    problem: Problem,
}

impl<'a> Job<'a> {
    pub(super) fn new(client: &'a Client, call: &'a Recurrence, buffers: &'a Buffers) -> Self {
        let t = call.sizes.t;
        let (pass, steps) = match buffers {
            Buffers::Forward { steps, .. } => (Pass::Forward, steps.clone()),
            Buffers::Backward { .. } => (Pass::Backward, 0..t),
        };
        assert!(
            steps.start <= steps.end && steps.end <= t,
            "gru_cube: expected steps within 0..{t}, got {steps:?}"
        );
        assert!(
            pass == Pass::Forward || t > 0,
            "gru_cube: expected at least one step, got none"
        );
        Self {
            client,
            call,
            buffers,
            pass,
            steps,
            problem: call.problem(client),
        }
    }

    pub(super) fn plan(&self, strategy: Strategy) -> Result<(Plan, Tensors), PlanError> {
        let (schedule, kernels) = plan_of(self.pass, strategy, &self.problem)?;
        let mut tensors = Tensors::new(self.call, self.buffers, &self.steps, &kernels);
        let in_order = tensors.in_order();
        let bits = in_order.iter().map(|tensor| u16::from(tensor.bound));
        let plan = Plan {
            device: self.client.service_id(),
            pass: self.pass,
            schedule,
            kernels,
            dtype: self.call.dtype,
            address: self.call.address_type(self.client),
            bound: bits.fold(0, |bits, bit| bits << 1 | bit),
            shares: check_tensors(&self.problem.limits, &in_order, kernels.is_persistent())?,
        };
        Ok((plan, tensors))
    }

    fn weight_len(&self) -> usize {
        3 * self.call.sizes.h * self.call.sizes.h
    }

    pub(super) fn launch(&self, plan: &Plan, mut tensors: Tensors) {
        let Self { client, call, .. } = *self;
        let shared = plan
            .shares
            .then(|| shared_buffer(client, &tensors.in_order()));
        let mut present = 0;
        if let Tensors::Backward(tensors) = &mut tensors
            && plan.kernels.transposes()
        {
            let bytes = self.weight_len() * call.dtype.size();
            let weight = shared.clone().unwrap_or_else(|| client.empty(bytes));
            self.transpose(plan, &weight);
            // The weight is the first in the shared buffer.
            tensors.weight.handle = Some(weight);
            present = self.weight_len();
        }
        let mut in_order = tensors.in_order();
        if let Some(shared) = shared {
            share(client, call, plan.address, &mut in_order, &shared, present);
        }
        for scratch in in_order
            .into_iter()
            .filter(|tensor| tensor.bound && tensor.handle.is_none())
        {
            scratch.handle = Some(client.empty(scratch.elements * scratch.size));
        }
        let lengths = call.lengths.as_deref();
        let mut launches = plan
            .kernels
            .launches(&self.problem, self.steps.clone(), lengths);
        if self.pass == Pass::Backward {
            launches.reverse();
        }
        for launch in &launches {
            match plan.kernels {
                Kernels::Sequence(kernel) => self.sequence(plan, kernel, &tensors, launch),
                Kernels::Steps(all) => {
                    for steps in all.launches() {
                        let grid = Grid::new(client, &steps, launch.rows, &self.problem.limits);
                        grid.run(client, || {
                            self.step(plan, steps, &grid, &tensors, launch, false)
                        });
                    }
                }
            }
        }
        if let (Kernels::Steps(all), Pass::Backward) = (plan.kernels, self.pass) {
            let (end, rows) = (all.end(), call.sizes.n);
            let grid = Grid::new(client, &end, rows, &self.problem.limits);
            self.step(
                plan,
                end,
                &grid,
                &tensors,
                &Launch { steps: 0..1, rows },
                true,
            );
        }
    }

    /// Writes `w_hh` as `[3H,H]`.
    fn transpose(&self, plan: &Plan, to: &Handle) {
        let (call, h, len) = (self.call, self.call.sizes.h, self.weight_len());
        let tiles = |len: usize| len.div_ceil(TRANSPOSE as usize) as u32;
        count_launch();
        // SAFETY: the kernel bounds rows and columns by `h` and `3h`, and the tensors check both buffers.
        unsafe {
            gru_transpose::launch_unchecked(
                self.client,
                CubeCount::Static(tiles(3 * h), tiles(h), 1),
                CubeDim::new_2d(TRANSPOSE, TRANSPOSE),
                plan.address,
                call.tensor("w_hh", &call.inputs.weights.w_hh, len).arg(),
                call.tensor("transposed w_hh", to, len).arg(),
                h as u32,
                call.dtype,
            );
        }
    }

    fn sequence(&self, plan: &Plan, kernel: SequenceKernel, tensors: &Tensors, launch: &Launch) {
        let (client, address) = (self.client, plan.address);
        let cubes = spread(launch.rows.div_ceil(kernel.threads.rows));
        let (dim, width) = (cube_dim(&kernel.threads), kernel.threads.width);
        count_launch();
        // SAFETY: every index of the kernel is below the length of its buffer: rows and columns are clamped to the
        // sizes, and the tensors check the buffers against the same sizes. If gradients overwrite the gates, a thread
        // reads its gates before it writes them. Threads without a row or column read the last ones, which another
        // thread may write, and do not use the values.
        unsafe {
            match tensors {
                Tensors::Forward(tensors) => gru_forward_sequence::launch_unchecked(
                    client,
                    cubes,
                    dim,
                    address,
                    width,
                    tensors.arguments(&self.call.sizes, launch, &self.steps),
                    launch.steps.start as u32,
                    launch.steps.end as u32,
                    kernel,
                    plan.dtype,
                ),
                Tensors::Backward(tensors) => gru_backward_sequence::launch_unchecked(
                    client,
                    cubes,
                    dim,
                    address,
                    width,
                    tensors.arguments(&self.call.sizes, launch),
                    launch.steps.start as u32,
                    launch.steps.end as u32,
                    kernel,
                    plan.dtype,
                ),
            }
        }
    }

    /// One launch of step kernels. The `end` of a backward pass computes the gradient of the initial state.
    fn step(
        &self,
        plan: &Plan,
        steps: Steps,
        grid: &Grid,
        tensors: &Tensors,
        launch: &Launch,
        end: bool,
    ) {
        let (client, address) = (self.client, plan.address);
        let (cubes, dim, width) = (grid.count(), cube_dim(&steps.threads), steps.threads.width);
        // The type of the factors of matrix units.
        let matrices = steps.threads.matrices;
        let factors = matrices.map_or(plan.dtype, |matrices| matrices.element);
        count_launch();
        // SAFETY: as for sequence kernels. A step does not write rows of `states` and scratch memory that it reads, nor
        // the gates that it reads from the following step. Between two steps of a launch there is a grid barrier, whose
        // cubes all run at the same time, as the plan has checked.
        unsafe {
            match tensors {
                Tensors::Forward(tensors) => gru_forward_step::launch_unchecked(
                    client,
                    cubes,
                    dim,
                    address,
                    width,
                    tensors.arguments(&self.call.sizes, launch, &self.steps),
                    grid.barriers(),
                    launch.steps.start as u32,
                    launch.steps.end as u32,
                    steps,
                    plan.dtype,
                    factors,
                ),
                Tensors::Backward(tensors) => gru_backward_step::launch_unchecked(
                    client,
                    cubes,
                    dim,
                    address,
                    width,
                    tensors.arguments(&self.call.sizes, launch),
                    grid.barriers(),
                    launch.steps.start as u32,
                    launch.steps.end as u32,
                    steps,
                    end,
                    plan.dtype,
                    factors,
                ),
            }
        }
    }
}

fn cube_dim(threads: &Threads) -> CubeDim {
    CubeDim::new_1d(threads.count() as u32)
}
