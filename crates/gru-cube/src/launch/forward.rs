//! Launches of the forward pass.

use super::{
    Call, Zoneout, count_launch, cube_dim,
    grid::Grid,
    shared::{share, shared_buffer},
    spread, to_u32,
};
use crate::{
    kernel::{
        forward::gru_forward_sequence, rule::Pass, steps::forward::gru_forward_step,
        tensors::ForwardLaunch,
    },
    plan::{
        Plan, Problem,
        error::PlanError,
        plan,
        schedule::Strategy,
        tensor::{Tensor, check_tensors},
        time::Launch,
    },
    self_test,
};
use cubecl::{client::Client, ir::AddressType, prelude::*, server::Handle};
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
    /// The steps of each row, which do not increase from row to row. The rest of a row is padding, and most of it is not
    /// computed: its states and gates are undefined. The order must be forward, and `step_mask` 0 in the padding.
    pub lengths: Option<Vec<usize>>,
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

/// Computes the state after every step, and the gates if an output for them is given. The call may compute
/// some steps only, so that a caller can compute `p` in chunks of time.
///
/// Sequence kernels and persistent kernels are one launch, or a few if the sequence is long or rows have different
/// lengths. Step kernels are one launch for each product. The function does not wait for the device, except for a
/// self-test, and for a persistent kernel in another stream. If a grid barrier times out, the states are NaN.
///
/// # Errors
/// If the device does not allow the schedule or a tensor, or a self-test fails.
///
/// # Panics
/// - If a buffer is too short, or the type is not a float of 16 or 32 bits.
/// - If starts or lengths lack a tensor, or lengths do not fit the call.
/// - If the steps do not exist.
pub fn forward(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    strategy: Strategy,
) -> Result<(), PlanError> {
    if is_empty(call, inputs) {
        return Ok(());
    }
    let plan = self_test::passing(
        strategy,
        |persistent| allowed(client, call, inputs, outputs, strategy, persistent),
        |plan| self_test::forward(client, call, inputs, outputs, plan),
    )?;
    let address = call.address_type(client);
    run(client, call, inputs, outputs, plan, address)
}

