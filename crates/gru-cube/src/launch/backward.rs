//! Launches of the backward pass.

use super::{
    Call, Zoneout, count_launch, cube_dim,
    grid::Grid,
    shared::{share, shared_buffer},
    spread, to_u32,
};
use crate::{
    kernel::{
        backward::gru_backward_sequence,
        rule::Pass,
        steps::{
            Steps,
            backward::gru_backward_step,
            transpose::{TRANSPOSE, gru_transpose},
        },
        tensors::BackwardLaunch,
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

const OP: &str = "gru_cube::backward";

/// What the backward pass reads. Every buffer is contiguous, row-major, of the type of the call.
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
    /// Initial state `[N,H]`; zeros if absent. `[2N,H]` with a start state.
    pub h0: Option<Handle>,
    /// Recurrent mask `[N,H]`.
    pub recurrent_mask: Option<Handle>,
    /// `[N,T]` or `[T,N]`: 0 for skipped steps. With [`Starts`](crate::Starts), the codes of the steps.
    pub step_mask: Option<Handle>,
    /// The share of the previous state that is kept at valid steps; nothing if absent.
    pub zoneout: Option<Zoneout>,
    /// The steps of each row, which do not increase from row to row. The rest of a row is padding, and most of it is not
    /// computed: the gradients of its gates are undefined. The order must be forward, `step_mask` and `d_states` must
    /// be 0 in the padding, and `d_h0` must have zeros.
    pub lengths: Option<Vec<usize>>,
}

/// What the backward pass writes.
#[derive(Debug, Clone)]
pub struct BackwardOutputs {
    /// Gradients of the pre-activations, in the shape of the gates: `dr̄ | dz̄ | dn̄ | dn̄⊙r` or
    /// `dr̄ | dz̄ | dn̄`; zeros at skipped steps. Columns `0..3H` are the gradient of `p`. If absent, they
    /// overwrite the gates. Then no other code may read the gates.
    pub d_gates: Option<Handle>,
    /// Gradient of the initial state `[N,H]`. `[2N,H]` with a start state, whose gradient is rows N..2N. Float32
    /// for every type of the call, because kernels sum over all steps in it.
    pub d_h0: Handle,
}

/// Computes the gradients of `Σ states ⊙ d_states` with respect to `p` and the initial state, and the rhs
/// operands of the weight gradients.
///
/// A sequence kernel is one launch with a resident weight, otherwise two. A persistent kernel is three launches. Both have
/// a few more if the sequence is long or rows have different lengths. Step kernels need one launch for each product and
/// two more. The additional launches transpose the weight and compute the gradient of the initial state. The function
/// waits as [`forward`](crate::forward()) does, and a time-out makes the gradients NaN.
///
/// # Errors
/// If the device does not allow the schedule or a tensor, or a self-test fails.
///
/// # Panics
/// - If a buffer is too short, or the type is not a float of 16 or 32 bits.
/// - If starts or lengths lack a tensor, or lengths do not fit the call.
/// - If there are no steps.
pub fn backward(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
    strategy: Strategy,
) -> Result<(), PlanError> {
    if is_empty(call) {
        return Ok(());
    }
    let plan = self_test::passing(
        strategy,
        |persistent| allowed(client, call, inputs, outputs, strategy, persistent),
        |plan| self_test::backward(client, call, inputs, outputs, plan),
    )?;
    let address = call.address_type(client);
    run(client, call, inputs, outputs, plan, address)
}

/// Runs the kernels of a plan, with indices of type `address`.
pub(crate) fn run(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
    plan: Plan,
    address: AddressType,
) -> Result<(), PlanError> {
    let problem = problem(client, call, inputs);
    let shares = check(&problem, call, inputs, outputs, &plan)?;
    let transposed = match plan {
        Plan::Sequence(kernel) => kernel.is_transposed(),
        Plan::Steps(_) => true,
    };
    let saved = problem.rule.saved();
    let mut tensors = tensors(call, inputs, outputs, saved);
    // The weight is the first in the shared buffer.
    let shared = shares.then(|| shared_buffer(client, &tensors));
    let weight = transposed.then(|| {
        let buffer = shared.clone();
        let buffer = buffer.unwrap_or_else(|| client.empty(weight_len(call) * call.dtype.size()));
        transpose(client, call, address, &inputs.w_hh, &buffer);
        buffer
    });
    tensors[WEIGHT].handle = weight.as_ref().or(tensors[WEIGHT].handle);
    if let Some(shared) = &shared {
        let present = if transposed { weight_len(call) } else { 0 };
        share(OP, client, call, address, &mut tensors, shared, present);
    }
    let launches = plan.launches(&problem, 0..call.t, inputs.lengths.as_deref());
    let launches = launches.into_iter().rev();
    match plan {
        Plan::Sequence(kernel) => {
            for launch in launches {
                count_launch();
                // SAFETY: every index of the kernel is below the length of its buffer: rows and columns are
                // clamped to the sizes, and the tensors check the buffers against the same sizes. If gradients
                // overwrite the gates, a unit reads its gates before it writes them. Units without a row or
                // column read the last ones, which another unit may write, and do not use the values.
                unsafe {
                    gru_backward_sequence::launch_unchecked(
                        client,
                        spread(launch.rows.div_ceil(kernel.threads.rows)),
                        cube_dim(&kernel.threads),
                        address,
                        kernel.threads.width,
                        arguments(call, &tensors, &launch),
                        to_u32(OP, "T", launch.steps.start),
                        to_u32(OP, "T", launch.steps.end),
                        kernel,
                        call.dtype,
                    );
                }
            }
        }
        Plan::Steps(all) => {
            let run = |steps: Steps, grid: &Grid, launch: &Launch, end: bool| {
                count_launch();
                // SAFETY: as above. A step does not write the gates that it reads from the
                // following step. Between two steps of a launch there is a grid barrier, whose cubes all
                // run at the same time, as the plan has checked.
                unsafe {
                    gru_backward_step::launch_unchecked(
                        client,
                        grid.count(OP),
                        cube_dim(&steps.threads),
                        address,
                        steps.threads.width,
                        arguments(call, &tensors, launch),
                        grid.barriers(),
                        to_u32(OP, "T", launch.steps.start),
                        to_u32(OP, "T", launch.steps.end),
                        steps,
                        end,
                        call.dtype,
                        call.factors(&steps.threads),
                    );
                }
            };
            for launch in launches {
                for steps in all.launches() {
                    let grid = Grid::new(client, &steps, launch.rows, &problem.limits);
                    grid.run(client, || run(steps, &grid, &launch, false));
                }
            }
            let end = all.end();
            let first = Launch {
                steps: 0..1,
                rows: call.n,
            };
            let grid = Grid::new(client, &end, first.rows, &problem.limits);
            run(end, &grid, &first, true);
        }
    }
    Ok(())
}

/// Whether there is nothing to compute.
///
/// # Panics
/// If the call is malformed or has no steps.
pub(crate) fn is_empty(call: &Call) -> bool {
    call.check(OP);
    assert!(call.t > 0, "{OP}: expected at least one step, got none");
    call.n * call.h == 0
}

/// The plan, if the device allows it for a call with these buffers. Persistent kernels may be left out.
pub(crate) fn allowed(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
    strategy: Strategy,
    persistent: bool,
) -> Result<Plan, PlanError> {
    call.check_starts(OP, inputs.h0.as_ref(), inputs.step_mask.as_ref());
    call.check_lengths(OP, inputs.lengths.as_deref(), inputs.step_mask.as_ref());
    let mut problem = problem(client, call, inputs);
    problem.limits.persistent &= persistent;
    let plan = plan(Pass::Backward, strategy, &problem)?;
    check(&problem, call, inputs, outputs, &plan)?;
    Ok(plan)
}

fn problem(client: &Client, call: &Call, inputs: &BackwardInputs) -> Problem {
    let mut problem = call.problem(OP, client);
    problem.rule.zoneout = Zoneout::kind(inputs.zoneout.as_ref());
    problem
}

/// Checks the tensors. Returns whether the small ones share a buffer.
fn check(
    problem: &Problem,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
    plan: &Plan,
) -> Result<bool, PlanError> {
    let tensors = tensors(call, inputs, outputs, problem.rule.saved());
    check_tensors(&problem.limits, &tensors, plan.is_persistent())
}

/// Place of the weight in [`tensors`].
const WEIGHT: usize = 3;

/// Elements of the weight.
fn weight_len(call: &Call) -> usize {
    3 * call.h * call.h
}

/// The tensors in the order of the kernels' arguments.
fn tensors<'a>(
    call: &Call,
    inputs: &'a BackwardInputs,
    outputs: &'a BackwardOutputs,
    saved: usize,
) -> [Tensor<'a>; 10] {
    let Call { n, h, .. } = *call;
    let (rows, gates_len) = (call.rows(), call.rows() * saved * h);
    [
        call.tensor("gates", &inputs.gates, gates_len),
        call.tensor("d_states", &inputs.d_states, rows * h),
        call.tensor("states", &inputs.states, rows * h),
        call.small("w_hh", &inputs.w_hh, weight_len(call)),
        call.small("h0", inputs.h0.as_ref(), call.state_rows() * h),
        call.small("recurrent_mask", inputs.recurrent_mask.as_ref(), n * h),
        call.small("step_mask", inputs.step_mask.as_ref(), rows),
        call.zoneout(&inputs.zoneout),
        call.tensor("d_gates", outputs.d_gates.as_ref(), gates_len),
        Tensor {
            size: size_of::<f32>(),
            ..call.tensor("d_h0", &outputs.d_h0, call.state_rows() * h)
        },
    ]
}

