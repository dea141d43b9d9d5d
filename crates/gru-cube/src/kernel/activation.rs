//! The activations: value, and derivative from the output, so the backward pass needs only the saved
//! gates. No exponential has a positive argument, so none overflows.

use cubecl::prelude::*;
use gru_spec::Activation;

/// A float32 that is part of a kernel's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Number(u32);

impl Number {
    pub(crate) fn new(value: f64) -> Self {
        Self((value as f32).to_bits())
    }

    pub(crate) fn value(self) -> f32 {
        f32::from_bits(self.0)
    }
}

/// An activation, as [`Activation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phi {
    Sigmoid,
    /// `alpha·tanh(beta·a)`, alpha first.
    ScaledTanh(Number, Number),
    Relu,
    /// `clamp(alpha·a + beta, 0, 1)`, alpha first.
    HardSigmoid(Number, Number),
    /// `alpha·a + beta`, alpha first.
    Affine(Number, Number),
    LeakyRelu(Number),
    ThresholdedRelu(Number),
    Elu(Number),
    Softsign,
    Softplus,
}

impl Phi {
    pub(crate) fn new(activation: Activation) -> Self {
        let n = Number::new;
        match activation {
            Activation::Sigmoid => Self::Sigmoid,
            Activation::Tanh => Self::ScaledTanh(n(1.0), n(1.0)),
            Activation::Relu => Self::Relu,
            Activation::HardSigmoid { alpha, beta } => Self::HardSigmoid(n(alpha), n(beta)),
            Activation::Identity => Self::Affine(n(1.0), n(0.0)),
            Activation::Affine { alpha, beta } => Self::Affine(n(alpha), n(beta)),
            Activation::LeakyRelu { alpha } => Self::LeakyRelu(n(alpha)),
            Activation::ThresholdedRelu { alpha } => Self::ThresholdedRelu(n(alpha)),
            Activation::ScaledTanh { alpha, beta } => Self::ScaledTanh(n(alpha), n(beta)),
            Activation::Elu { alpha } => Self::Elu(n(alpha)),
            Activation::Softsign => Self::Softsign,
            Activation::Softplus => Self::Softplus,
            other => other.unknown(),
        }
    }
}

/// `φ(x)`. A NaN may become another value.
#[cube]
pub(crate) fn phi_value(x: f32, #[comptime] phi: Phi) -> f32 {
    match comptime!(phi) {
        Phi::Sigmoid => {
            let e = (-x.abs()).exp();
            let s = 1.0f32 / (1.0f32 + e);
            select(x < 0.0f32, e * s, s)
        }
        Phi::ScaledTanh(alpha, beta) => {
            let b = x * number(beta);
            let twice = b.abs() * 2.0f32;
            let e = (-twice).exp();
            let t = rise(twice, e) / (1.0f32 + e);
            number(alpha) * select(b < 0.0f32, -t, t)
        }
        Phi::Relu => select(x > 0.0f32, x, 0.0f32),
        Phi::HardSigmoid(alpha, beta) => bound(number(alpha) * x + number(beta), 0.0f32, 1.0f32),
        Phi::Affine(alpha, beta) => number(alpha) * x + number(beta),
        Phi::LeakyRelu(alpha) => select(x > 0.0f32, x, number(alpha) * x),
        Phi::ThresholdedRelu(alpha) => select(x > number(alpha), x, 0.0f32),
        Phi::Elu(alpha) => {
            let below = rise(x.abs(), (-x.abs()).exp()) * number(alpha);
            select(x > 0.0f32, x, -below)
        }
        Phi::Softsign => x / (1.0f32 + x.abs()),
        Phi::Softplus => select(x > 0.0f32, x, 0.0f32) + ln_above_1((-x.abs()).exp()),
    }
}

/// `dφ/dx` from the output `y = φ(x)`. A NaN may become another value.
#[cube]
pub(crate) fn phi_slope(y: f32, #[comptime] phi: Phi) -> f32 {
    match comptime!(phi) {
        Phi::Sigmoid => y * (1.0f32 - y),
        Phi::ScaledTanh(alpha, beta) => {
            // β(α − y²/α), exactly 0 at ±α.
            let factor = constant(comptime!(beta.value() / alpha.value()));
            factor * ((number(alpha) - y) * (number(alpha) + y))
        }
        Phi::Relu | Phi::ThresholdedRelu(_) => select(y > 0.0f32, 1.0f32, 0.0f32),
        Phi::HardSigmoid(alpha, _) => select(y > 0.0f32 && y < 1.0f32, number(alpha), 0.0f32),
        Phi::Affine(alpha, _) => number(alpha),
        Phi::LeakyRelu(alpha) => select(y > 0.0f32, 1.0f32, number(alpha)),
        Phi::Elu(alpha) => select(y > 0.0f32, 1.0f32, y + number(alpha)),
        Phi::Softsign => (1.0f32 - y.abs()) * (1.0f32 - y.abs()),
        Phi::Softplus => rise(y, (-y).exp()),
    }
}

/// `1 − e` for `e = e^−x` with `x ≥ 0`. If `e` is close to 1 the difference has few digits. Then the
/// function sums the series; the first omitted term is below `2⁻²⁶` of the sum.
#[cube]
fn rise(x: f32, e: f32) -> f32 {
    let mut series = constant(comptime!(-1.0 / 40320.0));
    #[unroll]
    for k in 0..7u32 {
        let term = comptime!([5040.0, -720.0, 120.0, -24.0, 6.0, -2.0, 1.0f32][k as usize]);
        series = series * x + constant(comptime!(1.0 / term));
    }
    select(x < 0.5f32, series * x, 1.0f32 - e)
}

/// `ln(1 + e)` for `e` from 0 to 1. The sum `1 + e` would lose a small `e`, so the function sums the series
/// `2·(s + s³/3 + s⁵/5 + …)` with `s = e/(2 + e)`. The first omitted term is below `2⁻²⁶` of the sum.
#[cube]
fn ln_above_1(e: f32) -> f32 {
    let s = e / (2.0f32 + e);
    let square = s * s;
    let mut series = constant(comptime!(1.0 / 13.0));
    #[unroll]
    for k in 0..6u32 {
        series = series * square + constant(comptime!(1.0 / (11.0 - 2.0 * k as f32)));
    }
    2.0f32 * s * series
}

/// `clamp(x, low, high)`; NaN if `x` is NaN.
#[cube]
pub(crate) fn bound(x: f32, low: f32, high: f32) -> f32 {
    select(is_nan(x), x, min(max(x, low), high))
}

/// Tests bits: a compiler that assumes no NaN may remove a comparison of floats.
#[cube]
pub(crate) fn is_nan(x: f32) -> bool {
    u32::reinterpret(x) & 0x7fff_ffffu32 > 0x7f80_0000u32
}

#[cube]
pub(crate) fn number(#[comptime] number: Number) -> f32 {
    constant(comptime!(number.value()))
}

/// A constant of a kernel. `f32::new` takes a float64 from CubeCL 0.12 on.
#[cube]
fn constant(#[comptime] value: f32) -> f32 {
    value.runtime()
}
