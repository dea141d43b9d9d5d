//! σ, tanh and their relatives on vectors of either float type.
//!
//! Errors against the exact value over every float32, subnormals included (the ignored test): at most 1.5 units of
//! the last place for σ and 1 − σ, and 2 for tanh; without a fused multiply-add at most 2 for all three. σ is 0
//! or 1, and tanh ±1, exactly where that is the nearest float32. NaN returns NaN.

pub(super) mod double;
pub(super) mod single;
#[cfg(test)]
mod tests;

use super::Lanes;
use pulp::Simd;

/// `ln(1 + e)` for `0 ≤ e ≤ 1`, as `2 artanh(e / (2 + e))` by its series: the argument is at most
/// 1/3, so each term gains almost a digit.
#[inline(always)]
pub(super) fn ln_1p<E: Lanes, S: Simd>(simd: S, e: E::V<S>) -> E::V<S> {
    const TERMS: u32 = 16;
    let s = E::vdiv(simd, e, E::vadd(simd, e, E::real(simd, 2.0)));
    let ss = E::vmul(simd, s, s);
    let mut sum = E::real(simd, 0.0);
    for k in (0..TERMS).rev() {
        sum = E::vfma(simd, sum, ss, E::real(simd, 2.0 / f64::from(2 * k + 1)));
    }
    E::vmul(simd, sum, s)
}
