//! The slope of a function along a line, from its values on both sides.

/// The slope at one point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slopes {
    /// Fourth order, from both sides.
    pub(crate) central: f64,
    /// Second order, from the left only.
    pub(crate) left: f64,
    /// Second order, from the right only.
    pub(crate) right: f64,
}

/// The slopes at 0 of a function whose value there is `here`.
pub(crate) fn slopes(f: impl Fn(f64) -> f64, here: f64, step: f64) -> Slopes {
    let [l2, l1, r1, r2] = [-2.0, -1.0, 1.0, 2.0].map(|steps| f(steps * step));
    Slopes {
        central: (8.0 * (r1 - l1) - (r2 - l2)) / (12.0 * step),
        left: (3.0 * here - 4.0 * l1 + l2) / (2.0 * step),
        right: (-3.0 * here + 4.0 * r1 - r2) / (2.0 * step),
    }
}

impl Slopes {
    /// Whether the gradient equals the slope. If either is NaN, it does not.
    pub(crate) fn agree_with(&self, gradient: f64, allowed: f64) -> bool {
        (gradient - self.central).abs() <= allowed
    }

    /// Whether the gradient is between the left and the right slope.
    pub(crate) fn enclose(&self, gradient: f64, allowed: f64) -> bool {
        let low = self.left.min(self.right) - allowed;
        let high = self.left.max(self.right) + allowed;
        // `min` ignores a NaN.
        !self.left.is_nan() && !self.right.is_nan() && (low..=high).contains(&gradient)
    }
}

/// Random numbers with a magnitude from 1/2 to 1 and a random sign.
pub(crate) fn signed(len: usize, seed: u64) -> Vec<f64> {
    // splitmix64: Steele, Lea and Flood 2014, <https://doi.org/10.1145/2660193.2660195>.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let number = |bits: u64| {
        let size = 0.5 + (bits >> 11) as f64 / (1u64 << 54) as f64;
        if bits & 1 == 0 { size } else { -size }
    };
    (0..len).map(|_| number(next())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_of_a_polynomial_and_of_a_corner() {
        let step = 1.0 / 1024.0;
        let smooth = slopes(|x| 2.0 + 3.0 * x - x * x, 2.0, step);
        for slope in [smooth.central, smooth.left, smooth.right] {
            assert!((slope - 3.0).abs() < 1e-10, "{smooth:?}");
        }
        let corner = slopes(|x: f64| x.max(0.0), 0.0, step);
        assert_eq!((corner.left, corner.right), (0.0, 1.0));
        assert!(corner.enclose(0.0, 1e-8) && corner.enclose(1.0, 1e-8));
        assert!(!corner.enclose(1.1, 1e-8) && !corner.enclose(f64::NAN, 1e-8));
        assert!(!slopes(|_| f64::NAN, 0.0, step).enclose(0.0, 1e-8));
    }

    #[test]
    fn numbers_are_large_enough_and_have_both_signs() {
        let numbers = signed(1000, 7);
        assert!(numbers.iter().all(|v| (0.5..=1.0).contains(&v.abs())));
        let positive = numbers.iter().filter(|v| **v > 0.0).count();
        assert!((400..600).contains(&positive), "{positive}");
        assert_ne!(numbers, signed(1000, 8));
    }
}
