//! Launches of the backward pass.

use super::{Call, Zoneout, count_launch, cube_dim, grid::Grid, ranges, spread, to_u32};
use crate::{
    kernel::{
        backward::gru_backward_walk,
        rule::Pass,
        sequence::BackwardLaunch,
        steps::{
            Phases, Steps,
            backward::gru_backward_step,
            transpose::{TRANSPOSE, gru_transpose},
        },
    },
    plan::{Plan, Problem, Tensor, check_tensors, error::PlanError, plan, schedule::Strategy},
};
use cubecl::{client::Client, prelude::*, server::Handle};

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
}

/// What the backward pass writes.
#[derive(Debug, Clone)]
pub struct BackwardOutputs {
    /// Gradients of the pre-activations, in the shape of the gates: `dr̄ | dz̄ | dn̄ | dn̄⊙r` or
    /// `dr̄ | dz̄ | dn̄`; zeros at skipped steps. Columns `0..3H` are the gradient of `p`. If absent, they
    /// overwrite the gates. Then no other code may read the gates.
    pub d_gates: Option<Handle>,
    /// Gradient of the initial state `[N,H]`. `[2N,H]` with a start state, whose gradient is rows N..2N.
    pub d_h0: Handle,
}

/// [`crate::backward()`] by a strategy other than [`Strategy::Tuned`].
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
    let transposed = match plan {
        Plan::Walk(walk) => walk.is_transposed(),
        Plan::Steps(_) => true,
    };
    let weight = if transposed {
        transpose(client, call, &inputs.w_hh)
    } else {
        inputs.w_hh.clone()
    };
    // Float32 for every type of the call, because it is a sum over all steps.
    let dh = matches!(plan, Plan::Steps(_))
        .then(|| client.empty(call.state_rows() * call.h * size_of::<f32>()));
    let buffers = Buffers {
        inputs,
        outputs,
        weight: &weight,
        dh: dh.as_ref(),
    };
    let saved = problem.rule.saved();
    let launches = ranges(0..call.t, plan.steps_per_launch(&problem)).rev();
    match plan {
        Plan::Walk(walk) => {
            for range in launches {
                count_launch();
                // SAFETY: every index of the kernel is below the length of its buffer: rows and columns are
                // clamped to the sizes, and the tensors check the buffers against the same sizes. If gradients
                // overwrite the gates, a unit reads its gates before it writes them. Units without a row or
                // column read the last ones, which another unit may write, and do not use the values.
                unsafe {
                    gru_backward_walk::launch_unchecked(
                        client,
                        spread(call.n.div_ceil(walk.threads.rows)),
                        cube_dim(&walk.threads),
                        call.address_type(),
                        walk.threads.width,
                        arguments(call, &buffers, saved),
                        to_u32(OP, "T", range.start),
                        to_u32(OP, "T", range.end),
                        walk,
                        call.dtype,
                    );
                }
            }
        }
        Plan::Steps(all) => {
            let launch = |steps: Steps, grid: &Grid, first: usize, last: usize, end: bool| {
                count_launch();
                // SAFETY: as above. A step does not write the gates that it reads from the
                // following step. Between two steps of a launch there is a grid barrier, whose cubes all
                // run at the same time, as the plan has checked.
                unsafe {
                    gru_backward_step::launch_unchecked(
                        client,
                        grid.count(OP),
                        cube_dim(&steps.threads),
                        call.address_type(),
                        steps.threads.width,
                        arguments(call, &buffers, saved),
                        grid.barriers(),
                        to_u32(OP, "T", first),
                        to_u32(OP, "T", last),
                        steps,
                        end,
                        call.dtype,
                        call.factors(&steps.threads),
                    );
                }
            };
            for range in launches {
                for steps in all.launches() {
                    let grid = Grid::new(client, &steps, call, &problem.limits);
                    grid.run(client, || {
                        launch(steps, &grid, range.start, range.end, false)
                    })?;
                }
            }
            // One step, without a barrier.
            let end = Steps {
                phases: Phases::One(all.phase(0)),
                ..all
            };
            let grid = Grid::new(client, &end, call, &problem.limits);
            launch(end, &grid, 0, 1, true);
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

/// The plan, if the device allows it for a call with these buffers.
pub(crate) fn allowed(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
    strategy: Strategy,
) -> Result<(Problem, Plan), PlanError> {
    call.check_starts(OP, inputs.h0.as_ref(), inputs.step_mask.as_ref());
    let mut problem = call.problem(OP, client);
    problem.rule.zoneout = Zoneout::kind(inputs.zoneout.as_ref());
    let plan = plan(Pass::Backward, strategy, &problem)?;
    let is_steps = matches!(plan, Plan::Steps(_));
    let scratch = [
        Tensor::scratch("dh", call.state_rows() * call.h, is_steps),
        Tensor::scratch("barriers", 1, plan.is_persistent()),
    ];
    let tensors = tensors(call, inputs, outputs, &inputs.w_hh, problem.rule.saved());
    check_tensors(&problem.limits, &[&tensors[..], &scratch].concat())?;
    Ok((problem, plan))
}

/// The tensors in the order of the kernels' arguments.
fn tensors<'a>(
    call: &Call,
    inputs: &'a BackwardInputs,
    outputs: &'a BackwardOutputs,
    weight: &'a Handle,
    saved: usize,
) -> [Tensor<'a>; 10] {
    let Call { n, h, .. } = *call;
    let (rows, gates_len) = (call.rows(), call.rows() * saved * h);
    [
        call.tensor("gates", &inputs.gates, gates_len),
        call.tensor("d_states", &inputs.d_states, rows * h),
        call.tensor("states", &inputs.states, rows * h),
        call.tensor("w_hh", weight, 3 * h * h),
        call.tensor("h0", inputs.h0.as_ref(), call.state_rows() * h),
        call.tensor("recurrent_mask", inputs.recurrent_mask.as_ref(), n * h),
        call.tensor("step_mask", inputs.step_mask.as_ref(), rows),
        call.zoneout(&inputs.zoneout),
        call.tensor("d_gates", outputs.d_gates.as_ref(), gates_len),
        call.tensor("d_h0", &outputs.d_h0, call.state_rows() * h),
    ]
}

/// `w_hh` as `[3H,H]`.
fn transpose(client: &Client, call: &Call, w_hh: &Handle) -> Handle {
    let len = 3 * call.h * call.h;
    let w_hh_t = client.empty(len * call.dtype.size());
    let tiles = |len: usize| to_u32(OP, "H", len.div_ceil(TRANSPOSE as usize));
    count_launch();
    // SAFETY: the kernel bounds rows and columns by `h` and `3h`, and the tensors check both buffers.
    unsafe {
        gru_transpose::launch_unchecked(
            client,
            CubeCount::Static(tiles(3 * call.h), tiles(call.h), 1),
            CubeDim::new_2d(TRANSPOSE, TRANSPOSE),
            call.address_type(),
            call.tensor("w_hh", w_hh, len).arg(OP),
            call.tensor("w_hh_t", &w_hh_t, len).arg(OP),
            to_u32(OP, "H", call.h),
            call.dtype,
        );
    }
    w_hh_t
}

/// The buffers of a call.
struct Buffers<'a> {
    inputs: &'a BackwardInputs,
    outputs: &'a BackwardOutputs,
    weight: &'a Handle,
    dh: Option<&'a Handle>,
}

/// The arguments of both kernels.
fn arguments<F: Float>(call: &Call, buffers: &Buffers<'_>, saved: usize) -> BackwardLaunch<F> {
    let Buffers {
        inputs,
        outputs,
        weight,
        dh,
    } = buffers;
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
    ] = tensors(call, inputs, outputs, weight, saved);
    let dh_len = call.state_rows() * call.h;
    // SAFETY: the buffer was created with this number of float32 values.
    let dh = dh.map(|dh| unsafe { BufferArg::from_raw_parts(dh.clone(), dh_len) });
    BackwardLaunch::new(
        gates.arg(OP),
        d_states.arg(OP),
        states.arg(OP),
        w_hh.arg(OP),
        h0.optional(OP),
        recurrent_mask.optional(OP),
        step_mask.optional(OP),
        zoneout.optional(OP),
        if d_gates.bound {
            d_gates.arg(OP)
        } else {
            BufferArg::alias(0, d_gates.elements)
        },
        dh.into(),
        d_h0.arg(OP),
        call.n,
        call.t,
    )
}
