//! The two float32 functions the others stand on.

use pulp::Simd;

/// `2^k` for `x = k·ln 2 + rest`, by the rounding of adding a number whose last bit is one.
const MAGIC: f32 = 12_582_912.0; // 1.5 · 2²³

/// `e^x` for `x ≤ 0`, at least 0 and normal: below −87.33 it stays at the smallest normal number.
#[inline(always)]
pub(in crate::kernel) fn exp_negative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let splat = |v: f32| simd.splat_f32s(v);
    let x = simd.max_f32s(x, splat(-87.336_54));
    let shifted = simd.mul_add_e_f32s(x, splat(std::f32::consts::LOG2_E), splat(MAGIC));
    let k = simd.sub_f32s(shifted, splat(MAGIC));
    // ln 2 in two parts, the first exact in few bits, so that k times it is exact.
    let r = simd.mul_add_e_f32s(k, splat(-0.693_359_4), x);
    let r = simd.mul_add_e_f32s(k, splat(2.121_944_4e-4), r);
    // Cephes' expf: 1 + r + r²·P(r) on |r| ≤ ln 2 / 2.
    let mut p = splat(1.987_569_1e-4);
    for c in [
        1.398_2e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = simd.mul_add_e_f32s(p, r, splat(c));
    }
    let p = simd.mul_add_e_f32s(p, simd.mul_f32s(r, r), r);
    let p = simd.add_f32s(p, splat(1.0));
    // k is in the low bits of `shifted`; it becomes the exponent.
    let bits = simd.transmute_u32s_f32s(shifted);
    let scale = simd.wrapping_dyn_shl_u32s(
        simd.add_u32s(bits, simd.splat_u32s(127)),
        simd.splat_u32s(23),
    );
    simd.mul_f32s(p, simd.transmute_f32s_u32s(scale))
}

/// Numerator and denominator of `tanh a`: an odd polynomial of degree 13 over an even one of
/// degree 6, the coefficients Eigen's times 256, so that neither part leaves the normal numbers
/// before `a` does.
#[inline(always)]
pub(in crate::kernel) fn tanh_parts<S: Simd>(simd: S, a: S::f32s) -> (S::f32s, S::f32s) {
    // Here the quotient is 1 − 2⁻²²; a little beyond it would leave ±1.
    let a = simd.max_f32s(a, simd.splat_f32s(-7.905_311));
    let a = simd.min_f32s(a, simd.splat_f32s(7.905_311));
    let s = simd.mul_f32s(a, a);
    let scaled = |c: f64| simd.splat_f32s((c * 256.0) as f32);
    let mut p = scaled(-2.760_768_477_423_55e-16);
    for c in [
        2.000_187_904_824_77e-13,
        -8.604_671_522_137_35e-11,
        5.122_297_090_371_14e-8,
        1.485_722_357_179_79e-5,
        6.372_619_288_754_36e-4,
        4.893_524_558_917_86e-3,
    ] {
        p = simd.mul_add_e_f32s(p, s, scaled(c));
    }
    let mut q = scaled(1.198_258_394_667_02e-6);
    for c in [
        1.185_347_056_866_54e-4,
        2.268_434_632_439e-3,
        4.893_525_185_543_85e-3,
    ] {
        q = simd.mul_add_e_f32s(q, s, scaled(c));
    }
    (simd.mul_f32s(p, a), q)
}
