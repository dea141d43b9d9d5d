//! σ, tanh and their relatives on vectors of either float type.
//!
//! σ stands on an exponential of a non-positive argument, so nothing overflows. In float32, against
//! the correctly rounded value over every float (the ignored test), where the result is normal: σ
//! is off by at most 2.5 ulp, tanh by at most 5, and by at most 4 and 6.5 where the two share
//! a division.

pub(super) mod double;
pub(super) mod single;
#[cfg(test)]
mod tests;

use super::lanes::Lanes;
use pulp::Simd;

/// Numerator and denominator of `1 / (1 + e^−a)`.
#[inline(always)]
fn sigmoid_parts<E: Lanes, S: Simd>(simd: S, a: E::V<S>) -> (E::V<S>, E::V<S>) {
    let one = E::real(simd, 1.0);
    let e = E::exp_negative(simd, E::vneg(simd, E::vabs(simd, a)));
    let top = E::if_less(simd, (a, E::real(simd, 0.0)), e, one);
    (top, E::vadd(simd, one, e))
}

/// `1 / (1 + e^−a)`.
#[inline(always)]
pub(super) fn sigmoid<E: Lanes, S: Simd>(simd: S, a: E::V<S>) -> E::V<S> {
    let (top, bottom) = sigmoid_parts::<E, S>(simd, a);
    E::vdiv(simd, top, bottom)
}

/// `tanh a`.
#[inline(always)]
pub(super) fn tanh<E: Lanes, S: Simd>(simd: S, a: E::V<S>) -> E::V<S> {
    let (top, bottom) = E::tanh_parts(simd, a);
    E::vdiv(simd, top, bottom)
}

/// `(σ(a), tanh b)` by one division, which costs as much as a dozen other operations.
#[inline(always)]
pub(super) fn sigmoid_and_tanh<E: Lanes, S: Simd>(
    simd: S,
    a: E::V<S>,
    b: E::V<S>,
) -> (E::V<S>, E::V<S>) {
    let (a_top, a_bottom) = sigmoid_parts::<E, S>(simd, a);
    let (b_top, b_bottom) = E::tanh_parts(simd, b);
    let product = E::vmul(simd, a_bottom, b_bottom);
    let both = E::vdiv(simd, E::real(simd, 1.0), product);
    (
        E::vmul(simd, a_top, E::vmul(simd, both, b_bottom)),
        E::vmul(simd, b_top, E::vmul(simd, both, a_bottom)),
    )
}

/// `e^x − 1` for `x ≤ 0`, as `2t / (1 − t)` with `t = tanh(x/2)`, which does not cancel.
#[inline(always)]
pub(super) fn exp_m1_negative<E: Lanes, S: Simd>(simd: S, x: E::V<S>) -> E::V<S> {
    let t = tanh::<E, S>(simd, E::vmul(simd, x, E::real(simd, 0.5)));
    E::vdiv(
        simd,
        E::vadd(simd, t, t),
        E::vsub(simd, E::real(simd, 1.0), t),
    )
}

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
