//! Gate mathematics on one value: the clip, the activation and its derivative, the blend.
//!
//! NaN stays NaN in values and slopes. The code tests its bits, because `min`, `max` and comparisons may
//! return the other operand, and a compiler may assume that no value is NaN.

use crate::kernel::{
    activation::{Number, bound, is_nan, number, phi_slope, phi_value},
    rule::{Gate, Rule},
};
use cubecl::prelude::*;

/// `φ(clip(a))`; NaN if `a` is NaN.
#[cube]
pub(crate) fn gate_value(a: f32, #[comptime] gate: Gate) -> f32 {
    let x = clip(a, comptime!(gate.clip));
    let y = phi_value(x, comptime!(gate.phi));
    select(is_nan(a), a, y)
}

/// `dφ/da` from the output `y = φ(clip(a))`; NaN if `y` is NaN.
#[cube]
pub(crate) fn gate_slope(y: f32, #[comptime] gate: Gate) -> f32 {
    let slope = phi_slope(y, comptime!(gate.phi));
    let slope = if comptime!(gate.ends.is_some()) {
        let low = number(comptime!(gate.ends.unwrap().0));
        let high = number(comptime!(gate.ends.unwrap().1));
        select(y <= low || y >= high, 0.0f32, slope)
    } else {
        slope
    };
    select(is_nan(y), y, slope)
}

/// `clamp(a, −c, c)`, or `a` without a `c`.
#[cube]
pub(crate) fn clip(a: f32, #[comptime] c: Option<Number>) -> f32 {
    if comptime!(c.is_some()) {
        let c = number(comptime!(c.unwrap()));
        bound(a, -c, c)
    } else {
        a
    }
}

/// The new state before its clip.
#[cube]
pub(crate) fn blend(h: f32, z: f32, n: f32, #[comptime] rule: Rule) -> f32 {
    if comptime!(rule.update_keeps) {
        z * h + (1.0f32 - z) * n
    } else {
        (1.0f32 - z) * h + z * n
    }
}
