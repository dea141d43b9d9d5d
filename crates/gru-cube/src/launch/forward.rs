//! Launches of the forward pass.

use super::{Call, Zoneout, count_launch, cube_dim, grid::Grid, plan_for_stream, spread, to_u32};
use crate::{
    kernel::{
        forward::{ForwardWalk, gru_forward_walk},
        steps::{Steps, forward::gru_forward_step},
    },
    plan::{self, Plan, Problem, cut::Strategy, error::PlanError},
};
use cubecl::{client::Client, prelude::*, server::Handle};
use std::ops::Range;

const OP: &str = "gru_cube::forward";

/// What the forward pass reads. Every buffer is dense, row-major, of the type of the call.
#[derive(Debug, Clone)]
pub struct ForwardInputs {
    /// The steps to make, in walking order; the states of those before them are there already.
    pub steps: Range<usize>,
    /// `x·w_ih` of these steps, `[N,steps,3H]` or `[steps,N,3H]`.
    pub p: Handle,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: Handle,
    /// Bias of the input product `[3H]`, if `p` lacks it.
    pub b_ih: Option<Handle>,
    /// Bias of the recurrent product `[3H]`.
    pub b_hh: Option<Handle>,
    /// Initial state `[N,H]`; zeros if absent.
    pub h0: Option<Handle>,
    /// Recurrent mask `[N,H]`.
    pub recurrent_mask: Option<Handle>,
    /// `[N,T]` or `[T,N]`: 0 where a step is skipped and the state carried on.
    pub step_mask: Option<Handle>,
    /// The share of the previous state that is kept at valid steps; nothing if absent.
    pub zoneout: Option<Zoneout>,
}

/// What the forward pass writes.
#[derive(Debug, Clone)]
pub struct ForwardOutputs {
    /// State after every step, `[N,T,H]` or `[T,N,H]`.
    pub states: Handle,
    /// The gates, for [`backward`](crate::backward()): `r | z | n | q_n`, `[…,4H]`, for
    /// reset-after; `r | z | n`, `[…,3H]`, for reset-before. Without meaning at skipped steps.
    pub gates: Option<Handle>,
}

/// [`crate::forward()`] by a strategy that is not tuned.
pub(crate) fn forward(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    strategy: Strategy,
) -> Result<(), PlanError> {
    if is_empty(call, inputs) {
        return Ok(());
    }
    let (problem, plan) = allowed(client, call, inputs, outputs, strategy)?;
    match plan {
        Plan::Walk(walk) => launch_walk(client, call, inputs, outputs, walk),
        Plan::Steps(steps) => {
            // In float32 whatever the type of the call: it is the left side of a product.
            let row = 2 * call.h * size_of::<f32>();
            let between = (!problem.rule.reset_after).then(|| client.empty(call.n * row));
            // The same size: the states before and after a step, which are rounded on their way out alone.
            let exact = call.is_narrow().then(|| client.empty(call.n * row));
            let scratch = Scratch { between, exact };
            for part in Grid::parts(&steps, inputs.steps.clone()) {
                for steps in steps.launches() {
                    let grid = Grid::new(client, &steps, call, &problem.limits);
                    let part = part.clone();
                    launch_steps(client, call, inputs, outputs, steps, part, &grid, &scratch);
                    grid.check_met(client)?;
                }
            }
        }
    }
    Ok(())
}

/// Whether there is nothing to compute.
///
/// # Panics
/// If the call is not one, or there are no such steps.
pub(crate) fn is_empty(call: &Call, inputs: &ForwardInputs) -> bool {
    call.check(OP);
    let (steps, t) = (&inputs.steps, call.t);
    assert!(
        steps.start <= steps.end && steps.end <= t,
        "{OP}: expected steps within 0..{t}, got {steps:?}"
    );
    call.n * steps.len() * call.h == 0
}

/// The plan, if the device allows it to a call with these buffers.
pub(crate) fn allowed(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    strategy: Strategy,
) -> Result<(Problem, Plan<ForwardWalk>), PlanError> {
    let mut problem = call.problem(OP, client);
    problem.rule.zoneout = Zoneout::kind(inputs.zoneout.as_ref());
    let optional = [
        inputs.b_ih.is_some(),
        inputs.b_hh.is_some(),
        inputs.h0.is_some(),
        inputs.recurrent_mask.is_some(),
        inputs.step_mask.is_some(),
        inputs.zoneout.is_some(),
        outputs.gates.is_some(),
    ];
    let plan = plan_for_stream(client, &mut problem, |problem| {
        plan::forward(strategy, problem)
    })?;
    let always = match plan {
        Plan::Walk(_) => 3,
        Plan::Steps(_) => {
            let scratch = [plan.meets(), !problem.rule.reset_after, call.is_narrow()];
            3 + scratch.into_iter().filter(|&is_there| is_there).count()
        }
    };
    problem.limits.check_buffers(always, &optional)?;
    Ok((problem, plan))
}

