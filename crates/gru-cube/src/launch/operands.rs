//! Launch of the lhs operands of the weight gradients.

use super::{Call, count_launch, require};
use crate::kernel::operands::{OperandRule, OperandsLaunch, gru_recurrent_inputs};
use cubecl::{calculate_cube_count_elemwise, client::Client, prelude::*, server::Handle};

const OP: &str = "gru_cube::recurrent_inputs";

/// What [`recurrent_inputs`] reads. Every buffer is contiguous, row-major, of the type of the call.
#[derive(Debug, Clone)]
pub struct RecurrentInputs {
    /// The states that the forward pass wrote, `[N,T,H]` or `[T,N,H]`.
    pub states: Handle,
    /// Initial state `[N,H]`; zeros if absent. `[2N,H]` with a start state.
    pub h0: Option<Handle>,
    /// Recurrent mask `[N,H]`.
    pub recurrent_mask: Option<Handle>,
    /// `[N,T]` or `[T,N]`: 0 for skipped steps. With [`Starts`](crate::Starts), the codes of the steps.
    pub step_mask: Option<Handle>,
    /// The gates that the forward pass wrote, if the result includes the factor r.
    pub gates: Option<Handle>,
}

/// Writes `g = recurrent_mask ⊙ h₋₁` of every step to `g`, in the shape of the states, or `r ⊙ g` if gates
/// are given, and 0 at skipped steps. Where a row starts, `h₋₁` is its start state. One launch.
///
/// These are the lhs operands of `dw_hh = gᵀ·[dr̄, dz̄, dn̄⊙r]` and, with the reset before the product,
/// of `dw_hn = (r⊙g)ᵀ·dn̄`.
///
/// # Panics
/// If a buffer is too short or too large for the device, starts lack a tensor, or the type is not a float of 16 or 32
/// bits.
pub fn recurrent_inputs(client: &Client, call: &Call, inputs: &RecurrentInputs, g: &Handle) {
    let problem = call.problem(OP, client);
    let rule = problem.rule;
    let Call { n, t, h, .. } = *call;
    let len = n * t * h;
    if len == 0 {
        return;
    }
    let (h0, gates) = (inputs.h0.as_ref(), inputs.gates.as_ref());
    let (recurrent_mask, step_mask) = (inputs.recurrent_mask.as_ref(), inputs.step_mask.as_ref());
    call.check_starts(OP, h0, step_mask);
    let tensors = [
        call.tensor("states", &inputs.states, len),
        call.tensor("h0", h0, call.state_rows() * h),
        call.tensor("recurrent_mask", recurrent_mask, n * h),
        call.tensor("step_mask", step_mask, call.rows()),
        call.tensor("gates", gates, rule.saved() * len),
        call.tensor("g", g, len),
    ];
    require(OP, &problem.limits, &tensors);
    let [states, h0, recurrent_mask, step_mask, gates, g] = tensors;
    let cube_dim = CubeDim::new(client, len);
    count_launch();
    // SAFETY: the kernel stops at N·T·H, and the tensors check the buffers against the same sizes.
    unsafe {
        gru_recurrent_inputs::launch_unchecked(
            client,
            calculate_cube_count_elemwise(client, len, cube_dim),
            cube_dim,
            call.address_type(client),
            OperandsLaunch::new(
                states.arg(OP),
                h0.small_arg(OP),
                recurrent_mask.small_arg(OP),
                step_mask.small_arg(OP),
                gates.optional(OP),
                g.arg(OP),
                n,
                t,
                h,
            ),
            OperandRule {
                saved: rule.saved(),
                time_major: rule.time_major,
                reverse: rule.reverse,
                starts: rule.starts,
            },
            call.dtype,
        );
    }
}
