//! The learning rate of every step.

use std::f64::consts::PI;

/// Adam divides by a running scale of the gradient, which is not accurate in the first steps.
const WARM_UP_STEPS: usize = 50;
/// The final rate of the cosine, as a share of the peak, so that the last epochs still train.
const FINAL_RATE: f64 = 0.05;

/// Linear warm-up to `peak`, then half a cosine down. Returns the rate after `step` of `steps` steps.
pub fn learning_rate(peak: f64, step: usize, steps: usize) -> f64 {
    let warm_up = ((step + 1) as f64 / WARM_UP_STEPS as f64).min(1.0);
    let cosine = (1.0 + (PI * step as f64 / steps as f64).cos()) / 2.0;
    peak * warm_up * (FINAL_RATE + (1.0 - FINAL_RATE) * cosine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learning_rate_rises_and_falls() {
        let rate = |step| learning_rate(1.0, step, 1000);
        assert!((rate(0) - 0.02).abs() < 1e-4);
        assert!(rate(49) > 0.99);
        assert!((rate(500) - 0.525).abs() < 1e-9);
        assert!((rate(1000) - FINAL_RATE).abs() < 1e-9);
    }
}