fn launch_walk(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    walk: ForwardWalk,
) {
    let Call { n, t, h, .. } = *call;
    let (rows, saved) = (call.rows(), walk.rule.saved());
    count_launch();
    // SAFETY: every index that the kernel makes is below the length of its buffer: rows and
    // columns are clamped to the sizes, and `arg` checks the buffers against the same sizes.
    unsafe {
        gru_forward_walk::launch_unchecked(
            client,
            spread(n.div_ceil(walk.team.rows)),
            cube_dim(&walk.team),
            call.address_type(),
            walk.team.width,
            call.arg(OP, "p", inputs.p.clone(), n * inputs.steps.len() * 3 * h),
            call.arg(OP, "w_hh", inputs.w_hh.clone(), 3 * h * h),
            call.optional(OP, "b_ih", inputs.b_ih.as_ref(), 3 * h),
            call.optional(OP, "b_hh", inputs.b_hh.as_ref(), 3 * h),
            call.optional(OP, "h0", inputs.h0.as_ref(), n * h),
            call.optional(OP, "recurrent_mask", inputs.recurrent_mask.as_ref(), n * h),
            call.optional(OP, "step_mask", inputs.step_mask.as_ref(), rows),
            call.zoneout_arg(OP, inputs.zoneout.as_ref()),
            call.arg(OP, "states", outputs.states.clone(), rows * h),
            call.optional(OP, "gates", outputs.gates.as_ref(), rows * saved * h),
            to_u32(OP, "N", n),
            to_u32(OP, "T", t),
            to_u32(OP, "T", inputs.steps.start),
            to_u32(OP, "T", inputs.steps.end),
            walk,
            call.dtype,
        );
    }
}

/// What steps hand on, in float32: `[N,2H]` and `[2,N,H]`.
struct Scratch {
    /// Reset before the product: from the first product to the second.
    between: Option<Handle>,
    /// Storage of 16 bits: the state, from step to step.
    exact: Option<Handle>,
}

#[allow(clippy::too_many_arguments)]
fn launch_steps(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    steps: Steps,
    part: Range<usize>,
    grid: &Grid,
    scratch: &Scratch,
) {
    let Call { n, t, h, .. } = *call;
    let (rows, saved) = (call.rows(), steps.rule.saved());
    let two_rows = |handle: &Option<Handle>| {
        let handle = handle.clone()?;
        // SAFETY: each was made for 2·N·H numbers of float32.
        Some(unsafe { BufferArg::from_raw_parts(handle, 2 * n * h) })
    };
    count_launch();
    // SAFETY: as for the walk; the rows of the states that a step writes, in `states` and in `exact`, are
    // not those that it reads. Cubes meet between two steps of a
    // launch, all of them running, as the plan has seen to.
    unsafe {
        gru_forward_step::launch_unchecked(
            client,
            grid.count(OP),
            cube_dim(&steps.team),
            call.address_type(),
            steps.team.width,
            call.arg(OP, "p", inputs.p.clone(), n * inputs.steps.len() * 3 * h),
            call.arg(OP, "w_hh", inputs.w_hh.clone(), 3 * h * h),
            call.optional(OP, "b_ih", inputs.b_ih.as_ref(), 3 * h),
            call.optional(OP, "b_hh", inputs.b_hh.as_ref(), 3 * h),
            call.optional(OP, "h0", inputs.h0.as_ref(), n * h),
            call.optional(OP, "recurrent_mask", inputs.recurrent_mask.as_ref(), n * h),
            call.optional(OP, "step_mask", inputs.step_mask.as_ref(), rows),
            call.zoneout_arg(OP, inputs.zoneout.as_ref()),
            call.arg(OP, "states", outputs.states.clone(), rows * h),
            call.optional(OP, "gates", outputs.gates.as_ref(), rows * saved * h),
            two_rows(&scratch.between).into(),
            two_rows(&scratch.exact).into(),
            grid.counters(),
            to_u32(OP, "N", n),
            to_u32(OP, "T", t),
            to_u32(OP, "T", inputs.steps.start),
            to_u32(OP, "T", inputs.steps.end),
            to_u32(OP, "T", part.start),
            to_u32(OP, "T", part.end),
            steps,
            call.dtype,
            call.factors(&steps.team),
        );
    }
}
