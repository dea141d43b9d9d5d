//! Named tensors, their comparison, and every tolerance with its reason.

use std::collections::BTreeMap;

use approx::abs_diff_ne;

/// Flat tensors by name.
pub type Tensors = BTreeMap<String, Vec<f64>>;

/// The two tolerances of a run. A tensor passes if `max|got − expected| ≤ tolerance · max(1,
/// max|expected|)`. A non-finite value must be equal: NaN for NaN, and the same infinity for an
/// infinity.
///
/// Each tensor has one scale, because each value is a sum with terms as large as the tensor's largest
/// value. A relative error per value would forbid normal cancellation. The scale is never below 1,
/// because every problem here has inputs of that size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// For outputs.
    pub forward: f64,
    /// For gradients.
    pub gradient: f64,
}

impl Tolerance {
    /// Float32. Five frameworks, a numpy float32 run and a strictly sequential run differ from float64
    /// by at most 4.5e-7 (forward) and 1.3e-6 (gradient) over the conformance vectors. Four times these
    /// values allow any order of summation, and no activation with an error near 1e-6.
    pub const F32: Self = Self {
        forward: 2e-6,
        gradient: 5e-6,
    };

    /// Float32 with pre-activations of tens. Their own rounding is 10 to 100 times larger. The same runs
    /// differ by at most 1.7e-6 and 1.4e-6.
    pub const F32_SATURATED: Self = Self {
        forward: 1e-5,
        gradient: 2e-5,
    };

    /// Float64 compared with float64. ε is 2.2e-16, and the longest sum has thousands of terms. numpy
    /// differs by at most 2e-15 over 512 steps, and gru-op by at most 3.4e-15 in 20,000 comparisons. The rest
    /// allows other orders of summation, and approximations of `exp` with errors of tens of ulp.
    pub const F64: Self = Self {
        forward: 1e-13,
        gradient: 1e-13,
    };

    /// The oracle compared with finite differences of itself. Forward uses the tolerance of
    /// [`F64`](Self::F64). The differences have rounding errors of about 1e-11, and truncation errors of
    /// 3e-14 times the fifth derivative of the loss. The fifth derivative is below 1e4 with the usual
    /// activations. It comes near 1e6 if unbounded activations make the state a polynomial of a high
    /// degree. A wrong term of a derivative is as large as the gradient itself.
    pub const F64_DIFFERENCES: Self = Self {
        forward: 1e-12,
        gradient: 1e-8,
    };

    /// Float16 storage of values up to about 2, with half an ulp of 2⁻¹¹ = 4.9e-4. An output is rounded
    /// once. A gradient also contains the roundings of the gates, the states and the upstream gradient.
    pub const F16: Self = Self {
        forward: 1e-3,
        gradient: 4e-3,
    };

    /// Bfloat16, which has three bits less than float16.
    pub const BF16: Self = Self {
        forward: 8e-3,
        gradient: 3.2e-2,
    };

    /// The factor for GPUs. Shader languages allow errors of several to tens of ulp for `exp` and `tanh`
    /// instead of one, and may fuse and reorder sums.
    pub const GPU_FACTOR: f64 = 10.0;

    /// The factor for CUDA. Burn's products round float32 factors to TF32, whose half ulp is 2⁻¹¹ = 4.9e-4, so a product
    /// differs by up to 2⁻¹⁰ · Σ|x·w|. A float64 run that rounds x and `w_ih` in this way differs from the exact one by
    /// 2.1e-3 in the recorded case of 512 steps, where |x| is up to 4.2 and |w| up to 2.2. An H200 returned that value.
    /// Twice as much is allowed.
    pub const TF32_FACTOR: f64 = 2000.0;

    /// The same for pre-activations of tens: wider as [`F32_SATURATED`](Self::F32_SATURATED) is wider than
    /// [`F32`](Self::F32).
    pub const fn saturated(self) -> Self {
        Self {
            forward: self.forward * (Self::F32_SATURATED.forward / Self::F32.forward),
            gradient: self.gradient * (Self::F32_SATURATED.gradient / Self::F32.gradient),
        }
    }

    /// Both tolerances, multiplied by `factor`.
    pub const fn times(self, factor: f64) -> Self {
        Self {
            forward: self.forward * factor,
            gradient: self.gradient * factor,
        }
    }
}

/// The outputs and gradients of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Outputs by name.
    pub outputs: Tensors,
    /// Gradients by the name of their input.
    pub gradients: Tensors,
}

impl Outcome {
    /// Compares every tensor of `self` with the tensor of the same name in `expected`.
    ///
    /// # Errors
    /// One line for every tensor that is missing, unexpected or not close.
    pub fn compare(&self, expected: &Self, tolerance: Tolerance) -> Result<(), String> {
        // An empty comparison proves nothing.
        if expected.outputs.is_empty() {
            return Err("nothing was compared".into());
        }
        let (forward, gradient) = (tolerance.forward, tolerance.gradient);
        let mut failed = failures("", &self.outputs, &expected.outputs, forward);
        let of_gradients = failures(
            "gradient of ",
            &self.gradients,
            &expected.gradients,
            gradient,
        );
        failed.extend(of_gradients);
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed.join("\n"))
        }
    }
}

