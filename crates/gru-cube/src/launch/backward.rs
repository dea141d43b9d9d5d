//! Launches of the backward pass.

use super::{Call, Zoneout, count_launch, cube_dim, grid::Grid, plan_for_stream, spread, to_u32};
use crate::{
    kernel::{
        backward::{BackwardWalk, gru_backward_walk},
        steps::{
            Halves, Steps,
            backward::gru_backward_step,
            transpose::{TRANSPOSE, gru_transpose},
        },
    },
    plan::{self, Plan, Problem, cut::Strategy, error::PlanError},
};
use cubecl::{client::Client, prelude::*, server::Handle};
use std::ops::Range;

const OP: &str = "gru_cube::backward";

/// What the backward pass reads. Every buffer is dense, row-major, of the type of the call.
#[derive(Debug, Clone)]
pub struct BackwardInputs {
    /// Upstream gradient of the states, `[N,T,H]` or `[T,N,H]`.
    pub d_states: Handle,
    /// The states that the forward pass wrote.
    pub states: Handle,
    /// The gates that the forward pass wrote.
    pub gates: Handle,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: Handle,
    /// Initial state `[N,H]`; zeros if absent.
    pub h0: Option<Handle>,
    /// Recurrent mask `[N,H]`.
    pub recurrent_mask: Option<Handle>,
    /// `[N,T]` or `[T,N]`: 0 where a step is skipped.
    pub step_mask: Option<Handle>,
    /// The share of the previous state that is kept at valid steps; nothing if absent.
    pub zoneout: Option<Zoneout>,
}

/// What the backward pass writes.
#[derive(Debug, Clone)]
pub struct BackwardOutputs {
    /// Gradients of the pre-activations, in the shape of the gates: `dr̄ | dz̄ | dn̄ | dn̄⊙r` or
    /// `dr̄ | dz̄ | dn̄`; zeros at skipped steps. Columns `0..3H` are the gradient of `p`. If
    /// absent they replace the gates in place, for which nothing else may read the gates.
    pub d_gates: Option<Handle>,
    /// Gradient of the initial state `[N,H]`.
    pub d_h0: Handle,
}

/// [`crate::backward()`] by a strategy that is not tuned.
pub(crate) fn backward(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
    strategy: Strategy,
) -> Result<(), PlanError> {
    if is_empty(call) {
        return Ok(());
    }
    let (problem, plan) = allowed(client, call, inputs, outputs, strategy)?;
    match plan {
        Plan::Walk(walk) => {
            let weight = if walk.transposed {
                transpose(client, call, &inputs.w_hh)
            } else {
                inputs.w_hh.clone()
            };
            launch_walk(client, call, inputs, outputs, walk, weight);
        }
        Plan::Steps(steps) => {
            let w_hh_t = transpose(client, call, &inputs.w_hh);
            // In float32 whatever the type of the call: it is a sum over all steps.
            let carry = client.empty(call.n * call.h * size_of::<f32>());
            let launch = |steps: Steps, part: Option<Range<usize>>| {
                let grid = Grid::new(client, &steps, call, &problem.limits);
                let scratch = (w_hh_t.clone(), carry.clone());
                launch_steps(client, call, inputs, outputs, steps, part, &grid, scratch);
                grid.check_met(client)
            };
            for part in Grid::parts(&steps, 0..call.t).rev() {
                for steps in steps.launches() {
                    launch(steps, Some(part.clone()))?;
                }
            }
            let halves = Halves::One(steps.half(0));
            launch(Steps { halves, ..steps }, None)?;
        }
    }
    Ok(())
}

/// Whether there is nothing to compute.
///
/// # Panics
/// If the call is not one, or has no steps.
pub(crate) fn is_empty(call: &Call) -> bool {
    call.check(OP);
    assert!(call.t > 0, "{OP}: expected at least one step, got none");
    call.n * call.h == 0
}

/// The plan, if the device allows it to a call with these buffers.
pub(crate) fn allowed(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
    strategy: Strategy,
) -> Result<(Problem, Plan<BackwardWalk>), PlanError> {
    let mut problem = call.problem(OP, client);
    problem.rule.zoneout = Zoneout::kind(inputs.zoneout.as_ref());
    let plan = plan_for_stream(client, &mut problem, |problem| {
        plan::backward(strategy, problem)
    })?;
    let always = match plan {
        Plan::Walk(_) => 5,
        Plan::Steps(_) => 6 + usize::from(plan.meets()),
    };
    let optional = [
        inputs.h0.is_some(),
        inputs.recurrent_mask.is_some(),
        inputs.step_mask.is_some(),
        inputs.zoneout.is_some(),
        outputs.d_gates.is_some(),
    ];
    problem.limits.check_buffers(always, &optional)?;
    Ok((problem, plan))
}

