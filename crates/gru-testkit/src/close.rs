//! Named tensors, the one comparison and every tolerance with its reason.

use std::collections::BTreeMap;

use approx::abs_diff_ne;

/// Flat tensors by name.
pub type Tensors = BTreeMap<String, Vec<f64>>;

/// The two tolerances of a run. A tensor passes when
/// `max|got − expected| ≤ tolerance · max(1, max|expected|)`, and every number that is not finite is
/// expected so: NaN where NaN is, the same infinity where one is.
///
/// One scale per tensor, because each number is a sum whose terms are as large as the tensor's
/// largest: a relative error per number would forbid honest cancellation. Never below 1, because
/// every problem here has inputs of that size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// For outputs.
    pub forward: f64,
    /// For gradients.
    pub gradient: f64,
}

impl Tolerance {
    /// Float32. Five frameworks, a numpy float32 run and a strictly sequential one stay within
    /// 4.5e-7 forward and 1.3e-6 gradient of float64 over the conformance vectors: four times
    /// that allows any order of summation, and no activation with an error near 1e-6.
    pub const F32: Self = Self {
        forward: 2e-6,
        gradient: 5e-6,
    };

    /// Float32 where pre-activations reach tens. Their own rounding is then 10 to 100 times
    /// larger; the same runs stay within 1.7e-6 and 1.4e-6.
    pub const F32_SATURATED: Self = Self {
        forward: 1e-5,
        gradient: 2e-5,
    };

    /// Float64 against float64. ε is 2.2e-16 and the longest sum has thousands of terms; numpy
    /// stays within 2e-15 over 512 steps. The rest is room for other orders and for `exp`
    /// approximations of a few hundred ulp.
    pub const F64: Self = Self {
        forward: 1e-12,
        gradient: 1e-12,
    };

    /// The oracle against finite differences of itself: forward as [`F64`](Self::F64). The differences round
    /// at about 1e-11 and truncate 3e-14 times the fifth derivative of the loss, which is below
    /// 1e4 with the usual activations and comes near 1e6 where unbounded ones make the state a
    /// polynomial of a high degree. A wrong term of a derivative is of the gradient's own size.
    pub const F64_DIFFERENCES: Self = Self {
        forward: 1e-12,
        gradient: 1e-8,
    };

    /// Float16 storage of numbers up to 2 or so, half an ulp of which is 2⁻¹¹ = 4.9e-4: one
    /// rounding of an output; of a gradient also those of the gates, the states and the upstream
    /// gradient that it is made of.
    pub const F16: Self = Self {
        forward: 1e-3,
        gradient: 4e-3,
    };

    /// The same for bfloat16, which has three bits less.
    pub const BF16: Self = Self {
        forward: 8e-3,
        gradient: 3.2e-2,
    };

    /// How much wider the tolerance is on a GPU: shader languages bound `exp` and `tanh` by
    /// several to tens of ulp instead of one, and fuse and reorder sums as they like.
    pub const GPU_FACTOR: f64 = 10.0;

    /// Both tolerances, `factor` times wider.
    pub fn times(self, factor: f64) -> Self {
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
    /// Gradients by the name of the tensor they belong to.
    pub gradients: Tensors,
}

impl Outcome {
    /// Compares every tensor of `self` with its namesake in `expected`.
    ///
    /// # Errors
    /// One line for every tensor that is missing, unexpected or not close.
    pub fn compare(&self, expected: &Self, tolerance: Tolerance) -> Result<(), String> {
        self.share(expected, tolerance).map(|_| ())
    }

    /// [`compare`](Self::compare), and the largest share of a tolerance that a tensor used.
    ///
    /// # Errors
    /// One line for every tensor that is missing, unexpected or not close.
    pub fn share(&self, expected: &Self, tolerance: Tolerance) -> Result<f64, String> {
        // A run that names nothing proves nothing.
        if expected.outputs.is_empty() {
            return Err("nothing was compared".into());
        }
        let results = [
            share_of_all("", &self.outputs, &expected.outputs, tolerance.forward),
            share_of_all(
                "gradient of ",
                &self.gradients,
                &expected.gradients,
                tolerance.gradient,
            ),
        ];
        let (mut largest, mut failures) = (0.0f64, Vec::new());
        for result in results.into_iter().flatten() {
            match result {
                Ok(share) => largest = largest.max(share),
                Err(failure) => failures.push(failure),
            }
        }
        if failures.is_empty() {
            Ok(largest)
        } else {
            Err(failures.join("\n"))
        }
    }
}

fn share_of_all(
    prefix: &str,
    got: &Tensors,
    expected: &Tensors,
    tolerance: f64,
) -> Vec<Result<f64, String>> {
    let unexpected = got
        .keys()
        .filter(|name| !expected.contains_key(*name))
        .map(|name| Err(format!("{prefix}{name}: not expected")));
    let compared = expected.iter().map(|(name, expected)| {
        let name_in_full = format!("{prefix}{name}");
        match got.get(name) {
            Some(got) => share(&name_in_full, got, expected, tolerance),
            None => Err(format!("{name_in_full}: missing")),
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

/// Compares one tensor by the rule of [`Tolerance`], and returns the share of the tolerance that its
/// worst number used: 0 is exact, 1 is all of it. Where NaN or an infinity is expected, the number
/// must be NaN or the same infinity; these do not count for the scale.
///
/// # Errors
/// Names the tensor and the worst number: its index, what it is, what it should be, and how far
/// off it may be. Two lengths are never close.
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
            "{name}[{worst}]: got {:e}, expected {:e}, off by {:.3e}, allowed {allowed:.3e}",
            got[worst],
            expected[worst],
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
            message.starts_with("dx[1]: got 3e0, expected 0e0"),
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

    /// An infinity would allow any finite number.
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
    fn the_share_is_that_of_the_worst_number() {
        assert_eq!(
            share("a", &[8.0, 0.5, 0.0], &[8.0, 0.0, 0.25], 0.125),
            Ok(0.5)
        );
        assert_eq!(share("a", &[f64::NAN, 1.0], &[f64::NAN, 1.0], 0.0), Ok(0.0));
        let outcome = |y: f64, x: f64| Outcome {
            outputs: Tensors::from([("y".into(), vec![y])]),
            gradients: Tensors::from([("x".into(), vec![x])]),
        };
        let tolerance = Tolerance {
            forward: 0.5,
            gradient: 0.25,
        };
        let share = outcome(0.125, 0.125).share(&outcome(0.0, 0.0), tolerance);
        assert_eq!(share, Ok(0.5));
    }

    #[test]
    fn missing_and_unexpected_tensors_fail() {
        let one = |name: &str| Outcome {
            outputs: Tensors::from([("y".into(), vec![0.0])]),
            gradients: Tensors::from([(name.into(), vec![0.0])]),
        };
        assert!(one("x").compare(&one("x"), Tolerance::F64).is_ok());
        let message = one("x").compare(&one("h0"), Tolerance::F64).unwrap_err();
        assert!(message.contains("gradient of x: not expected"), "{message}");
        assert!(message.contains("gradient of h0: missing"), "{message}");
        let nothing = Outcome::default();
        assert!(nothing.compare(&nothing, Tolerance::F64).is_err());
    }
}
