//! The gates of the plain passes, by the definitions of [`Activation`] in float64.

use super::real;
use crate::spec::{Activation, GruSpec};
use num_traits::Float;

/// One gate's function: the activation behind its optional clip.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gate {
    activation: Activation,
    clip: Option<f64>,
}

/// The three gates of a spec, in the packed order r, z, n.
pub(super) fn gates(spec: &GruSpec) -> [Gate; 3] {
    let a = spec.activations;
    let clip = spec.clip_gates;
    [a.reset, a.update, a.candidate].map(|activation| Gate { activation, clip })
}

impl Gate {
    /// `φ(clip(a))` for each element, in place.
    pub(super) fn apply<E: Float>(&self, a: &mut [E]) {
        a.iter_mut().for_each(|a| *a = self.value(*a));
    }

    fn value<E: Float>(&self, a: E) -> E {
        let a = wide(a);
        let a = self.clip.map_or(a, |c| a.clamp(-c, c));
        real(self.activation.value(a))
    }

    /// `dφ/da` from the output `y = φ(clip(a))`; NaN where that is.
    pub(super) fn slope<E: Float>(&self, y: E) -> E {
        // At or beyond the outputs of the clip's ends the pre-activation was clipped.
        let is_clipped = self.clip.is_some_and(|c| {
            let (a, b) = (self.value(real::<E>(-c)), self.value(real::<E>(c)));
            y <= a.min(b) || y >= a.max(b)
        });
        match is_clipped {
            true => E::zero(),
            false => real(self.activation.slope(wide(y))),
        }
    }
}

fn wide<E: Float>(v: E) -> f64 {
    v.to_f64().expect("every float type converts to f64")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Activations;

    #[test]
    fn a_clipped_pre_activation_has_no_slope() {
        for activation in Activation::ALL {
            let activations = Activations {
                reset: activation,
                ..Activations::default()
            };
            let spec = GruSpec::default()
                .with_clip_gates(Some(0.5))
                .with_activations(activations);
            let [gate, ..] = gates(&spec);
            for a in [-0.7, 0.7] {
                let mut y = [a];
                gate.apply(&mut y);
                assert_eq!(y[0], activation.value(a.clamp(-0.5, 0.5)), "{activation:?}");
                assert_eq!(gate.slope(y[0]), 0.0, "{activation:?} at {a}");
            }
        }
    }
}
