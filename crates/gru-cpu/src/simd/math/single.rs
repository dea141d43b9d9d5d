//! σ, tanh and exponentials of float32.
//!
//! All stand on `e^x = 2^k·(1 + p)` with `x = k·ln 2 + r` and `p = e^r − 1`: kept apart, `2^k` and
//! `p` cost one rounding where they are put together, and `e^x − 1` does not cancel.

use crate::simd::Lanes;
use pulp::Simd;

/// Adding it rounds to a whole number, which then stands in the low bits: 1.5 · 2²³.
const ROUND: f32 = 12_582_912.0;

/// What a float32 adds to the exponent of two that it stands for.
const EXPONENT_BIAS: f32 = 127.0;

/// `ln 2` in two parts, the first exact in so few bits that k times it is exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// `(e^r − 1 − r) / r²` on `|r| ≤ ln 2 / 2`, highest power first; fitted so that the error of
/// `e^r` is below 2⁻²⁸.
const EXP_TAIL: [f32; 5] = [
    1.394_013_4e-3,
    8.368_813e-3,
    4.166_640_7e-2,
    1.666_652e-1,
    0.5,
];

/// `2^(k + raise)` and `p` of `e^(x·times)`, where `times` is a power of two; p comes divided by
/// it. The exponent `k + raise` must be one of a normal number.
#[inline(always)]
fn exp_parts<S: Simd>(simd: S, x: S::f32s, times: f32, raise: f32) -> (S::f32s, S::f32s) {
    let splat = |v: f32| simd.splat_f32s(v);
    let shift = splat(ROUND + EXPONENT_BIAS + raise);
    let shifted = simd.mul_add_e_f32s(x, splat(times * std::f32::consts::LOG2_E), shift);
    let k = simd.sub_f32s(shifted, shift);
    let r = simd.mul_add_e_f32s(k, splat(-LN_2[0] / times), x);
    let r = simd.mul_add_e_f32s(k, splat(-LN_2[1] / times), r);
    let mut scale = EXP_TAIL.len() as i32;
    let mut tail = splat(EXP_TAIL[0] * times.powi(scale));
    for c in &EXP_TAIL[1..] {
        scale -= 1;
        tail = simd.mul_add_e_f32s(tail, r, splat(c * times.powi(scale)));
    }
    let p = simd.mul_add_e_f32s(tail, simd.mul_f32s(r, r), r);
    let bits = simd.transmute_u32s_f32s(shifted);
    let power = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(23));
    (simd.transmute_f32s_u32s(power), p)
}

/// `e^x` for `x ≤ 0`, numbers below the normal ones included.
#[inline(always)]
pub(in crate::simd) fn exp_negative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // Beyond −104 the result rounds to zero. Raised by 2⁶⁴, all others are normal until the end.
    const RAISE: f32 = 64.0;
    let x = f32::at_least(simd, x, simd.splat_f32s(-104.0));
    let (power, p) = exp_parts(simd, x, 1.0, RAISE);
    let raised = simd.mul_add_e_f32s(power, p, power);
    simd.mul_f32s(raised, simd.splat_f32s((-RAISE).exp2()))
}

/// `e^x − 1` for `x ≤ 0`.
#[inline(always)]
pub(in crate::simd) fn exp_m1_negative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // Beyond −32 the result rounds to −1.
    let x = f32::at_least(simd, x, simd.splat_f32s(-32.0));
    let (power, p) = exp_parts(simd, x, 1.0, 0.0);
    simd.mul_add_e_f32s(power, p, simd.sub_f32s(power, simd.splat_f32s(1.0)))
}

/// `σ(a)` and `1 − σ(a)`.
#[inline(always)]
pub(in crate::simd) fn sigmoid<S: Simd>(simd: S, a: S::f32s) -> (S::f32s, S::f32s) {
    let one = simd.splat_f32s(1.0);
    let e = exp_negative(simd, minus_size(simd, a));
    // σ(−|a|) = e / (1 + e). What 1 + e lost by rounding, and the division, is put right after it,
    // where 1 / (1 + e) is known: it is the other of the two results.
    let sum = simd.add_f32s(one, e);
    let lost = simd.sub_f32s(e, simd.sub_f32s(sum, one));
    let small = simd.div_f32s(e, sum);
    let large = simd.sub_f32s(one, small);
    let rest = simd.negate_mul_add_e_f32s(small, sum, e);
    let rest = simd.negate_mul_add_e_f32s(small, lost, rest);
    let small = simd.mul_add_e_f32s(rest, large, small);
    let is_negative = simd.less_than_f32s(a, simd.splat_f32s(0.0));
    (
        simd.select_f32s(is_negative, small, large),
        simd.select_f32s(is_negative, large, small),
    )
}

/// `tanh a`, as `m / (m + 1)` with twice `m = e^−2|a| − 1`.
#[inline(always)]
pub(in crate::simd) fn tanh<S: Simd>(simd: S, a: S::f32s) -> S::f32s {
    let splat = |v: f32| simd.splat_f32s(v);
    // Beyond −16 the result rounds to −1.
    let x = f32::at_least(simd, minus_size(simd, a), splat(-16.0));
    let (power, half_p) = exp_parts(simd, x, 2.0, 0.0);
    // Each of the two is rounded once only.
    let m = simd.mul_add_e_f32s(power, splat(0.5), splat(-0.5));
    let m = simd.mul_add_e_f32s(power, half_p, m);
    let m_plus_1 = simd.mul_add_e_f32s(power, splat(0.5), splat(0.5));
    let m_plus_1 = simd.mul_add_e_f32s(power, half_p, m_plus_1);
    let size = simd.abs_f32s(simd.div_f32s(m, m_plus_1));
    // m rounds to −1/2 from 8.66 on, but 1 is the nearest number from here on only.
    let is_less_than_1 = simd.less_than_f32s(splat(-9.010_914), x);
    let most = simd.select_f32s(is_less_than_1, splat(1.0f32.next_down()), splat(1.0));
    let size = f32::at_most(simd, size, most);
    simd.or_f32s(size, simd.and_f32s(a, splat(-0.0)))
}

/// `−|a|`.
#[inline(always)]
fn minus_size<S: Simd>(simd: S, a: S::f32s) -> S::f32s {
    simd.or_f32s(a, simd.splat_f32s(-0.0))
}
