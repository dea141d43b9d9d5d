//! Launches of the forward pass.

use super::{Call, Zoneout, count_launch, cube_dim, grid::Grid, ranges, spread, to_u32};
use crate::{
    kernel::{
        forward::gru_forward_walk, rule::Pass, sequence::ForwardLaunch,
        steps::forward::gru_forward_step,
    },
    plan::{Plan, Problem, Tensor, check_tensors, error::PlanError, plan, schedule::Strategy},
};
use cubecl::{client::Client, prelude::*, server::Handle};
use std::ops::Range;

const OP: &str = "gru_cube::forward";

/// What the forward pass reads. Every buffer is contiguous, row-major, of the type of the call.
#[derive(Debug, Clone)]
pub struct ForwardInputs {
    /// The steps to compute, in the order of computation. The states of the steps before them are already
    /// in the output.
    pub steps: Range<usize>,
    /// `x·w_ih` of these steps, `[N,steps,3H]` or `[steps,N,3H]`.
    pub p: Handle,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: Handle,
    /// Bias of the input product `[3H]`, if `p` does not include it.
    pub b_ih: Option<Handle>,
    /// Bias of the recurrent product `[3H]`.
    pub b_hh: Option<Handle>,
    /// Initial state `[N,H]`; zeros if absent. `[2N,H]` with a start state.
    pub h0: Option<Handle>,
    /// Recurrent mask `[N,H]`.
    pub recurrent_mask: Option<Handle>,
    /// `[N,T]` or `[T,N]`: 0 for steps that are skipped and keep the state. With [`Starts`](crate::Starts), the
    /// codes of the steps.
    pub step_mask: Option<Handle>,
    /// The share of the previous state that is kept at valid steps; nothing if absent.
    pub zoneout: Option<Zoneout>,
}

/// What the forward pass writes.
#[derive(Debug, Clone)]
pub struct ForwardOutputs {
    /// State after every step, `[N,T,H]` or `[T,N,H]`.
    pub states: Handle,
    /// The gates, for [`backward`](crate::backward()): `r | z | n | q_n`, `[…,4H]`, with the reset after
    /// the product; `r | z | n`, `[…,3H]`, with the reset before it. Undefined at skipped steps.
    pub gates: Option<Handle>,
}

