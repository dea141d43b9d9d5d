//! Launch of the lhs operands of the weight gradients.

use super::{Recurrence, count_launch, require};
use crate::kernel::operands::{OperandRule, OperandsLaunch, gru_recurrent_inputs};
use cubecl::{calculate_cube_count_elemwise, client::Client, prelude::*, server::Handle};
use gru_spec::Sizes;

/// Writes `g = recurrent_mask ⊙ h₋₁` of every step to `g`, in the shape of the states, or `r ⊙ g` if gates
/// are given, and 0 at skipped steps. Where a row starts, `h₋₁` is its start state. One launch.
///
/// States and gates are as a forward pass wrote them. The results are the lhs operands of
/// `dw_hh = gᵀ·[dr̄, dz̄, dn̄⊙r]` and, with the reset before the product, of `dw_hn = (r⊙g)ᵀ·dn̄`.
///
/// # Panics
/// If a buffer is too short or too large for the device, or the call is malformed, as for [`run`](crate::run).
pub fn recurrent_inputs(
    client: &Client,
    call: &Recurrence,
    states: &Handle,
    gates: Option<&Handle>,
    g: &Handle,
) {
    let problem = call.problem(client);
    let rule = problem.rule;
    let Sizes { n, t, h, .. } = call.sizes;
    let len = n * t * h;
    if len == 0 {
        return;
    }
    let [h0, recurrent_mask, step_mask] = call.states_and_masks();
    let tensors = [
        call.tensor("states", states, len),
        h0,
        recurrent_mask,
        step_mask,
        call.tensor("gates", gates, rule.saved() * len),
        call.tensor("g", g, len),
    ];
    require(&problem.limits, &tensors);
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
                states.arg(),
                h0.small_arg(),
                recurrent_mask.small_arg(),
                step_mask.small_arg(),
                gates.optional(),
                g.arg(),
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
