//! σ and tanh on vectors of float32.
//!
//! Both stand on one exponential of a non-positive argument, so nothing overflows. Against the
//! correctly rounded value over every float32 (the ignored test below): σ is off by at most
//! 2.5 ulp, tanh by at most 2 ulp where the result is normal.

use pulp::Simd;

/// `2^k` for `x = k·ln 2 + rest`, by the rounding of adding a number whose last bit is one.
const MAGIC: f32 = 12_582_912.0; // 1.5 · 2²³

/// `e^x` for `x ≤ 0`, at least 0 and normal: below −87.33 it stays at the smallest normal number.
#[inline(always)]
fn exp_negative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let splat = |v: f32| simd.splat_f32s(v);
    let x = simd.max_f32s(x, splat(-87.336_54));
    let shifted = simd.mul_add_f32s(x, splat(std::f32::consts::LOG2_E), splat(MAGIC));
    let k = simd.sub_f32s(shifted, splat(MAGIC));
    // ln 2 in two parts, the first exact in few bits, so that k times it is exact.
    let r = simd.mul_add_f32s(k, splat(-0.693_359_4), x);
    let r = simd.mul_add_f32s(k, splat(2.121_944_4e-4), r);
    // Cephes' expf: 1 + r + r²·P(r) on |r| ≤ ln 2 / 2.
    let mut p = splat(1.987_569_1e-4);
    for c in [
        1.398_2e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = simd.mul_add_f32s(p, r, splat(c));
    }
    let p = simd.mul_add_f32s(p, simd.mul_f32s(r, r), r);
    let p = simd.add_f32s(p, splat(1.0));
    // k is in the low bits of `shifted`; it becomes the exponent.
    let bits = simd.transmute_u32s_f32s(shifted);
    let scale = simd.wrapping_dyn_shl_u32s(
        simd.add_u32s(bits, simd.splat_u32s(127)),
        simd.splat_u32s(23),
    );
    simd.mul_f32s(p, simd.transmute_f32s_u32s(scale))
}

/// `1 / (1 + e^−a)`.
#[inline(always)]
pub(super) fn sigmoid<S: Simd>(simd: S, a: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    let e = exp_negative(simd, simd.neg_f32s(simd.abs_f32s(a)));
    let negative = simd.less_than_f32s(a, simd.splat_f32s(0.0));
    let top = simd.select_f32s(negative, e, one);
    simd.div_f32s(top, simd.add_f32s(one, e))
}

/// `tanh a`.
#[inline(always)]
pub(super) fn tanh<S: Simd>(simd: S, a: S::f32s) -> S::f32s {
    let splat = |v: f32| simd.splat_f32s(v);
    let size = simd.abs_f32s(a);
    // Large: (1 − e) / (1 + e), e = e^−2|a|.
    let e = exp_negative(simd, simd.mul_f32s(size, splat(-2.0)));
    let one = splat(1.0);
    let large = simd.div_f32s(simd.sub_f32s(one, e), simd.add_f32s(one, e));
    // Small, where that cancels: Cephes' a + a³·P(a²).
    let s = simd.mul_f32s(size, size);
    let mut p = splat(-5.704_988_7e-3);
    for c in [2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
        p = simd.mul_add_f32s(p, s, splat(c));
    }
    let small = simd.mul_add_f32s(simd.mul_f32s(p, s), size, size);
    let y = simd.select_f32s(simd.less_than_f32s(size, splat(0.625)), small, large);
    // The sign of a, zero included.
    let sign = simd.and_u32s(simd.transmute_u32s_f32s(a), simd.splat_u32s(1 << 31));
    simd.transmute_f32s_u32s(simd.or_u32s(simd.transmute_u32s_f32s(y), sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::{Arch, WithSimd};

    struct Both<'a> {
        a: &'a [f32],
        sigmoid: &'a mut [f32],
        tanh: &'a mut [f32],
    }

    impl WithSimd for Both<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let (a, _) = S::as_simd_f32s(self.a);
            let (s, _) = S::as_mut_simd_f32s(self.sigmoid);
            let (t, _) = S::as_mut_simd_f32s(self.tanh);
            for ((s, t), &a) in s.iter_mut().zip(t).zip(a) {
                *s = sigmoid(simd, a);
                *t = tanh(simd, a);
            }
        }
    }

    /// Distance in units of the last place of the expected value.
    fn ulps(got: f32, expected: f64) -> f64 {
        let nearest = expected as f32;
        let ulp = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
        (f64::from(got) - expected).abs() / ulp
    }

    /// The largest errors of σ and tanh over every `step`-th float32.
    fn worst(step: usize) -> (f64, f64) {
        const CHUNK: usize = 1 << 16;
        let (mut a, mut s, mut t) = (vec![0.0; CHUNK], vec![0.0; CHUNK], vec![0.0; CHUNK]);
        let (mut worst_s, mut worst_t) = (0.0f64, 0.0f64);
        let finite = |bits: &u32| f32::from_bits(*bits).is_finite();
        let mut all = (0..=u32::MAX).step_by(step).filter(finite).peekable();
        while all.peek().is_some() {
            let mut count = 0;
            for (a, bits) in a.iter_mut().zip(all.by_ref().take(CHUNK)) {
                *a = f32::from_bits(bits);
                count += 1;
            }
            Arch::new().dispatch(Both {
                a: &a,
                sigmoid: &mut s,
                tanh: &mut t,
            });
            for k in 0..count {
                let x = f64::from(a[k]);
                // Below the smallest normal result only its smallness counts.
                let sigmoid = if x < 0.0 {
                    x.exp() / (1.0 + x.exp())
                } else {
                    1.0 / (1.0 + (-x).exp())
                };
                match sigmoid < f64::from(f32::MIN_POSITIVE) {
                    true => assert!((0.0..=1.2e-38).contains(&s[k]), "sigmoid({x}) = {}", s[k]),
                    false => worst_s = worst_s.max(ulps(s[k], sigmoid)),
                }
                if a[k].abs() >= f32::MIN_POSITIVE {
                    worst_t = worst_t.max(ulps(t[k], x.tanh()));
                }
            }
        }
        (worst_s, worst_t)
    }

    #[test]
    fn a_sample_of_all_floats_is_within_the_stated_error() {
        let (s, t) = worst(4099);
        assert!(s <= 2.5 && t <= 2.0, "sigmoid {s} ulp, tanh {t} ulp");
    }

    #[test]
    #[ignore = "all 2³² floats: some minutes"]
    fn every_float_is_within_the_stated_error() {
        let (s, t) = worst(1);
        assert!(s <= 2.5 && t <= 2.0, "sigmoid {s} ulp, tanh {t} ulp");
    }
}
