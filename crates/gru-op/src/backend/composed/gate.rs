//! Activations and their derivatives in Burn's operations.

use crate::backend::composed::prim::Prim;
use burn::{backend::Backend, tensor::DType};
use gru_spec::{Activation, GruSpec};

/// The function of one gate: an optional clip, then the activation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate {
    activation: Activation,
    clip: Option<f64>,
}

/// The gates r, z, n of a spec whose clips fit the element type.
pub(crate) fn gates(spec: &GruSpec) -> [Gate; 3] {
    spec.activations.into_array().map(|activation| Gate {
        activation,
        clip: spec.clip_gates,
    })
}

impl Gate {
    /// `φ(clip(a))`. NaN stays NaN.
    pub(crate) fn apply<B: Backend>(&self, a: Prim<B>) -> Prim<B> {
        let clipped = match self.clip {
            Some(c) => a.clamp(-c, c),
            None => a,
        };
        value(self.activation, clipped)
    }

    /// `dφ/da` from the output `y = φ(clip(a))`. NaN stays NaN.
    ///
    /// An output at an end of the clip's range is from a clipped pre-activation, whose derivative is zero. A
    /// backend may round one value differently in different places of a tensor. So outputs within a few
    /// units in the last place of an end count as clipped.
    pub(crate) fn slope<B: Backend>(&self, y: Prim<B>) -> Prim<B> {
        let slope = slope(self.activation, y.clone());
        let slope = match self.clip {
            None => slope,
            Some(c) => {
                let ends = [-c, c].map(|c| self.activation.value(c));
                let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
                let margin = |end: f64| 4.0 * epsilon(y.dtype()) * end.abs();
                let beyond = y.at_most(low + margin(low));
                slope.zeroed(beyond.or(y.at_least(high - margin(high))))
            }
        };
        slope.replaced(y.is_nan(), y)
    }
}

/// The largest finite number.
pub(crate) fn largest(dtype: DType) -> f64 {
    dtype.finfo().map_or(f32::MAX.into(), |info| info.max)
}

/// The distance from one to the next number.
fn epsilon(dtype: DType) -> f64 {
    dtype
        .finfo()
        .map_or(f32::EPSILON.into(), |info| info.epsilon)
}

fn value<B: Backend>(activation: Activation, a: Prim<B>) -> Prim<B> {
    match activation {
        Activation::Sigmoid => a.sigmoid(),
        Activation::Tanh => a.tanh(),
        Activation::Relu => a.relu(),
        Activation::HardSigmoid { alpha, beta } => a.times(alpha).plus(beta).clamp(0.0, 1.0),
        Activation::Identity => a,
        Activation::Affine { alpha, beta } => a.times(alpha).plus(beta),
        Activation::LeakyRelu { alpha } => {
            let negative = a.clone().times(-1.0).relu();
            a.relu() - negative.times(alpha)
        }
        Activation::ThresholdedRelu { alpha } => {
            let below = a.at_most(alpha);
            a.zeroed(below)
        }
        Activation::ScaledTanh { alpha, beta } => a.times(beta).tanh().times(alpha),
        Activation::Elu { alpha } => {
            // The argument of exp is not positive, so exp does not overflow.
            let negative = a.clone().times(-1.0).relu().times(-1.0);
            a.relu() + negative.exp().plus(-1.0).times(alpha)
        }
        Activation::Softsign => a.clone() / a.abs().plus(1.0),
        Activation::Softplus => a.clone().relu() + a.abs().times(-1.0).exp().log1p(),
        other => other.unknown(),
    }
}

fn slope<B: Backend>(activation: Activation, y: Prim<B>) -> Prim<B> {
    let filled = |value: f64| Prim::filled(value, &y);
    match activation {
        Activation::Sigmoid => y.clone() * y.complement(),
        Activation::Tanh => (y.clone() * y).complement(),
        Activation::Relu | Activation::ThresholdedRelu { .. } => {
            filled(0.0).with_value(y.above(0.0), 1.0)
        }
        Activation::HardSigmoid { alpha, .. } => {
            let outside = y.at_most(0.0).or(y.at_least(1.0));
            filled(alpha).zeroed(outside)
        }
        Activation::Identity => filled(1.0),
        Activation::Affine { alpha, .. } => filled(alpha),
        Activation::LeakyRelu { alpha } => filled(alpha).with_value(y.above(0.0), 1.0),
        Activation::ScaledTanh { alpha, beta } => {
            // β(α − y²/α), exactly 0 at ±α.
            let low = y.clone().times(-1.0).plus(alpha);
            (low * y.plus(alpha)).times(beta / alpha)
        }
        Activation::Elu { alpha } => {
            let positive = y.above(0.0);
            y.plus(alpha).with_value(positive, 1.0)
        }
        Activation::Softsign => {
            let c = y.abs().complement();
            c.clone() * c
        }
        Activation::Softplus => y.times(-1.0).exp().complement(),
        other => other.unknown(),
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::tensor::TensorData;
    use burn_flex::Flex;
    use gru_testkit::activations::ACTIVATIONS;

    /// Every activation, and parameters that make the slope zero below zero.
    fn all() -> impl Iterator<Item = Activation> {
        let edges = [
            Activation::LeakyRelu { alpha: 0.0 },
            Activation::Elu { alpha: 0.0 },
        ];
        ACTIVATIONS.into_iter().chain(edges)
    }

    fn prim(numbers: &[f64]) -> Prim<Flex> {
        Prim(burn_flex::FlexTensor::from_data(TensorData::from(numbers)))
    }

    fn numbers(prim: Prim<Flex>) -> Vec<f64> {
        prim.0.into_data().try_into_vec().unwrap()
    }

    #[test]
    fn nan_stays_nan_and_infinities_follow_the_definition() {
        let a = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -2.0, -0.0, 0.5];
        for activation in all() {
            for clip in [None, Some(0.75)] {
                let gate = Gate { activation, clip };
                let y = numbers(gate.apply(prim(&a)));
                let slopes = numbers(gate.slope(prim(&y)));
                for ((&a, y), slope) in a.iter().zip(y).zip(slopes) {
                    let bounded = clip.map_or(a, |c| a.clamp(-c, c));
                    let expected = if a.is_nan() {
                        a
                    } else {
                        activation.value(bounded)
                    };
                    let is_same = y == expected
                        || y.is_nan() && expected.is_nan()
                        || (y - expected).abs() < 1e-12;
                    assert!(
                        is_same,
                        "{activation:?} {clip:?} at {a}: {y}, not {expected}"
                    );
                    assert_eq!(slope.is_nan(), y.is_nan(), "{activation:?} {clip:?} at {a}");
                }
            }
        }
    }

    #[test]
    fn slopes_at_zero_are_the_slopes_below_zero() {
        let (alpha, clip) = (0.2, None);
        for activation in [Activation::LeakyRelu { alpha }, Activation::Elu { alpha }] {
            let slopes = Gate { activation, clip }.slope(prim(&[-0.0, 0.0, 1e-300]));
            assert_eq!(numbers(slopes), [alpha, alpha, 1.0], "{activation:?}");
        }
    }
}
