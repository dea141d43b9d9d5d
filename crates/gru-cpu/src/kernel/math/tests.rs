use super::*;
use pulp::{Arch, WithSimd};

/// σ, tanh, and both again by one division: for each of `a` a row of four.
struct All<'a, E> {
    a: &'a [E],
    to: &'a mut [[E; 4]],
}

impl<E: Lanes + Default> WithSimd for All<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = E::lanes::<S>();
        let mut out = [[E::default(); 16]; 4];
        for (a, to) in self.a.chunks(lanes).zip(self.to.chunks_mut(lanes)) {
            let a = E::load_part(simd, a);
            let (s, t) = sigmoid_and_tanh::<E, S>(simd, a, a);
            let all = [sigmoid::<E, S>(simd, a), tanh::<E, S>(simd, a), s, t];
            for (out, v) in out.iter_mut().zip(all) {
                E::store_part(simd, &mut out[..lanes], v);
            }
            for (k, to) in to.iter_mut().enumerate() {
                *to = [0, 1, 2, 3].map(|which| out[which][k]);
            }
        }
    }
}

/// Distance in units of the last place of the expected value.
fn ulps(got: f32, expected: f64) -> f64 {
    let nearest = expected as f32;
    let ulp = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
    (f64::from(got) - expected).abs() / ulp
}

/// The largest errors over every `step`-th float32: σ and tanh, alone and by one division.
fn worst(step: usize) -> [f64; 4] {
    const CHUNK: usize = 1 << 16;
    let mut a = vec![0.0; CHUNK];
    let mut out = vec![[0.0; 4]; CHUNK];
    let mut worst = [0.0f64; 4];
    let finite = |bits: &u32| f32::from_bits(*bits).is_finite();
    let mut all = (0..=u32::MAX).step_by(step).filter(finite).peekable();
    while all.peek().is_some() {
        let mut count = 0;
        for (a, bits) in a.iter_mut().zip(all.by_ref().take(CHUNK)) {
            *a = f32::from_bits(bits);
            count += 1;
        }
        Arch::new().dispatch(All {
            a: &a,
            to: &mut out,
        });
        for (&a, got) in a[..count].iter().zip(&out) {
            let x = f64::from(a);
            let sigmoid = match x < 0.0 {
                true => x.exp() / (1.0 + x.exp()),
                false => 1.0 / (1.0 + (-x).exp()),
            };
            for which in [0, 2] {
                // Below the smallest normal result only its smallness counts.
                let got = got[which];
                match sigmoid < f64::from(f32::MIN_POSITIVE) {
                    true => assert!((0.0..=1.2e-38).contains(&got), "sigmoid({x}) = {got}"),
                    false => worst[which] = worst[which].max(ulps(got, sigmoid)),
                }
            }
            for which in [1, 3] {
                if a.abs() >= f32::MIN_POSITIVE {
                    worst[which] = worst[which].max(ulps(got[which], x.tanh()));
                }
            }
        }
    }
    worst
}

fn check(step: usize) {
    let worst = worst(step);
    println!("sigmoid, tanh, and both by one division: {worst:?} ulp");
    for (worst, allowed) in worst.into_iter().zip([2.5, 5.0, 4.0, 6.5]) {
        assert!(worst <= allowed, "{worst} ulp, stated are {allowed}");
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
fn float64_agrees_with_the_standard_library() {
    let a: Vec<f64> = (-80_000..=80_000)
        .map(|k| f64::from(k) * 5.003e-4)
        .collect();
    let mut out = vec![[0.0; 4]; a.len()];
    Arch::new().dispatch(All {
        a: &a,
        to: &mut out,
    });
    for (&a, got) in a.iter().zip(&out) {
        let sigmoid = match a < 0.0 {
            true => a.exp() / (1.0 + a.exp()),
            false => 1.0 / (1.0 + (-a).exp()),
        };
        for (&got, expected) in got.iter().zip([sigmoid, a.tanh(), sigmoid, a.tanh()]) {
            let error = (got - expected).abs() / expected.abs().max(f64::MIN_POSITIVE);
            assert!(error < 1e-15 || a == 0.0, "{got} for {expected} at {a}");
        }
    }
}
