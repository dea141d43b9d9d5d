//! The gates' mathematics on one number: activations, their derivatives, the blend.
//!
//! Derivatives are written from the output, so that backward needs the saved gates only. Every
//! exponential has an argument that is not positive, so nothing overflows.

use crate::rule::{Gate, Number, Phi, Rule};
use cubecl::prelude::*;

/// `φ(clip(a))`.
#[cube]
pub(crate) fn gate_value(a: f32, #[comptime] gate: Gate) -> f32 {
    let a = clip(a, comptime!(gate.clip));
    match comptime!(gate.phi) {
        Phi::Sigmoid => {
            let e = (-a.abs()).exp();
            let s = 1.0f32 / (1.0f32 + e);
            select(a < 0.0f32, e * s, s)
        }
        Phi::ScaledTanh(alpha, beta) => {
            let b = a * number(beta);
            let e = (b.abs() * -2.0f32).exp();
            let t = (1.0f32 - e) / (1.0f32 + e);
            number(alpha) * select(b < 0.0f32, -t, t)
        }
        Phi::Relu => max(a, 0.0f32),
        Phi::HardSigmoid(alpha, beta) => min(max(number(alpha) * a + number(beta), 0.0f32), 1.0f32),
        Phi::Affine(alpha, beta) => number(alpha) * a + number(beta),
        Phi::LeakyRelu(alpha) => select(a < 0.0f32, number(alpha) * a, a),
        Phi::ThresholdedRelu(alpha) => select(a > number(alpha), a, 0.0f32),
        Phi::Elu(alpha) => {
            let below = number(alpha) * ((-a.abs()).exp() - 1.0f32);
            select(a < 0.0f32, below, a)
        }
        Phi::Softsign => a / (1.0f32 + a.abs()),
        Phi::Softplus => max(a, 0.0f32) + (1.0f32 + (-a.abs()).exp()).ln(),
    }
}

/// `dφ/da` from the output `y = φ(clip(a))`.
#[cube]
pub(crate) fn gate_slope(y: f32, #[comptime] gate: Gate) -> f32 {
    let slope = match comptime!(gate.phi) {
        Phi::Sigmoid => y * (1.0f32 - y),
        Phi::ScaledTanh(alpha, beta) => number(beta) * (number(alpha) - y * y / number(alpha)),
        Phi::Relu | Phi::ThresholdedRelu(_) => select(y > 0.0f32, 1.0f32, 0.0f32),
        Phi::HardSigmoid(alpha, _) => select(y > 0.0f32 && y < 1.0f32, number(alpha), 0.0f32),
        Phi::Affine(alpha, _) => number(alpha),
        Phi::LeakyRelu(alpha) => select(y < 0.0f32, number(alpha), 1.0f32),
        Phi::Elu(alpha) => select(y < 0.0f32, y + number(alpha), 1.0f32),
        Phi::Softsign => (1.0f32 - y.abs()) * (1.0f32 - y.abs()),
        Phi::Softplus => 1.0f32 - (-y).exp(),
    };
    if comptime!(gate.ends.is_some()) {
        let low = number(comptime!(gate.ends.unwrap().0));
        let high = number(comptime!(gate.ends.unwrap().1));
        select(y <= low || y >= high, 0.0f32, slope)
    } else {
        slope
    }
}

/// `clamp(a, −c, c)`, if there is a `c`.
#[cube]
pub(crate) fn clip(a: f32, #[comptime] c: Option<Number>) -> f32 {
    if comptime!(c.is_some()) {
        let c = number(comptime!(c.unwrap()));
        min(max(a, -c), c)
    } else {
        a
    }
}

/// The new state before its clip.
#[cube]
pub(crate) fn blend(h: f32, z: f32, n: f32, #[comptime] rule: Rule) -> f32 {
    if comptime!(rule.update_keeps) {
        z * h + (1.0f32 - z) * n
    } else {
        (1.0f32 - z) * h + z * n
    }
}

#[cube]
fn number(#[comptime] number: Number) -> f32 {
    f32::new(comptime!(number.value()))
}