/// Runs the kernels of a plan, with indices of type `address`.
pub(crate) fn run(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    plan: Plan,
    address: AddressType,
) -> Result<(), PlanError> {
    let problem = problem(client, call, inputs);
    let shares = check(&problem, call, inputs, outputs, &plan)?;
    let mut tensors = tensors(call, inputs, outputs, problem.rule.saved());
    let shared = shares.then(|| shared_buffer(client, &tensors));
    if let Some(shared) = &shared {
        share(OP, client, call, address, &mut tensors, shared, 0);
    }
    let scratch_len = scratch_len(call, &plan);
    let scratch = (scratch_len > 0).then(|| client.empty(scratch_len * size_of::<f32>()));
    // SAFETY: the buffer has this number of values.
    let scratch = || Some(unsafe { BufferArg::from_raw_parts(scratch.clone()?, scratch_len) });
    let launches = plan.launches(&problem, inputs.steps.clone(), inputs.lengths.as_deref());
    match plan {
        Plan::Sequence(kernel) => {
            for launch in launches {
                count_launch();
                // SAFETY: every index of the kernel is below the length of its buffer: rows and columns are
                // clamped to the sizes, and the tensors check the buffers against the same sizes.
                unsafe {
                    gru_forward_sequence::launch_unchecked(
                        client,
                        spread(launch.rows.div_ceil(kernel.threads.rows)),
                        cube_dim(&kernel.threads),
                        address,
                        kernel.threads.width,
                        arguments(call, &inputs.steps, &tensors, scratch(), &launch),
                        to_u32(OP, "T", launch.steps.start),
                        to_u32(OP, "T", launch.steps.end),
                        kernel,
                        call.dtype,
                    );
                }
            }
        }
        Plan::Steps(all) => {
            for launch in launches {
                for steps in all.launches() {
                    let grid = Grid::new(client, &steps, launch.rows, &problem.limits);
                    // SAFETY: as above. A step does not write rows of `states` and scratch memory that
                    // it reads. Between two steps of a launch there is a grid barrier, whose cubes all run
                    // at the same time, as the plan has checked.
                    grid.run(client, || unsafe {
                        count_launch();
                        gru_forward_step::launch_unchecked(
                            client,
                            grid.count(OP),
                            cube_dim(&steps.threads),
                            address,
                            steps.threads.width,
                            arguments(call, &inputs.steps, &tensors, scratch(), &launch),
                            grid.barriers(),
                            to_u32(OP, "T", launch.steps.start),
                            to_u32(OP, "T", launch.steps.end),
                            steps,
                            call.dtype,
                            call.factors(&steps.threads),
                        );
                    });
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

/// The plan, if the device allows it for a call with these buffers. Persistent kernels may be left out.
pub(crate) fn allowed(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    strategy: Strategy,
    persistent: bool,
) -> Result<Plan, PlanError> {
    call.check_starts(OP, inputs.h0.as_ref(), inputs.step_mask.as_ref());
    call.check_lengths(OP, inputs.lengths.as_deref(), inputs.step_mask.as_ref());
    let mut problem = problem(client, call, inputs);
    problem.limits.persistent &= persistent;
    let plan = plan(Pass::Forward, strategy, &problem)?;
    check(&problem, call, inputs, outputs, &plan)?;
    Ok(plan)
}

fn problem(client: &Client, call: &Call, inputs: &ForwardInputs) -> Problem {
    let mut problem = call.problem(OP, client);
    problem.rule.zoneout = Zoneout::kind(inputs.zoneout.as_ref());
    problem
}

/// Checks the tensors. Returns whether the small ones share a buffer.
fn check(
    problem: &Problem,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    plan: &Plan,
) -> Result<bool, PlanError> {
    let scratch_len = scratch_len(call, plan);
    let scratch = [Tensor::scratch("scratch", scratch_len, scratch_len > 0)];
    let tensors = tensors(call, inputs, outputs, problem.rule.saved());
    let tensors = [&tensors[..], &scratch].concat();
    check_tensors(&problem.limits, &tensors, plan.is_persistent())
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
        call.small("b_ih", inputs.b_ih.as_ref(), 3 * h),
        call.small("b_hh", inputs.b_hh.as_ref(), 3 * h),
        call.small("h0", inputs.h0.as_ref(), call.state_rows() * h),
        call.small("recurrent_mask", inputs.recurrent_mask.as_ref(), n * h),
        call.small("step_mask", inputs.step_mask.as_ref(), rows),
        call.zoneout(&inputs.zoneout),
        call.tensor("states", &outputs.states, rows * h),
        call.tensor("gates", outputs.gates.as_ref(), rows * saved * h),
    ]
}

/// Float32 values of scratch memory that step kernels need, 2·N·H for each of two purposes. With the reset before
/// the product: `r ⊙ g` and z, from the first phase to the second. With 16-bit states: the state before and after a
/// step. It is rounded only when it is stored.
fn scratch_len(call: &Call, plan: &Plan) -> usize {
    match plan {
        Plan::Sequence(_) => 0,
        Plan::Steps(steps) => {
            let rule = steps.rule;
            (usize::from(!rule.reset_after) + usize::from(rule.narrow)) * 2 * call.n * call.h
        }
    }
}

/// The arguments of both kernels.
fn arguments<F: Float>(
    call: &Call,
    steps: &Range<usize>,
    tensors: &[Tensor<'_>; 10],
    scratch: Option<BufferArg>,
    launch: &Launch,
) -> ForwardLaunch<F> {
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
    ] = tensors;
    ForwardLaunch::new(
        p.arg(OP),
        w_hh.arg(OP),
        b_ih.small_arg(OP),
        b_hh.small_arg(OP),
        h0.small_arg(OP),
        recurrent_mask.small_arg(OP),
        step_mask.small_arg(OP),
        zoneout.small_arg(OP),
        states.arg(OP),
        gates.optional(OP),
        scratch.into(),
        call.n,
        call.t,
        launch.rows,
        steps.start,
        steps.end,
    )
}
