//! Launch of the left sides of the weight gradients.

use super::{Call, count_launch};
use crate::kernel::shift::{Shift, gru_recurrent_inputs};
use cubecl::{calculate_cube_count_elemwise, client::Client, prelude::*, server::Handle};

const OP: &str = "gru_cube::recurrent_inputs";

/// What the left sides are made of. Every buffer is dense, row-major, of the type of the call.
#[derive(Debug, Clone)]
pub struct RecurrentInputs {
    /// The states that the forward pass wrote, `[N,T,H]` or `[T,N,H]`.
    pub states: Handle,
    /// Initial state `[N,H]`; zeros if absent.
    pub h0: Option<Handle>,
    /// Recurrent mask `[N,H]`.
    pub recurrent_mask: Option<Handle>,
    /// `[N,T]` or `[T,N]`: 0 where a step is skipped.
    pub step_mask: Option<Handle>,
    /// The gates that the forward pass wrote, if r is to be multiplied in.
    pub gates: Option<Handle>,
}

/// Writes `g = recurrent_mask ⊙ h₋₁` of every step, or with gates `r ⊙ g`, and 0 at skipped steps, to `g`, in
/// the shape of the states, in one launch: the left sides of `dw_hh = gᵀ·[dr̄, dz̄, dn̄⊙r]` and, reset
/// before the product, of `dw_hn = (r⊙g)ᵀ·dn̄`.
///
/// # Panics
/// If a buffer is too short or the type is not a float of 16 or 32 bits.
pub fn recurrent_inputs(client: &Client, call: &Call, inputs: &RecurrentInputs, g: &Handle) {
    let rule = call.problem(OP, client).rule;
    let Call { n, t, h, .. } = *call;
    let len = n * t * h;
    if len == 0 {
        return;
    }
    let cube_dim = CubeDim::new(client, len);
    count_launch();
    // SAFETY: the kernel stops at N·T·H, and `arg` checks the buffers against the same sizes.
    unsafe {
        gru_recurrent_inputs::launch_unchecked(
            client,
            calculate_cube_count_elemwise(client, len, cube_dim),
            cube_dim,
            call.address_type(),
            call.arg(OP, "states", inputs.states.clone(), len),
            call.optional(OP, "h0", inputs.h0.as_ref(), n * h),
            call.optional(OP, "recurrent_mask", inputs.recurrent_mask.as_ref(), n * h),
            call.optional(OP, "step_mask", inputs.step_mask.as_ref(), call.rows()),
            call.optional(OP, "gates", inputs.gates.as_ref(), rule.saved() * len),
            call.arg(OP, "g", g.clone(), len),
            super::to_u32(OP, "N", n),
            super::to_u32(OP, "T", t),
            super::to_u32(OP, "H", h),
            Shift {
                saved: rule.saved(),
                time_major: rule.time_major,
                reverse: rule.reverse,
            },
            call.dtype,
        );
    }
}