/// [`crate::forward()`] by a strategy other than [`Strategy::Tuned`].
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
    let scratch = Scratch::new(client, call, &plan);
    let saved = problem.rule.saved();
    let launches = ranges(inputs.steps.clone(), plan.steps_per_launch(&problem));
    match plan {
        Plan::Walk(walk) => {
            for range in launches {
                count_launch();
                // SAFETY: every index of the kernel is below the length of its buffer: rows and columns are
                // clamped to the sizes, and the tensors check the buffers against the same sizes.
                unsafe {
                    gru_forward_walk::launch_unchecked(
                        client,
                        spread(call.n.div_ceil(walk.threads.rows)),
                        cube_dim(&walk.threads),
                        call.address_type(),
                        walk.threads.width,
                        arguments(call, inputs, outputs, &scratch, saved),
                        to_u32(OP, "T", range.start),
                        to_u32(OP, "T", range.end),
                        walk,
                        call.dtype,
                    );
                }
            }
        }
        Plan::Steps(all) => {
            for range in launches {
                for steps in all.launches() {
                    let grid = Grid::new(client, &steps, call, &problem.limits);
                    // SAFETY: as above. A step does not write rows of `states` and `state_f32` that
                    // it reads. Between two steps of a launch there is a grid barrier, whose cubes all run
                    // at the same time, as the plan has checked.
                    grid.run(client, || unsafe {
                        count_launch();
                        gru_forward_step::launch_unchecked(
                            client,
                            grid.count(OP),
                            cube_dim(&steps.threads),
                            call.address_type(),
                            steps.threads.width,
                            arguments(call, inputs, outputs, &scratch, saved),
                            grid.barriers(),
                            to_u32(OP, "T", range.start),
                            to_u32(OP, "T", range.end),
                            steps,
                            call.dtype,
                            call.factors(&steps.threads),
                        );
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// Whether there is nothing to compute.
///
/// # Panics
/// If the call is malformed or does not have these steps.
pub(crate) fn is_empty(call: &Call, inputs: &ForwardInputs) -> bool {
    call.check(OP);
    let (steps, t) = (&inputs.steps, call.t);
    assert!(
        steps.start <= steps.end && steps.end <= t,
        "{OP}: expected steps within 0..{t}, got {steps:?}"
    );
    call.n * steps.len() * call.h == 0
}

/// The plan, if the device allows it for a call with these buffers.
pub(crate) fn allowed(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    strategy: Strategy,
) -> Result<(Problem, Plan), PlanError> {
    call.check_starts(OP, inputs.h0.as_ref(), inputs.step_mask.as_ref());
    let mut problem = call.problem(OP, client);
    problem.rule.zoneout = Zoneout::kind(inputs.zoneout.as_ref());
    let plan = plan(Pass::Forward, strategy, &problem)?;
    let (rz, state_f32) = Scratch::kinds(call, &plan);
    let len = 2 * call.n * call.h;
    let scratch = [
        Tensor::scratch("rz_scratch", len, rz),
        Tensor::scratch("state_f32", len, state_f32),
        Tensor::scratch("barriers", 1, plan.is_persistent()),
    ];
    let tensors = tensors(call, inputs, outputs, problem.rule.saved());
    check_tensors(&problem.limits, &[&tensors[..], &scratch].concat())?;
    Ok((problem, plan))
}

/// The tensors in the order of the kernels' arguments.
fn tensors<'a>(
    call: &Call,
    inputs: &'a ForwardInputs,
    outputs: &'a ForwardOutputs,
    saved: usize,
) -> [Tensor<'a>; 10] {
    let Call { n, h, .. } = *call;
    let rows = call.rows();
    [
        call.tensor("p", &inputs.p, n * inputs.steps.len() * 3 * h),
        call.tensor("w_hh", &inputs.w_hh, 3 * h * h),
        call.tensor("b_ih", inputs.b_ih.as_ref(), 3 * h),
        call.tensor("b_hh", inputs.b_hh.as_ref(), 3 * h),
        call.tensor("h0", inputs.h0.as_ref(), call.state_rows() * h),
        call.tensor("recurrent_mask", inputs.recurrent_mask.as_ref(), n * h),
        call.tensor("step_mask", inputs.step_mask.as_ref(), rows),
        call.zoneout(&inputs.zoneout),
        call.tensor("states", &outputs.states, rows * h),
        call.tensor("gates", outputs.gates.as_ref(), rows * saved * h),
    ]
}

/// Float32 buffers that step kernels need, of 2·N·H values each.
struct Scratch {
    /// Reset before the product: `r ⊙ g` and z, from the first phase to the second.
    rz: Option<Handle>,
    /// 16-bit states: the state before and after a step. It is rounded only when it is stored.
    state_f32: Option<Handle>,
}

impl Scratch {
    fn kinds(call: &Call, plan: &Plan) -> (bool, bool) {
        match plan {
            Plan::Walk(_) => (false, false),
            Plan::Steps(steps) => (!steps.rule.reset_after, call.is_narrow()),
        }
    }

    fn new(client: &Client, call: &Call, plan: &Plan) -> Self {
        let (rz, state_f32) = Self::kinds(call, plan);
        let buffer = || client.empty(2 * call.n * call.h * size_of::<f32>());
        Self {
            rz: rz.then(buffer),
            state_f32: state_f32.then(buffer),
        }
    }
}

/// The arguments of both kernels.
fn arguments<F: Float>(
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    scratch: &Scratch,
    saved: usize,
) -> ForwardLaunch<F> {
    let of_scratch = |buffer: &Option<Handle>| {
        let buffer = buffer.clone()?;
        // SAFETY: the buffer has 2·N·H values of float32.
        Some(unsafe { BufferArg::from_raw_parts(buffer, 2 * call.n * call.h) })
    };
    let [
        p,
        w_hh,
        b_ih,
        b_hh,
        h0,
        recurrent_mask,
        step_mask,
        zoneout,
        states,
        gates,
    ] = tensors(call, inputs, outputs, saved);
    ForwardLaunch::new(
        p.arg(OP),
        w_hh.arg(OP),
        b_ih.optional(OP),
        b_hh.optional(OP),
        h0.optional(OP),
        recurrent_mask.optional(OP),
        step_mask.optional(OP),
        zoneout.optional(OP),
        states.arg(OP),
        gates.optional(OP),
        of_scratch(&scratch.rz).into(),
        of_scratch(&scratch.state_f32).into(),
        call.n,
        call.t,
        inputs.steps.start,
        inputs.steps.end,
    )
}