/// Writes `w_hh` as `[3H,H]`.
fn transpose(client: &Client, call: &Call, address: AddressType, w_hh: &Handle, w_hh_t: &Handle) {
    let len = weight_len(call);
    let tiles = |len: usize| to_u32(OP, "H", len.div_ceil(TRANSPOSE as usize));
    count_launch();
    // SAFETY: the kernel bounds rows and columns by `h` and `3h`, and the tensors check both buffers.
    unsafe {
        gru_transpose::launch_unchecked(
            client,
            CubeCount::Static(tiles(3 * call.h), tiles(call.h), 1),
            CubeDim::new_2d(TRANSPOSE, TRANSPOSE),
            address,
            call.tensor("w_hh", w_hh, len).arg(OP),
            call.tensor("w_hh_t", w_hh_t, len).arg(OP),
            to_u32(OP, "H", call.h),
            call.dtype,
        );
    }
}

/// The arguments of both kernels.
fn arguments<F: Float>(
    call: &Call,
    tensors: &[Tensor<'_>; 10],
    launch: &Launch,
) -> BackwardLaunch<F> {
    let [
        gates,
        d_states,
        states,
        w_hh,
        h0,
        recurrent_mask,
        step_mask,
        zoneout,
        d_gates,
        d_h0,
    ] = tensors;
    BackwardLaunch::new(
        gates.arg(OP),
        d_states.arg(OP),
        states.arg(OP),
        w_hh.arg(OP),
        h0.small_arg(OP),
        recurrent_mask.small_arg(OP),
        step_mask.small_arg(OP),
        zoneout.small_arg(OP),
        if d_gates.bound {
            d_gates.arg(OP)
        } else {
            BufferArg::alias(0, d_gates.elements)
        },
        d_h0.arg(OP),
        call.n,
        call.t,
        launch.rows,
    )
}
