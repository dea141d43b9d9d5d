//! The checks and the launches of a pass.

use super::{
    count_launch,
    grid::Grid,
    pass::{Buffers, Plan},
    recurrence::Recurrence,
    shared::{share, shared_buffer},
    spread,
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
        tensors::{BackwardLaunch, ForwardLaunch},
        threads::Threads,
    },
    plan::{
        Kernels, Problem,
        error::PlanError,
        plan_of,
        schedule::Strategy,
        tensor::{Tensor, check_tensors},
        time::Launch,
    },
};
use cubecl::{client::Client, prelude::*, server::Handle};
use std::ops::Range;

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

    pub(super) fn plan(&self, strategy: Strategy) -> Result<Plan, PlanError> {
        let (schedule, kernels) = plan_of(self.pass, strategy, &self.problem)?;
        let tensors = self.tensors(&kernels);
        let bits = tensors.iter().map(|tensor| u16::from(tensor.bound));
        Ok(Plan {
            device: self.client.service_id(),
            pass: self.pass,
            schedule,
            kernels,
            dtype: self.call.dtype,
            address: self.call.address_type(self.client),
            bound: bits.fold(0, |bits, bit| bits << 1 | bit),
            shares: check_tensors(&self.problem.limits, &tensors, kernels.is_persistent())?,
        })
    }

    /// The tensors in the order of the kernels' arguments.
    fn tensors(&self, kernels: &Kernels) -> Vec<Tensor> {
        let call = self.call;
        let (rows, h) = (call.sizes.rows(), call.sizes.h);
        let gates_len = rows * self.problem.rule.saved() * h;
        let mut tensors = Vec::new();
        match self.buffers {
            Buffers::Forward { states, gates, .. } => {
                let p_len = call.sizes.n * self.steps.len() * 3 * h;
                tensors.push(call.tensor("x", &call.inputs.sequence.x, p_len));
                tensors.push(call.tensor("w_hh", &call.inputs.weights.w_hh, self.weight_len()));
                tensors.extend(call.biases());
                tensors.extend(call.states_and_masks());
                tensors.push(call.zoneout());
                tensors.push(call.tensor("states", states, rows * h));
                tensors.push(call.tensor("gates", gates, gates_len));
                let scratch = call.tensor("scratch", None, self.scratch_len(kernels));
                tensors.push(Tensor {
                    bound: scratch.elements > 0,
                    size: size_of::<f32>(),
                    ..scratch
                });
            }
            Buffers::Backward {
                d_states,
                states,
                gates,
                d_gates,
                d_h0,
            } => {
                tensors.push(call.tensor("gates", gates, gates_len));
                tensors.push(call.tensor("d_states", d_states, rows * h));
                tensors.push(call.tensor("states", states, rows * h));
                tensors.push(call.small("w_hh", &call.inputs.weights.w_hh, self.weight_len()));
                tensors.extend(call.states_and_masks());
                tensors.push(call.zoneout());
                tensors.push(call.tensor("d_gates", d_gates, gates_len));
                tensors.push(Tensor {
                    size: size_of::<f32>(),
                    ..call.tensor("d_h0", d_h0, call.state_len())
                });
            }
        }
        tensors
    }

    fn weight_len(&self) -> usize {
        3 * self.call.sizes.h * self.call.sizes.h
    }

    /// Float32 values of scratch memory that forward step kernels need, 2·N·H for each of two purposes. With the reset
    /// before the product: `r ⊙ g` and z, from the first phase to the second. With 16-bit states: the state before and
    /// after a step. It is rounded only when it is stored.
    fn scratch_len(&self, kernels: &Kernels) -> usize {
        match kernels {
            Kernels::Sequence(_) => 0,
            Kernels::Steps(steps) => {
                let purposes =
                    usize::from(!steps.rule.reset_after) + usize::from(steps.rule.narrow);
                purposes * 2 * self.call.sizes.n * self.call.sizes.h
            }
        }
    }

    pub(super) fn launch(&self, plan: &Plan) {
        let Self { client, call, .. } = *self;
        let mut tensors = self.tensors(&plan.kernels);
        let shared = plan.shares.then(|| shared_buffer(client, &tensors));
        let mut present = 0;
        if self.pass == Pass::Backward && plan.kernels.transposes() {
            let bytes = self.weight_len() * call.dtype.size();
            let weight = shared.clone().unwrap_or_else(|| client.empty(bytes));
            self.transpose(plan, &weight);
            // The weight is the first in the shared buffer.
            tensors[WEIGHT].handle = Some(weight);
            present = self.weight_len();
        }
        if let Some(shared) = shared {
            share(client, call, plan.address, &mut tensors, &shared, present);
        }
        for scratch in tensors
            .iter_mut()
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

    fn sequence(&self, plan: &Plan, kernel: SequenceKernel, tensors: &[Tensor], launch: &Launch) {
        let (client, address) = (self.client, plan.address);
        let cubes = spread(launch.rows.div_ceil(kernel.threads.rows));
        let (dim, width) = (cube_dim(&kernel.threads), kernel.threads.width);
        count_launch();
        // SAFETY: every index of the kernel is below the length of its buffer: rows and columns are clamped to the
        // sizes, and the tensors check the buffers against the same sizes. If gradients overwrite the gates, a thread
        // reads its gates before it writes them. Threads without a row or column read the last ones, which another
        // thread may write, and do not use the values.
        unsafe {
            match self.pass {
                Pass::Forward => gru_forward_sequence::launch_unchecked(
                    client,
                    cubes,
                    dim,
                    address,
                    width,
                    self.forward(tensors, launch),
                    launch.steps.start as u32,
                    launch.steps.end as u32,
                    kernel,
                    plan.dtype,
                ),
                Pass::Backward => gru_backward_sequence::launch_unchecked(
                    client,
                    cubes,
                    dim,
                    address,
                    width,
                    self.backward(tensors, launch),
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
        tensors: &[Tensor],
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
            match self.pass {
                Pass::Forward => gru_forward_step::launch_unchecked(
                    client,
                    cubes,
                    dim,
                    address,
                    width,
                    self.forward(tensors, launch),
                    grid.barriers(),
                    launch.steps.start as u32,
                    launch.steps.end as u32,
                    steps,
                    plan.dtype,
                    factors,
                ),
                Pass::Backward => gru_backward_step::launch_unchecked(
                    client,
                    cubes,
                    dim,
                    address,
                    width,
                    self.backward(tensors, launch),
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

    /// The arguments of both forward kernels.
    fn forward<F: Float>(&self, tensors: &[Tensor], launch: &Launch) -> ForwardLaunch<F> {
        let mut tensors = tensors.iter();
        let mut next = || tensors.next().expect("the tensors of a forward pass");
        ForwardLaunch::new(
            next().arg(),
            next().arg(),
            next().small_arg(),
            next().small_arg(),
            next().small_arg(),
            next().small_arg(),
            next().small_arg(),
            next().small_arg(),
            next().arg(),
            next().optional(),
            next().optional(),
            self.call.sizes.n,
            self.call.sizes.t,
            launch.rows,
            self.steps.start,
            self.steps.end,
        )
    }

    /// The arguments of both backward kernels. The first is the gates.
    fn backward<F: Float>(&self, tensors: &[Tensor], launch: &Launch) -> BackwardLaunch<F> {
        let mut tensors = tensors.iter();
        let mut next = || tensors.next().expect("the tensors of a backward pass");
        BackwardLaunch::new(
            next().arg(),
            next().arg(),
            next().arg(),
            next().arg(),
            next().small_arg(),
            next().small_arg(),
            next().small_arg(),
            next().small_arg(),
            next().or_alias(0),
            next().arg(),
            self.call.sizes.n,
            self.call.sizes.t,
            launch.rows,
        )
    }
}

/// Place of the weight among the tensors of a backward pass.
const WEIGHT: usize = 3;

fn cube_dim(threads: &Threads) -> CubeDim {
    CubeDim::new_1d(threads.units() as u32)
}
