//! The two float32 functions the others stand on: Cephes' polynomials.

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

/// `tanh a` for `0 ≤ a < 0.625`: Cephes' `a + a³ P(a²)`.
#[inline(always)]
pub(in crate::kernel) fn tanh_small<S: Simd>(simd: S, size: S::f32s) -> S::f32s {
    let splat = |v: f32| simd.splat_f32s(v);
    let s = simd.mul_f32s(size, size);
    let mut p = splat(-5.704_988_7e-3);
    for c in [2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
        p = simd.mul_add_e_f32s(p, s, splat(c));
    }
    simd.mul_add_e_f32s(simd.mul_f32s(p, s), size, size)
}
