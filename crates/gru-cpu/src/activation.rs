//! Every activation and its derivative. The derivative is written from the output, so that
//! backward needs the saved gates only.

use crate::{
    element::{Element, real},
    spec::{Activation, GruSpec},
};
use num_traits::clamp;

/// One gate's function: the activation behind its optional clip.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate<E> {
    activation: Activation,
    clip: Option<E>,
    /// The outputs at the two ends of the clip, lower first: an output at or beyond one of them
    /// came from a clipped pre-activation, whose derivative is zero.
    ends: Option<(E, E)>,
}

/// The three gates of a spec, in the packed order r, z, n.
pub(crate) fn gates<E: Element>(spec: &GruSpec) -> [Gate<E>; 3] {
    let a = spec.activations;
    [a.reset, a.update, a.candidate].map(|activation| {
        let clip = spec.clip_gates.map(real::<E>);
        let ends = clip.map(|c| {
            let (a, b) = (value(activation, -c), value(activation, c));
            (a.min(b), a.max(b))
        });
        Gate {
            activation,
            clip,
            ends,
        }
    })
}

impl<E: Element> Gate<E> {
    /// `φ(clip(a))` for each element, in place.
    pub(crate) fn apply(&self, a: &mut [E]) {
        if let Some(c) = self.clip {
            a.iter_mut().for_each(|a| *a = clamp(*a, -c, c));
        }
        // The match stands outside the loop, so that each loop is one straight function.
        match self.activation {
            Activation::Sigmoid => a.iter_mut().for_each(|a| *a = sigmoid(*a)),
            Activation::Tanh => a.iter_mut().for_each(|a| *a = a.tanh()),
            activation => a.iter_mut().for_each(|a| *a = value(activation, *a)),
        }
    }

    /// `dφ/da` from the output `y = φ(clip(a))`; NaN where that is.
    pub(crate) fn slope(&self, y: E) -> E {
        match self.ends {
            // Comparisons alone would make it an honest number.
            _ if y.is_nan() => y,
            Some((low, high)) if y <= low || y >= high => E::zero(),
            _ => slope(self.activation, y),
        }
    }
}

/// `1 / (1 + e^−a)` without overflow at either end.
fn sigmoid<E: Element>(a: E) -> E {
    let e = (-a.abs()).exp();
    let s = E::one() / (E::one() + e);
    if a < E::zero() { e * s } else { s }
}

fn value<E: Element>(activation: Activation, a: E) -> E {
    let (zero, one) = (E::zero(), E::one());
    match activation {
        Activation::Sigmoid => sigmoid(a),
        Activation::Tanh => a.tanh(),
        Activation::Relu => at_least(a, zero),
        Activation::HardSigmoid { alpha, beta } => {
            clamp(real::<E>(alpha) * a + real(beta), zero, one)
        }
        Activation::Identity => a,
        Activation::Affine { alpha, beta } => real::<E>(alpha) * a + real(beta),
        Activation::LeakyRelu { .. } if a > zero => a,
        Activation::LeakyRelu { alpha } => real::<E>(alpha) * a,
        Activation::ThresholdedRelu { alpha } if a <= real(alpha) => zero,
        Activation::ThresholdedRelu { .. } => a,
        Activation::ScaledTanh { alpha, beta } => real::<E>(alpha) * (real::<E>(beta) * a).tanh(),
        Activation::Elu { .. } if a > zero => a,
        Activation::Elu { alpha } => real::<E>(alpha) * a.exp_m1(),
        Activation::Softsign => a / (one + a.abs()),
        Activation::Softplus => at_least(a, zero) + (-a.abs()).exp().ln_1p(),
    }
}

/// The larger of `a` and `bound`; NaN where `a` is.
fn at_least<E: Element>(a: E, bound: E) -> E {
    if a < bound { bound } else { a }
}

fn slope<E: Element>(activation: Activation, y: E) -> E {
    let (zero, one) = (E::zero(), E::one());
    let step = |inside: bool, alpha: f64| if inside { real(alpha) } else { zero };
    match activation {
        Activation::Sigmoid => y * (one - y),
        Activation::Tanh => one - y * y,
        Activation::Relu | Activation::ThresholdedRelu { .. } => step(y > zero, 1.0),
        Activation::HardSigmoid { alpha, .. } => step(y > zero && y < one, alpha),
        Activation::Identity => one,
        Activation::Affine { alpha, .. } => real(alpha),
        Activation::LeakyRelu { alpha } => real(if y > zero { 1.0 } else { alpha }),
        Activation::ScaledTanh { alpha, beta } => {
            real::<E>(beta) * (real::<E>(alpha) - y * y / real(alpha))
        }
        Activation::Elu { .. } if y > zero => one,
        Activation::Elu { alpha } => y + real(alpha),
        Activation::Softsign => (one - y.abs()) * (one - y.abs()),
        Activation::Softplus => -(-y).exp_m1(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Activation; 12] = [
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Relu,
        Activation::HardSigmoid {
            alpha: 0.3,
            beta: 0.45,
        },
        Activation::Identity,
        Activation::Affine {
            alpha: -0.8,
            beta: 0.1,
        },
        Activation::LeakyRelu { alpha: 0.2 },
        Activation::ThresholdedRelu { alpha: 0.3 },
        Activation::ScaledTanh {
            alpha: -0.9,
            beta: 1.1,
        },
        Activation::Elu { alpha: 0.7 },
        Activation::Softsign,
        Activation::Softplus,
    ];

    #[test]
    fn slopes_agree_with_central_differences_away_from_kinks() {
        let kinks = [-1.5, 0.0, 0.3, 11.0 / 6.0];
        for activation in ALL {
            for k in -40..=40 {
                let a = k as f64 * 0.11 + 0.013;
                if kinks.iter().any(|kink| (a - kink).abs() < 1e-3) {
                    continue;
                }
                let d = 1e-5;
                let numeric = (value(activation, a + d) - value(activation, a - d)) / (2.0 * d);
                let written = slope(activation, value(activation, a));
                assert!(
                    (numeric - written).abs() < 1e-8,
                    "{activation:?} at {a}: {numeric} against {written}"
                );
            }
        }
    }

    #[test]
    fn a_clipped_pre_activation_has_no_slope() {
        for activation in ALL {
            let spec = GruSpec {
                clip_gates: Some(0.5),
                ..GruSpec::default()
            }
            .with_activations(crate::spec::Activations {
                reset: activation,
                ..Default::default()
            });
            let [gate, ..] = gates::<f64>(&spec);
            for a in [-0.7, 0.7] {
                let mut y = [a];
                gate.apply(&mut y);
                assert_eq!(
                    y[0],
                    value(activation, a.clamp(-0.5, 0.5)),
                    "{activation:?}"
                );
                assert_eq!(gate.slope(y[0]), 0.0, "{activation:?} at {a}");
            }
        }
    }

    #[test]
    fn values_agree_with_the_definition() {
        for activation in ALL {
            for k in -40..=40 {
                let a = k as f64 * 0.17 + 0.011;
                let (got, expected) = (value(activation, a), activation.value(a));
                assert!((got - expected).abs() < 1e-14, "{activation:?} at {a}");
            }
        }
    }

    #[test]
    fn large_pre_activations_stay_finite() {
        for activation in ALL {
            for a in [-1e4f32, 1e4] {
                let y = value(activation, a);
                assert!(y.is_finite(), "{activation:?} at {a} gives {y}");
                assert!(slope(activation, y).is_finite(), "{activation:?} at {a}");
            }
        }
    }
}
