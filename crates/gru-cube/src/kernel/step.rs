//! What the variants share of one step: its element-wise mathematics, and where rows stand.

use super::gate::{blend, gate_slope};
use crate::rule::Rule;
use cubecl::prelude::*;

/// Gradients on the near side of the blend.
#[derive(CubeType)]
pub(crate) struct Blended {
    /// Of the update gate's pre-activation.
    pub(crate) dz: f32,
    /// Of the candidate's pre-activation.
    pub(crate) dn: f32,
    /// Of the state before, past the gates.
    pub(crate) carry: f32,
}

/// From `d`, the gradient of the new state, through its clip, the blend and two activations.
///
/// A step that does not count hands `d` on whole; its gates have no meaning and may be NaN, so
/// they are selected away, not multiplied by zero.
#[cube]
pub(crate) fn blend_back(
    d: f32,
    before: f32,
    z: f32,
    new: f32,
    counts: bool,
    #[comptime] rule: Rule,
) -> Blended {
    let inner = if comptime!(rule.clip_state.is_some()) {
        let c = f32::new(comptime!(rule.clip_state.unwrap().value()));
        select(blend(before, z, new, rule).abs() > c, 0.0f32, d)
    } else {
        d
    };
    let (dz, dn, carry) = if comptime!(rule.update_keeps) {
        (inner * (before - new), inner * (1.0 - z), inner * z)
    } else {
        (inner * (new - before), inner * z, inner * (1.0 - z))
    };
    Blended {
        dz: select(counts, dz * gate_slope(z, comptime!(rule.z)), 0.0f32),
        dn: select(counts, dn * gate_slope(new, comptime!(rule.n)), 0.0f32),
        carry: select(counts, carry, d),
    }
}

/// Rows from one row of the batch to the next, and from one step to the next.
#[cube]
pub(crate) fn strides(n: usize, t: usize, #[comptime] rule: Rule) -> (usize, usize) {
    if comptime!(rule.time_major) {
        (1usize.runtime(), n)
    } else {
        (t, 1usize.runtime())
    }
}
