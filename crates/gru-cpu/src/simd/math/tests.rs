use super::*;
use crate::simd::{Isa, Machine};
use pulp::WithSimd;

/// σ, 1 − σ and tanh of each of `a`.
struct All<'a, E> {
    is_coarse: bool,
    a: &'a [E],
    to: &'a mut [[E; 3]],
}

impl<E: Lanes + Default> WithSimd for All<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = E::lanes::<S>();
        let mut out = [[E::default(); 16]; 3];
        for (a, to) in self.a.chunks(lanes).zip(self.to.chunks_mut(lanes)) {
            let a = E::load_part(simd, a);
            let [sigmoid, rest, tanh] = if self.is_coarse {
                let sigmoid = |a| coarse_sigmoid::<E, S>(simd, a);
                let of_minus_a = sigmoid(E::vneg(simd, a));
                [sigmoid(a), of_minus_a, coarse_tanh::<E, S>(simd, a)]
            } else {
                let (sigmoid, rest) = E::vsigmoid(simd, a);
                [sigmoid, rest, E::vtanh(simd, a)]
            };
            for (out, v) in out.iter_mut().zip([sigmoid, rest, tanh]) {
                E::store_part(simd, &mut out[..lanes], v);
            }
            for (k, to) in to.iter_mut().enumerate() {
                *to = [0, 1, 2].map(|which| out[which][k]);
            }
        }
    }
}

const NAMES: [&str; 3] = ["σ", "1 − σ", "tanh"];

/// The same values from the standard library in float64.
fn expected(a: f64) -> [f64; 3] {
    let sigmoid = |a: f64| {
        if a < 0.0 {
            a.exp() / (1.0 + a.exp())
        } else {
            1.0 / (1.0 + (-a).exp())
        }
    };
    [sigmoid(a), sigmoid(-a), a.tanh()]
}

/// Distance in units of the last place of the expected value.
fn ulps(got: f32, expected: f64) -> f64 {
    let nearest = expected as f32;
    let ulp = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
    (f64::from(got) - expected).abs() / ulp
}

/// The largest errors over every `step`-th float32.
fn worst(isa: Isa, step: usize) -> [f64; 3] {
    const CHUNK: usize = 1 << 16;
    let arch = isa.run(|| Machine::here::<f32>().arch);
    let mut a = vec![0.0; CHUNK];
    let mut out = vec![[0.0; 3]; CHUNK];
    let mut worst = [0.0f64; 3];
    let number = |bits: &u32| !f32::from_bits(*bits).is_nan();
    let mut all = (0..=u32::MAX).step_by(step).filter(number).peekable();
    while all.peek().is_some() {
        let mut count = 0;
        for (a, bits) in a.iter_mut().zip(all.by_ref().take(CHUNK)) {
            *a = f32::from_bits(bits);
            count += 1;
        }
        let (a, to) = (&a[..count], &mut out[..count]);
        let is_coarse = false;
        arch.dispatch(All { is_coarse, a, to });
        for (&a, got) in a.iter().zip(&out) {
            for (k, expected) in expected(a.into()).into_iter().enumerate() {
                let is_saturated = |y: f32| y == 0.0 || y.abs() == 1.0;
                let nearest = expected as f32;
                if is_saturated(got[k]) || is_saturated(nearest) {
                    assert_eq!(got[k], nearest, "{}({a})", NAMES[k]);
                }
                worst[k] = worst[k].max(ulps(got[k], expected));
            }
        }
    }
    worst
}

/// Other tests allow less to fused sets, so a set that stops fusing must fail.
#[test]
fn vectors_of_x86_and_arm_fuse() {
    for isa in [Isa::V3, Isa::V4, Isa::Neon] {
        assert!(!isa.is_available() || isa.is_fused(), "{isa:?}");
    }
}

fn check(step: usize) {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let worst = worst(isa, step);
        println!("{isa:?}: {NAMES:?}: {worst:?} ulp");
        let allowed = if isa.is_fused() {
            [1.5, 1.5, 2.0]
        } else {
            [2.0; 3]
        };
        assert!(
            worst
                .iter()
                .zip(allowed)
                .all(|(worst, allowed)| *worst <= allowed),
            "{worst:?} ulp, stated are {allowed:?}"
        );
    }
}

#[test]
fn a_sample_of_all_floats_is_within_the_stated_error() {
    check(4099);
}

#[test]
#[ignore = "all 2³² floats: some minutes"]
fn every_float_is_within_the_stated_error() {
    check(1);
}

#[test]
fn coarse_functions_are_within_the_stated_error() {
    let a: Vec<f32> = (0..=u32::MAX).step_by(4099).map(f32::from_bits).collect();
    let mut to = vec![[0.0; 3]; a.len()];
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let arch = isa.run(|| Machine::here::<f32>().arch);
        let (is_coarse, a, to) = (true, &a[..], &mut to[..]);
        arch.dispatch(All { is_coarse, a, to });
        for (&a, got) in a.iter().zip(to) {
            for (k, expected) in expected(a.into()).into_iter().enumerate() {
                let got = got[k];
                let error = (f64::from(got) - expected).abs();
                let least = if k == 2 { -1.0 } else { 0.0 };
                let is_close = error < 2f64.powi(-20) && (least..=1.0).contains(&got);
                let is_right = if a.is_nan() { got.is_nan() } else { is_close };
                assert!(is_right, "{isa:?}: {}({a}): {got}", NAMES[k]);
            }
        }
    }
}

#[test]
fn float64_agrees_with_the_standard_library() {
    let a: Vec<f64> = (-80_000..=80_000)
        .map(|k| f64::from(k) * 5.003e-4)
        .chain([-745.0, -720.0, 720.0, f64::INFINITY, f64::NEG_INFINITY])
        .collect();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let mut out = vec![[0.0; 3]; a.len()];
        isa.run(|| {
            Machine::here::<f32>().arch.dispatch(All {
                is_coarse: false,
                a: &a,
                to: &mut out,
            });
        });
        for (&a, got) in a.iter().zip(&out) {
            for (&got, expected) in got.iter().zip(expected(a)) {
                // For subnormals a unit of the last place is absolute.
                let error = (got - expected).abs() / expected.abs().max(f64::MIN_POSITIVE);
                assert!(error < 1e-15, "{isa:?}: {got} for {expected} at {a}");
                // Closer to saturation `expected` itself is rounded twice.
                let saturated = a.abs() > 40.0 && [0.0, 1.0].contains(&expected.abs());
                assert!(!saturated || got == expected, "{isa:?}: {got} at {a}");
            }
        }
    }
}
