//! σ, tanh and exponentials of float32.
//!
//! All use `e^x = 2^k·(1 + p)` with `x = k·ln 2 + r` and `p = e^r − 1`. Separate `2^k` and `p` are rounded once when
//! they are combined, and `e^x − 1` does not cancel.

use crate::simd::Lanes;
use pulp::Simd;

/// 1.5 · 2²³. Adding it rounds to an integer in the low bits.
const ROUND: f32 = 12_582_912.0;

/// The bias of a float32's exponent.
const EXPONENT_BIAS: f32 = 127.0;

/// `ln 2` in two parts. The first has so few bits that its product with k is exact.
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

/// `2^(k + raise)` and `p / times` of `e^(x·times)`, where `times` is a power of two. The exponent `k + raise` must
/// be in the range of normal numbers.
#[inline(always)]
fn exp_parts<S: Simd>(simd: S, x: S::f32s, times: f32, raise: f32) -> (S::f32s, S::f32s) {
    let splat = |v: f32| simd.splat_f32s(v);
    let shift = splat(ROUND + EXPONENT_BIAS + raise);
    let shifted = simd.mul_add_e_f32s(x, splat(times * core::f32::consts::LOG2_E), shift);
    let k = simd.sub_f32s(shifted, shift);
    let r = simd.mul_add_e_f32s(k, splat(-LN_2[0] / times), x);
    let r = simd.mul_add_e_f32s(k, splat(-LN_2[1] / times), r);
    let mut scale = times * times * times * times * times;
    let mut tail = splat(EXP_TAIL[0] * scale);
    for c in &EXP_TAIL[1..] {
        scale /= times;
        tail = simd.mul_add_e_f32s(tail, r, splat(c * scale));
    }
    let p = simd.mul_add_e_f32s(tail, simd.mul_f32s(r, r), r);
    let bits = simd.transmute_u32s_f32s(shifted);
    let power = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(23));
    (simd.transmute_f32s_u32s(power), p)
}

/// `e^x` for `x ≤ 0`, subnormal results included.
#[inline(always)]
pub(in crate::simd) fn exp_negative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // Below −104 the result rounds to zero. All other results times 2⁶⁴ are normal.
    const RAISE: f32 = 64.0;
    const LOWER: f32 = 1.0 / (1u128 << 64) as f32;
    let x = f32::at_least(simd, x, simd.splat_f32s(-104.0));
    let (power, p) = exp_parts(simd, x, 1.0, RAISE);
    let raised = simd.mul_add_e_f32s(power, p, power);
    simd.mul_f32s(raised, simd.splat_f32s(LOWER))
}

/// `e^x − 1` for `x ≤ 0`.
#[inline(always)]
pub(in crate::simd) fn exp_m1_negative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // Below −32 the result rounds to −1.
    let x = f32::at_least(simd, x, simd.splat_f32s(-32.0));
    let (power, p) = exp_parts(simd, x, 1.0, 0.0);
    simd.mul_add_e_f32s(power, p, simd.sub_f32s(power, simd.splat_f32s(1.0)))
}

/// `σ(a)` and `1 − σ(a)`.
#[inline(always)]
pub(in crate::simd) fn sigmoid<S: Simd>(simd: S, a: S::f32s) -> (S::f32s, S::f32s) {
    let one = simd.splat_f32s(1.0);
    let e = exp_negative(simd, minus_size(simd, a));
    // σ(−|a|) = e / (1 + e). The rounding errors of 1 + e and of the division are corrected afterwards, with the
    // other result, 1 / (1 + e).
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

/// `tanh a`, as `m / (m + 1)` with `2m = e^−2|a| − 1`.
#[inline(always)]
pub(in crate::simd) fn tanh<S: Simd>(simd: S, a: S::f32s) -> S::f32s {
    let splat = |v: f32| simd.splat_f32s(v);
    // Below −16 the result rounds to −1.
    let x = f32::at_least(simd, minus_size(simd, a), splat(-16.0));
    let (power, half_p) = exp_parts(simd, x, 2.0, 0.0);
    // Numerator and denominator are each rounded once.
    let m = simd.mul_add_e_f32s(power, splat(0.5), splat(-0.5));
    let m = simd.mul_add_e_f32s(power, half_p, m);
    let m_plus_1 = simd.mul_add_e_f32s(power, splat(0.5), splat(0.5));
    let m_plus_1 = simd.mul_add_e_f32s(power, half_p, m_plus_1);
    let size = simd.abs_f32s(simd.div_f32s(m, m_plus_1));
    // m rounds to −1/2 from 8.66 on, but 1 is the nearest number only from this bound on.
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
