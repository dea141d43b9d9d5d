//! Activations, their slopes as functions of the input, and where they are not smooth.

use gru_cpu::spec::Activation;

use super::tape;

/// `φ(clip(a))` and its derivative by `a`: 0 where `a` is clipped, NaN where the value is.
pub fn gate(activation: &Activation, bound: Option<f64>, a: f64) -> (f64, f64) {
    let (value, slope) = activate(activation, bound.map_or(a, |bound| tape::clip(a, bound)));
    let is_clipped = bound.is_some_and(|bound| a.abs() >= bound && bound.is_finite());
    if a.is_nan() || value.is_nan() {
        (f64::NAN, f64::NAN)
    } else if is_clipped {
        (value, 0.0)
    } else {
        (value, slope)
    }
}

/// `φ(a)` and `dφ/da`, for an `a` that is not NaN. Where the value is saturated in float64, the slope
/// is exactly 0, and NaN times an infinity.
fn activate(activation: &Activation, a: f64) -> (f64, f64) {
    match *activation {
        Activation::Sigmoid => {
            let y = sigmoid(a);
            (y, y * (1.0 - y))
        }
        Activation::Tanh => tanh(a),
        Activation::Relu => pieces(a > 0.0, (a, 1.0), (0.0, 0.0)),
        Activation::HardSigmoid { alpha, beta } => {
            let line = alpha * a + beta;
            let is_inside = line > 0.0 && line < 1.0;
            pieces(is_inside, (line, alpha), (line.clamp(0.0, 1.0), 0.0))
        }
        Activation::Identity => (a, 1.0),
        Activation::Affine { alpha, beta } => (alpha * a + beta, alpha),
        Activation::LeakyRelu { alpha } => pieces(a > 0.0, (a, 1.0), (alpha * a, alpha)),
        Activation::ThresholdedRelu { alpha } => pieces(a > alpha, (a, 1.0), (0.0, 0.0)),
        Activation::ScaledTanh { alpha, beta } => {
            let (value, slope) = tanh(beta * a);
            (alpha * value, alpha * beta * slope)
        }
        Activation::Elu { alpha } => {
            let y = a.exp_m1();
            pieces(a > 0.0, (a, 1.0), (alpha * y, alpha * (1.0 + y)))
        }
        Activation::Softsign => {
            let y = a / (1.0 + a.abs());
            (y, (1.0 - y.abs()).powi(2))
        }
        // ln(1 + e^a) without an overflow.
        Activation::Softplus => (a.max(0.0) + (-a.abs()).exp().ln_1p(), sigmoid(a)),
        other => unimplemented!("{other:?}"),
    }
}

fn tanh(a: f64) -> (f64, f64) {
    let y = a.tanh();
    (y, (1.0 - y) * (1.0 + y))
}

fn sigmoid(a: f64) -> f64 {
    1.0 / (1.0 + (-a).exp())
}

fn pieces<V>(is_first: bool, first: V, second: V) -> V {
    if is_first { first } else { second }
}

/// Where an activation is not smooth; infinite where there is nothing to name.
///
/// Softsign and ELU have a first derivative everywhere, but not the five that differences need.
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
        other => unimplemented!("{other:?}"),
    }
}

/// Watches on which side of every kink the values lie, and how far from it.
#[derive(Debug)]
pub struct Kinks {
    /// How near any value came to a kink.
    pub distance: f64,
    /// Hash of the smooth pieces all values lay on: equal pieces, one smooth function. Only
    /// differences ask.
    pub pieces: u64,
}

impl Kinks {
    pub fn new() -> Self {
        Self {
            distance: f64::INFINITY,
            pieces: 0,
        }
    }

    /// A pre-activation, before its clip.
    pub fn visit_gate(&mut self, activation: &Activation, bound: Option<f64>, a: f64) {
        let clipped = bound.map_or(a, |bound| self.visit_clip(bound, a));
        self.visit(clipped, kinks(activation));
    }

    /// A value before its clip; returns the clipped value.
    pub fn visit_clip(&mut self, bound: f64, value: f64) -> f64 {
        self.visit(value, [-bound, bound]);
        tape::clip(value, bound)
    }

    fn visit(&mut self, value: f64, kinks: [f64; 2]) {
        for kink in kinks {
            self.distance = self.distance.min((value - kink).abs());
            // FNV-1a over the sides: the order of the values counts too.
            self.pieces =
                (self.pieces ^ (2 + u64::from(value > kink))).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
