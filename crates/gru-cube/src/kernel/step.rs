//! What the variants share of one step: its element-wise mathematics, and where rows stand.

use super::gate::{blend, gate_slope};
use crate::kernel::rule::{Rule, ZoneoutKind};
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

/// The share of the previous state that is kept, of a row in the order of the states.
#[cube]
pub(crate) fn kept<F: Float>(
    zoneout: ComptimeOption<&[F]>,
    row: usize,
    j: usize,
    #[comptime] hidden: usize,
    #[comptime] rule: Rule,
) -> f32 {
    #[comptime]
    match zoneout {
        ComptimeOption::Some(zoneout) => {
            if comptime!(rule.zoneout == ZoneoutKind::OfUnit) {
                f32::cast_from(zoneout[row * hidden + j])
            } else {
                f32::cast_from(zoneout[row])
            }
        }
        ComptimeOption::None => 0.0f32.runtime(),
    }
}

/// The state after a step that keeps a share of the previous state.
#[cube]
pub(crate) fn zone_out(new: f32, before: f32, kept: f32, #[comptime] rule: Rule) -> f32 {
    if comptime!(rule.zoneout == ZoneoutKind::None) {
        new
    } else {
        (1.0 - kept) * new + kept * before
    }
}

/// From `d`, the gradient of the state after, through zoneout, its clip, the blend and two activations.
///
/// A skipped step hands `d` on whole; its gates have no meaning and may be NaN, so they are selected
/// away, not multiplied by zero. A NaN state is not beyond the clip, and hands NaN on.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn blend_back(
    d: f32,
    before: f32,
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
        let c = f32::new(comptime!(rule.clip_state.unwrap().value()));
        select(blend(before, z, new, rule).abs() > c, 0.0f32, through)
    } else {
        through
    };
    let (dz, dn, carry) = if comptime!(rule.update_keeps) {
        (inner * (before - new), inner * (1.0 - z), inner * z)
    } else {
        (inner * (new - before), inner * z, inner * (1.0 - z))
    };
    let carry = if comptime!(rule.zoneout == ZoneoutKind::None) {
        carry
    } else {
        carry + d * kept
    };
    Blended {
        dz: select(skipped, 0.0f32, dz * gate_slope(z, comptime!(rule.z))),
        dn: select(skipped, 0.0f32, dn * gate_slope(new, comptime!(rule.n))),
        carry: select(skipped, d, carry),
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

/// `t − 1 − s`; and 0 for s = t, which no step has. A driver for a CPU may walk once more through a loop's
/// body, all units switched off, and read where they would have read.
#[cube]
pub(crate) fn from_end(s: usize, t: usize) -> usize {
    max(t - 1, s) - s
}

/// Where `p` begins in time, and how many steps it holds, if it holds `first..last` in walking order.
#[cube]
pub(crate) fn window(
    t: usize,
    first: usize,
    last: usize,
    #[comptime] rule: Rule,
) -> (usize, usize) {
    let from = if comptime!(rule.reverse) {
        t - last
    } else {
        first
    };
    (from, last - first)
}

/// The state before step `s` of a row and a hidden unit.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn state_before<F: Float>(
    states: &[F],
    h0: ComptimeOption<&[F]>,
    s: usize,
    row: usize,
    j: usize,
    n: usize,
    t: usize,
    #[comptime] hidden: usize,
    #[comptime] rule: Rule,
) -> f32 {
    let (per_n, per_t) = strides(n, t, rule);
    let mut before = 0.0f32;
    if s > 0 {
        let time = if comptime!(rule.reverse) {
            t - s
        } else {
            s - 1
        };
        before = f32::cast_from(states[(row * per_n + time * per_t) * hidden + j]);
    } else {
        #[comptime]
        if let ComptimeOption::Some(h0) = &h0 {
            before = f32::cast_from(h0[row * hidden + j]);
        }
    }
    before
}

/// The biases of a hidden unit: of each gate what joins p, and of the candidate what r multiplies
/// if it comes after the product.
#[cube]
pub(crate) fn biases<F: Float>(
    b_ih: ComptimeOption<&[F]>,
    b_hh: ComptimeOption<&[F]>,
    j: usize,
    #[comptime] hidden: usize,
    #[comptime] rule: Rule,
) -> Array<f32> {
    let mut bias = Array::<f32>::new(4usize);
    #[unroll]
    for gate in 0..4usize {
        bias[gate] = 0.0;
    }
    #[unroll]
    for gate in 0..3usize {
        #[comptime]
        if let ComptimeOption::Some(b_ih) = &b_ih {
            bias[gate] += f32::cast_from(b_ih[gate * hidden + j]);
        }
        #[comptime]
        if let ComptimeOption::Some(b_hh) = &b_hh {
            let to = comptime!(if rule.reset_after && gate == 2 {
                3
            } else {
                gate
            });
            bias[to] += f32::cast_from(b_hh[gate * hidden + j]);
        }
    }
    bias
}
