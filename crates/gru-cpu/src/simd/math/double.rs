//! σ, tanh and exponentials of float64, by Cephes' rational approximations.

use crate::simd::Lanes;
use pulp::Simd;

/// 1.5 · 2⁵². Adding it rounds to an integer in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// `e^x` for `x ≤ 0`, subnormal results included.
#[inline(always)]
pub(in crate::simd) fn exp_negative<S: Simd>(simd: S, x: S::f64s) -> S::f64s {
    // Below −746 the result rounds to zero. All other results times 2⁶⁴ are normal.
    const RAISE: i32 = 64;
    const LOWER: f64 = 1.0 / (1u128 << RAISE) as f64;
    let splat = |v: f64| simd.splat_f64s(v);
    let x = f64::at_least(simd, x, splat(-746.0));
    let shift = splat(ROUND + f64::from(RAISE));
    let shifted = simd.mul_add_e_f64s(x, splat(core::f64::consts::LOG2_E), shift);
    let k = simd.sub_f64s(shifted, shift);
    let r = simd.mul_add_e_f64s(k, splat(-6.931_457_519_531_25e-1), x);
    let r = simd.mul_add_e_f64s(k, splat(-1.428_606_820_309_417_2e-6), r);
    // Cephes' exp: 1 + 2 r P(r²) / (Q(r²) − r P(r²)) on |r| ≤ ln 2 / 2.
    let rr = simd.mul_f64s(r, r);
    let mut p = splat(1.261_771_930_748_105_9e-4);
    for c in [3.029_944_077_074_419_6e-2, 1.0] {
        p = simd.mul_add_e_f64s(p, rr, splat(c));
    }
    let p = simd.mul_f64s(p, r);
    let mut q = splat(3.001_985_051_386_644_6e-6);
    for c in [2.524_483_403_496_841e-3, 2.272_655_482_081_550_3e-1, 2.0] {
        q = simd.mul_add_e_f64s(q, rr, splat(c));
    }
    let e = simd.div_f64s(p, simd.sub_f64s(q, p));
    let e = simd.mul_add_e_f64s(e, splat(2.0), splat(1.0));
    let raised = simd.mul_f64s(e, pow2(simd, shifted));
    simd.mul_f64s(raised, splat(LOWER))
}

/// `2^k` where `k` is in the low bits of `shifted`. `pulp` does not have a shift of 64-bit integers; the compiler turns
/// the loop over their elements into one.
#[inline(always)]
fn pow2<S: Simd>(simd: S, shifted: S::f64s) -> S::f64s {
    let mut bits = simd.transmute_u64s_f64s(shifted);
    let elements: &mut [u64] = elements::<S>(&mut bits);
    for bits in elements {
        *bits = bits.wrapping_add(1023) << 52;
    }
    simd.transmute_f64s_u64s(bits)
}

#[inline(always)]
fn elements<S: Simd>(v: &mut S::u64s) -> &mut [u64] {
    // SAFETY: a vector consists of `U64_LANES` elements of type u64, and its alignment is sufficient.
    unsafe { core::slice::from_raw_parts_mut((v as *mut S::u64s).cast(), S::U64_LANES) }
}

/// `e^x − 1` for `x ≤ 0`, as `2t / (1 − t)` with `t = tanh(x/2)`, which does not cancel.
#[inline(always)]
pub(in crate::simd) fn exp_m1_negative<S: Simd>(simd: S, x: S::f64s) -> S::f64s {
    let t = tanh(simd, simd.mul_f64s(x, simd.splat_f64s(0.5)));
    simd.div_f64s(simd.add_f64s(t, t), simd.sub_f64s(simd.splat_f64s(1.0), t))
}

/// `σ(a)` and `1 − σ(a)`.
#[inline(always)]
pub(in crate::simd) fn sigmoid<S: Simd>(simd: S, a: S::f64s) -> (S::f64s, S::f64s) {
    let one = simd.splat_f64s(1.0);
    let e = exp_negative(simd, simd.neg_f64s(simd.abs_f64s(a)));
    let small = simd.div_f64s(e, simd.add_f64s(one, e));
    let large = simd.sub_f64s(one, small);
    let is_negative = simd.less_than_f64s(a, simd.splat_f64s(0.0));
    (
        simd.select_f64s(is_negative, small, large),
        simd.select_f64s(is_negative, large, small),
    )
}

/// `tanh a`, as `(1 − e) / (1 + e)` with `e = e^−2|a|`, or as a rational approximation where this cancels.
#[inline(always)]
pub(in crate::simd) fn tanh<S: Simd>(simd: S, a: S::f64s) -> S::f64s {
    let one = simd.splat_f64s(1.0);
    let size = simd.abs_f64s(a);
    let e = exp_negative(simd, simd.mul_f64s(size, simd.splat_f64s(-2.0)));
    let is_small = simd.less_than_f64s(size, simd.splat_f64s(0.625));
    let top = simd.select_f64s(is_small, tanh_small(simd, size), simd.sub_f64s(one, e));
    let bottom = simd.select_f64s(is_small, one, simd.add_f64s(one, e));
    let sign = simd.and_f64s(a, simd.splat_f64s(-0.0));
    simd.or_f64s(simd.div_f64s(top, bottom), sign)
}

/// `tanh a` for `0 ≤ a < 0.625`: Cephes' `a + a³ P(a²)/Q(a²)`.
#[inline(always)]
fn tanh_small<S: Simd>(simd: S, size: S::f64s) -> S::f64s {
    let splat = |v: f64| simd.splat_f64s(v);
    let s = simd.mul_f64s(size, size);
    let mut p = splat(-9.643_991_794_250_523e-1);
    for c in [-9.928_772_310_019_185e1, -1.614_687_684_417_084_5e3] {
        p = simd.mul_add_e_f64s(p, s, splat(c));
    }
    let mut q = splat(1.0);
    for c in [
        1.128_116_784_916_329_3e2,
        2.235_488_390_601_004_5e3,
        4.844_063_053_251_255e3,
    ] {
        q = simd.mul_add_e_f64s(q, s, splat(c));
    }
    let p = simd.div_f64s(p, q);
    simd.mul_add_e_f64s(simd.mul_f64s(p, s), size, size)
}