fn failures(prefix: &str, got: &Tensors, expected: &Tensors, tolerance: f64) -> Vec<String> {
    let unexpected = got
        .keys()
        .filter(|name| !expected.contains_key(*name))
        .map(|name| format!("{prefix}{name}: not expected"));
    let compared = expected.iter().filter_map(|(name, expected)| {
        let name_in_full = format!("{prefix}{name}");
        match got.get(name) {
            Some(got) => close(&name_in_full, got, expected, tolerance).err(),
            None => Some(format!("{name_in_full}: missing")),
        }
    });
    unexpected.chain(compared).collect()
}

/// Compares one tensor by the rule of [`Tolerance`].
///
/// # Errors
/// As [`share`].
pub fn close(name: &str, got: &[f64], expected: &[f64], tolerance: f64) -> Result<(), String> {
    share(name, got, expected, tolerance).map(|_| ())
}

/// Compares one tensor by the rule of [`Tolerance`]. Returns the share of the tolerance that the worst
/// value uses: 0 is exact, 1 is the whole tolerance. If NaN or an infinity is expected, the value must
/// be NaN or the same infinity. Such values do not affect the scale.
///
/// # Errors
/// Names the tensor and the worst value: its index, the actual and the expected value, and the allowed
/// difference. Tensors of different lengths are never close.
pub fn share(name: &str, got: &[f64], expected: &[f64], tolerance: f64) -> Result<f64, String> {
    if got.len() != expected.len() {
        return Err(format!(
            "{name}: {} numbers, expected {}",
            got.len(),
            expected.len()
        ));
    }
    let finite = expected.iter().filter(|v| v.is_finite());
    let scale = finite.fold(1.0, |max: f64, v| max.max(v.abs()));
    let allowed = tolerance * scale;
    let distance = |index: usize| {
        let (got, expected) = (got[index], expected[index]);
        if got == expected || (got.is_nan() && expected.is_nan()) {
            0.0
        } else if expected.is_finite() && !got.is_nan() {
            (got - expected).abs()
        } else {
            f64::INFINITY
        }
    };
    let worst = (0..got.len()).max_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    match worst {
        Some(worst) if abs_diff_ne!(distance(worst), 0.0, epsilon = allowed) => Err(format!(
            "{name}[{worst}]: expected {:e}, got {:e}, difference {:.3e}, allowed {allowed:.3e}",
            expected[worst],
            got[worst],
            distance(worst),
        )),
        Some(worst) if distance(worst) > 0.0 => Ok(distance(worst) / allowed),
        _ => Ok(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_is_the_largest_expected_number_but_at_least_one() {
        assert!(close("a", &[100.9, 0.0], &[100.0, 0.0], 1e-2).is_ok());
        assert!(close("a", &[100.0, 1.1], &[100.0, 0.0], 1e-2).is_err());
        assert!(close("a", &[0.009], &[0.0], 1e-2).is_ok());
        assert!(close("a", &[0.011], &[0.0], 1e-2).is_err());
    }

    #[test]
    fn reports_the_worst_number() {
        let message = close("dx", &[0.0, 3.0, 2.0], &[0.0; 3], 1e-6).unwrap_err();
        assert!(
            message.starts_with("dx[1]: expected 0e0, got 3e0"),
            "{message}"
        );
    }

    #[test]
    fn nan_and_infinities_only_equal_themselves() {
        const BAD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for (at, bad) in BAD.into_iter().enumerate() {
            let message = close("a", &[9.0, bad], &[0.0; 2], 1.0).unwrap_err();
            assert!(message.starts_with("a[1]"), "{message}");
            assert!(close("a", &[0.0], &[bad], 1.0).is_err());
            for (other, expected) in BAD.into_iter().enumerate() {
                let result = close("a", &[bad], &[expected], 1.0);
                assert_eq!(result.is_ok(), at == other, "{bad}, {expected}");
            }
        }
    }

    /// An infinite scale would allow any finite value.
    #[test]
    fn an_infinity_is_no_scale() {
        assert!(close("a", &[f64::INFINITY, 1.1], &[f64::INFINITY, 1.0], 1e-2).is_err());
    }

    #[test]
    fn lengths_differ() {
        assert!(close("a", &[0.0], &[0.0; 2], 1.0).is_err());
        assert!(close("a", &[0.0; 2], &[0.0], 1.0).is_err());
    }

    #[test]
    fn share_belongs_to_the_worst_value() {
        assert_eq!(
            share("a", &[8.0, 0.5, 0.0], &[8.0, 0.0, 0.25], 0.125),
            Ok(0.5)
        );
        assert_eq!(share("a", &[f64::NAN, 1.0], &[f64::NAN, 1.0], 0.0), Ok(0.0));
    }

    #[test]
    fn missing_and_unexpected_tensors_fail() {
        let one = |name: &str| Outcome {
            outputs: Tensors::from([("y".into(), vec![0.0])]),
            gradients: Tensors::from([(name.into(), vec![0.0])]),
        };
        assert!(one("x").compare(&one("x"), Tolerance::F64).is_ok());
        let (mut far, tolerance) = (
            one("x"),
            Tolerance {
                forward: 0.5,
                gradient: 0.25,
            },
        );
        far.outputs.insert("y".into(), vec![0.375]);
        assert!(far.compare(&one("x"), tolerance).is_ok());
        far.gradients.insert("x".into(), vec![0.375]);
        assert!(far.compare(&one("x"), tolerance).is_err());
        let message = one("x").compare(&one("h0"), Tolerance::F64).unwrap_err();
        assert!(message.contains("gradient of x: not expected"), "{message}");
        assert!(message.contains("gradient of h0: missing"), "{message}");
        let nothing = Outcome::default();
        assert!(nothing.compare(&nothing, Tolerance::F64).is_err());
    }
}