/// `w_hh` as `[3H,H]`.
fn transpose(client: &Client, call: &Call, w_hh: &Handle) -> Handle {
    let len = 3 * call.h * call.h;
    let w_hh_t = client.empty(len * call.dtype.size());
    let tiles = |len: usize| to_u32(OP, "H", len.div_ceil(TRANSPOSE as usize));
    count_launch();
    // SAFETY: the kernel bounds rows and columns by `h` and `3h`, and `arg` checks both buffers.
    unsafe {
        gru_transpose::launch_unchecked(
            client,
            CubeCount::Static(tiles(3 * call.h), tiles(call.h), 1),
            CubeDim::new_2d(TRANSPOSE, TRANSPOSE),
            call.address_type(),
            call.arg(OP, "w_hh", w_hh.clone(), len),
            call.arg(OP, "w_hh_t", w_hh_t.clone(), len),
            to_u32(OP, "H", call.h),
            call.dtype,
        );
    }
    w_hh_t
}

/// Where the gradients of the gates go; in place, over argument 0 of the kernels.
fn d_gates_arg(call: &Call, outputs: &BackwardOutputs, len: usize) -> BufferArg {
    match &outputs.d_gates {
        Some(d_gates) => call.arg(OP, "d_gates", d_gates.clone(), len),
        None => BufferArg::alias(0, len),
    }
}

fn launch_walk(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
    walk: BackwardWalk,
    weight: Handle,
) {
    let Call { n, t, h, .. } = *call;
    let (rows, gates_len) = (call.rows(), call.rows() * walk.rule.saved() * h);
    count_launch();
    // SAFETY: every index that the kernel makes is below the length of its buffer: rows and
    // columns are clamped to the sizes, and `arg` checks the buffers against the same sizes. In
    // place, a unit reads its gates before it writes over them, and no other unit reads them.
    unsafe {
        gru_backward_walk::launch_unchecked(
            client,
            spread(n.div_ceil(walk.team.rows)),
            cube_dim(&walk.team),
            call.address_type(),
            walk.team.width,
            call.arg(OP, "gates", inputs.gates.clone(), gates_len),
            call.arg(OP, "d_states", inputs.d_states.clone(), rows * h),
            call.arg(OP, "states", inputs.states.clone(), rows * h),
            call.arg(OP, "w_hh", weight, 3 * h * h),
            call.optional(OP, "h0", inputs.h0.as_ref(), n * h),
            call.optional(OP, "recurrent_mask", inputs.recurrent_mask.as_ref(), n * h),
            call.optional(OP, "step_mask", inputs.step_mask.as_ref(), rows),
            call.zoneout_arg(OP, inputs.zoneout.as_ref()),
            d_gates_arg(call, outputs, gates_len),
            call.arg(OP, "d_h0", outputs.d_h0.clone(), n * h),
            to_u32(OP, "N", n),
            to_u32(OP, "T", t),
            walk,
            call.dtype,
        );
    }
}

/// Some steps, or after step 0, with none, the gradient of the initial state.
#[allow(clippy::too_many_arguments)]
fn launch_steps(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
    steps: Steps,
    part: Option<Range<usize>>,
    grid: &Grid,
    (w_hh_t, carry): (Handle, Handle),
) {
    let Call { n, t, h, .. } = *call;
    let (rows, gates_len) = (call.rows(), call.rows() * steps.rule.saved() * h);
    let is_end = part.is_none();
    let part = part.unwrap_or(0..1);
    count_launch();
    // SAFETY: as for the walk; the carry was made for N·H numbers of float32, and the rows of
    // the gates that a step reads from its neighbours are not those that it writes. Cubes meet
    // between two steps of a launch, all of them running, as the plan has seen to.
    unsafe {
        gru_backward_step::launch_unchecked(
            client,
            grid.count(OP),
            cube_dim(&steps.team),
            call.address_type(),
            steps.team.width,
            call.arg(OP, "gates", inputs.gates.clone(), gates_len),
            call.arg(OP, "d_states", inputs.d_states.clone(), rows * h),
            call.arg(OP, "states", inputs.states.clone(), rows * h),
            call.arg(OP, "w_hh", w_hh_t, 3 * h * h),
            call.optional(OP, "h0", inputs.h0.as_ref(), n * h),
            call.optional(OP, "recurrent_mask", inputs.recurrent_mask.as_ref(), n * h),
            call.optional(OP, "step_mask", inputs.step_mask.as_ref(), rows),
            call.zoneout_arg(OP, inputs.zoneout.as_ref()),
            d_gates_arg(call, outputs, gates_len),
            BufferArg::from_raw_parts(carry, n * h),
            call.arg(OP, "d_h0", outputs.d_h0.clone(), n * h),
            grid.counters(),
            to_u32(OP, "N", n),
            to_u32(OP, "T", t),
            to_u32(OP, "T", part.start),
            to_u32(OP, "T", part.end),
            steps,
            is_end,
            call.dtype,
            call.factors(&steps.team),
        );
    }
}
