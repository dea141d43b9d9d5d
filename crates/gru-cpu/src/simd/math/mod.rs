//! σ, tanh and their relatives on vectors of either float type.
//!
//! Errors against the exact value over every float32, subnormals included (the ignored test): at most 1.5 units of
//! the last place for σ and 1 − σ, and 2 for tanh; without a fused multiply-add at most 2 for all three. σ is 0
//! or 1, and tanh ±1, exactly where that is the nearest float32. NaN returns NaN.

pub(super) mod double;
pub(super) mod single;
#[cfg(test)]
mod tests;

use super::{Lanes, gate::clip};
use pulp::Simd;

/// Highest power first; fitted so that the largest error of tanh on `|x| ≤ 7.75` is smallest.
const COARSE_TANH_P: [f64; 5] = [
    -6.324_668_5e-9,
    7.252_338_3e-6,
    2.707_022_2e-3,
    1.272_199_4e-1,
    9.999_992_8e-1,
];
const COARSE_TANH_Q: [f64; 4] = [1.981_888_9e-4, 2.289_346_6e-2, 4.605_505_6e-1, 1.0];

/// `tanh a`, with an error of at most 2⁻²⁰: `x P(x²)/Q(x²)` of `x = a` bounded to ±7.75.
#[inline(always)]
pub(super) fn coarse_tanh<E: Lanes, S: Simd>(simd: S, a: E::V<S>) -> E::V<S> {
    let polynomial = |s: E::V<S>, c: &[f64]| {
        let highest = E::real(simd, c[0]);
        let next = |sum, c: &f64| E::vfma(simd, sum, s, E::real(simd, *c));
        c[1..].iter().fold(highest, next)
    };
    let x = clip::<E, S>(simd, a, 7.75);
    let s = E::vmul(simd, x, x);
    let p = polynomial(s, &COARSE_TANH_P);
    let q = polynomial(s, &COARSE_TANH_Q);
    E::vdiv(simd, E::vmul(simd, p, x), q)
}

/// `σ(a)`, with an error of at most 2⁻²⁰.
#[inline(always)]
pub(super) fn coarse_sigmoid<E: Lanes, S: Simd>(simd: S, a: E::V<S>) -> E::V<S> {
    let half = E::real(simd, 0.5);
    let t = coarse_tanh::<E, S>(simd, E::vmul(simd, half, a));
    E::vfma(simd, half, t, half)
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
