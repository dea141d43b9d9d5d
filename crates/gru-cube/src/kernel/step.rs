//! Element-wise mathematics of a step around the candidate and the blend.

use super::{
    activation::number,
    gate::{blend, clip, gate_slope, gate_value},
    rule::{Rule, ZoneoutKind},
};
use cubecl::prelude::*;

/// The state after a step: the blend with candidate `new`, its clip, and zoneout, which keeps the share
/// `kept` of the previous state.
#[cube]
pub(crate) fn next_state(
    previous: f32,
    z: f32,
    new: f32,
    kept: f32,
    #[comptime] rule: Rule,
) -> f32 {
    let blended = clip(blend(previous, z, new, rule), comptime!(rule.clip_state));
    if comptime!(rule.zoneout == ZoneoutKind::None) {
        blended
    } else {
        (1.0 - kept) * blended + kept * previous
    }
}

/// Gradients on the near side of the blend.
#[derive(CubeType)]
pub(crate) struct Blended {
    /// Pre-activation of the update gate.
    pub(crate) dz: f32,
    /// Pre-activation of the candidate.
    pub(crate) dn: f32,
    /// The previous state, without the paths through the gates.
    pub(crate) dh: f32,
}

/// From `d`, the gradient of the next state, back through zoneout, the clip, the blend and two
/// activations.
///
/// A skipped step passes `d` on unchanged. Its gates have no meaning and may be NaN, so they are removed
/// by `select`, not by a product with zero. A NaN state is not outside of the clip and propagates NaN.
#[cube]
pub(crate) fn blend_back(
    d: f32,
    previous: f32,
    z: f32,
    new: f32,
    kept: f32,
    skipped: bool,
    #[comptime] rule: Rule,
) -> Blended {
    let through = if comptime!(rule.zoneout == ZoneoutKind::None) {
        d
    } else {
        d * (1.0 - kept)
    };
    let inner = if comptime!(rule.clip_state.is_some()) {
        let c = number(comptime!(rule.clip_state.unwrap()));
        select(blend(previous, z, new, rule).abs() > c, 0.0f32, through)
    } else {
        through
    };
    let (dz, dn, dh) = if comptime!(rule.update_keeps) {
        (inner * (previous - new), inner * (1.0 - z), inner * z)
    } else {
        (inner * (new - previous), inner * z, inner * (1.0 - z))
    };
    let dh = if comptime!(rule.zoneout == ZoneoutKind::None) {
        dh
    } else {
        dh + d * kept
    };
    Blended {
        dz: select(skipped, 0.0f32, dz * gate_slope(z, comptime!(rule.z))),
        dn: select(skipped, 0.0f32, dn * gate_slope(new, comptime!(rule.n))),
        dh: select(skipped, d, dh),
    }
}

/// The candidate from `p + b` and the recurrent product, which r multiplies if the reset comes after it.
#[cube]
pub(crate) fn candidate(p_n: f32, q_n: f32, r: f32, #[comptime] rule: Rule) -> f32 {
    let a = if comptime!(rule.reset_after) {
        p_n + r * q_n
    } else {
        p_n + q_n
    };
    gate_value(a, comptime!(rule.n))
}
