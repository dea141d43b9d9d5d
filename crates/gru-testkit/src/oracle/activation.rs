//! Activations, their slopes as functions of the input, and their kinks.

use gru_spec::Activation;

use super::tape;

/// `φ(clip(a))` and its derivative by `a`: 0 if `a` is clipped, NaN if the value is NaN.
pub fn gate(activation: &Activation, bound: Option<f64>, a: f64) -> (f64, f64) {
    inexact_gate(activation, bound, a, |y| y)
}

/// [`gate`] with a modified value: `error` changes the value, and the slope belongs to the changed
/// value.
pub fn inexact_gate(
    activation: &Activation,
    bound: Option<f64>,
    a: f64,
    error: fn(f64) -> f64,
) -> (f64, f64) {
    let clipped = bound.map_or(a, |bound| tape::clip(a, bound));
    let value = error(value(activation, clipped));
    let slope = slope(activation, clipped, value);
    let is_clipped = bound.is_some_and(|bound| a.abs() >= bound && bound.is_finite());
    if a.is_nan() || value.is_nan() {
        (f64::NAN, f64::NAN)
    } else if is_clipped {
        (value, 0.0)
    } else {
        (value, slope)
    }
}

/// `φ(a)` for an `a` that is not NaN.
fn value(activation: &Activation, a: f64) -> f64 {
    match *activation {
        Activation::Sigmoid => 1.0 / (1.0 + (-a).exp()),
        Activation::Tanh => a.tanh(),
        Activation::Relu => pieces(a > 0.0, a, 0.0),
        Activation::HardSigmoid { alpha, beta } => (alpha * a + beta).clamp(0.0, 1.0),
        Activation::Identity => a,
        Activation::Affine { alpha, beta } => alpha * a + beta,
        Activation::LeakyRelu { alpha } => pieces(a > 0.0, a, alpha * a),
        Activation::ThresholdedRelu { alpha } => pieces(a > alpha, a, 0.0),
        Activation::ScaledTanh { alpha, beta } => alpha * (beta * a).tanh(),
        Activation::Elu { alpha } => pieces(a > 0.0, a, alpha * a.exp_m1()),
        Activation::Softsign => a / (1.0 + a.abs()),
        // ln(1 + e^a) without overflow.
        Activation::Softplus => a.max(0.0) + (-a.abs()).exp().ln_1p(),
        other => other.unknown(),
    }
}

/// `dφ/da` at `a`, with `y = φ(a)`. The slope of a saturated value is exactly 0, and NaN times an
/// infinity.
fn slope(activation: &Activation, a: f64, y: f64) -> f64 {
    match *activation {
        Activation::Sigmoid => y * (1.0 - y),
        Activation::Tanh => (1.0 - y) * (1.0 + y),
        Activation::Relu => pieces(a > 0.0, 1.0, 0.0),
        Activation::HardSigmoid { alpha, .. } => pieces(y > 0.0 && y < 1.0, alpha, 0.0),
        Activation::Identity => 1.0,
        Activation::Affine { alpha, .. } => alpha,
        Activation::LeakyRelu { alpha } => pieces(a > 0.0, 1.0, alpha),
        Activation::ThresholdedRelu { alpha } => pieces(a > alpha, 1.0, 0.0),
        Activation::ScaledTanh { alpha, beta } => beta / alpha * (alpha - y) * (alpha + y),
        Activation::Elu { alpha } => pieces(a > 0.0, 1.0, y + alpha),
        Activation::Softsign => (1.0 - y.abs()).powi(2),
        Activation::Softplus => -(-y).exp_m1(),
        other => other.unknown(),
    }
}

fn pieces(is_first: bool, first: f64, second: f64) -> f64 {
    if is_first { first } else { second }
}

/// The points where an activation is not smooth, infinite if there are none.
///
/// Softsign and ELU have a first derivative everywhere, but not the five derivatives that the
/// differences need.
fn kinks(activation: &Activation) -> [f64; 2] {
    const NONE: f64 = f64::INFINITY;
    match *activation {
        Activation::Relu
        | Activation::LeakyRelu { .. }
        | Activation::Elu { .. }
        | Activation::Softsign => [0.0, NONE],
        Activation::ThresholdedRelu { alpha } => [alpha, NONE],
        Activation::HardSigmoid { alpha, beta } => [-beta / alpha, (1.0 - beta) / alpha],
        Activation::Sigmoid
        | Activation::Tanh
        | Activation::Identity
        | Activation::Affine { .. }
        | Activation::ScaledTanh { .. }
        | Activation::Softplus => [NONE, NONE],
        other => other.unknown(),
    }
}

/// Records on which side of each kink all values are, and their distance from it.
#[derive(Debug)]
pub struct Kinks {
    /// The smallest distance of a value from a kink.
    pub distance: f64,
    /// Hash of the sides of all kinks: equal hashes mean the same smooth function. Only the differences
    /// use it.
    pub pieces: u64,
}

impl Kinks {
    pub fn new() -> Self {
        Self {
            distance: f64::INFINITY,
            pieces: 0,
        }
    }

    /// Records a pre-activation before its clip.
    pub fn visit_gate(&mut self, activation: &Activation, bound: Option<f64>, a: f64) {
        let clipped = bound.map_or(a, |bound| self.visit_clip(bound, a));
        self.visit(clipped, kinks(activation));
    }

    /// Records a value before its clip, and returns the clipped value.
    pub fn visit_clip(&mut self, bound: f64, value: f64) -> f64 {
        self.visit(value, [-bound, bound]);
        tape::clip(value, bound)
    }

    fn visit(&mut self, value: f64, kinks: [f64; 2]) {
        for kink in kinks {
            self.distance = self.distance.min((value - kink).abs());
            // FNV-1a over the sides, so that the order of the values matters too.
            self.pieces =
                (self.pieces ^ (2 + u64::from(value > kink))).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
