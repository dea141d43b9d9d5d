//! A [`GruSpec`] as compile-time constants of a kernel.
//!
//! Each rule compiles its own kernel. A rule must be hashable, so it stores floats as their bits.

use crate::kernel::activation::{Number, Phi};
use gru_spec::{Activation, Direction, GruSpec, Layout, Order, Reset, Update};

/// A pass through the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Pass {
    Forward,
    Backward,
}

/// The function of a gate: an optional clip, then the activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Gate {
    pub(crate) phi: Phi,
    /// Pre-activations are bounded to `[−clip, clip]`.
    pub(crate) clip: Option<Number>,
    /// Lower and upper end of the outputs. An output at or beyond an end came from a clipped
    /// pre-activation, so its derivative is zero.
    ///
    /// Each end is moved inwards by the rounding error of `φ` on the device: forward and backward kernels are compiled
    /// separately and may round `φ(clip)` differently. Then it is rounded as the stored outputs are. The margin is
    /// relative: at an end of 0, as for a ReLU, every output matters.
    pub(crate) ends: Option<(Number, Number)>,
}

impl Gate {
    /// `epsilon` is the distance from one to the next number of the type in which gates are stored.
    fn new(activation: Activation, clip: Option<f64>, epsilon: f64) -> Self {
        let ends = clip.map(|c| {
            let (a, b) = (activation.value(-c), activation.value(c));
            let (low, high) = (a.min(b), a.max(b));
            let margin = |end: f64| 16.0 * f64::from(f32::EPSILON) * end.abs();
            let stored = |end| Number::new(rounded(end, epsilon));
            (stored(low + margin(low)), stored(high - margin(high)))
        });
        Self {
            phi: Phi::new(activation),
            clip: clip.map(Number::new),
            ends,
        }
    }
}

/// The nearest number of a float type, which has `epsilon` as the distance from one to the next number.
fn rounded(number: f64, epsilon: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let step = epsilon * number.abs().log2().floor().exp2();
    (number / step).round_ties_even() * step
}

/// Shape of the zoneout tensor, which holds the share of the previous state that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ZoneoutKind {
    /// No zoneout.
    #[default]
    None,
    /// A share for each row and step, `[N,T]` or `[T,N]`.
    OfRow,
    /// A share for each row, step and hidden unit, `[N,T,H]` or `[T,N,H]`.
    OfUnit,
}

/// Starts of new sequences within a row of the batch.
///
/// With starts, the values of `step_mask` are codes. As without starts, 0 is a skipped step and 1 a valid step. 2 is
/// added if the row starts a new sequence before the step, in the order of computation. The row then forgets its
/// state and continues from its start state. Gradients do not cross a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Starts {
    /// No starts.
    #[default]
    None,
    /// Rows start with zeros.
    FromZeros,
    /// Rows start with a state of their own: rows N..2N of `h0`, which then is `[2N,H]`. Their gradient is rows N..2N
    /// of `d_h0`.
    FromState,
}

/// A recurrence as compile-time constants: H and everything of the [`GruSpec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    /// H.
    pub(crate) hidden: usize,
    /// The reset gate acts after the product.
    pub(crate) reset_after: bool,
    /// The update gate keeps the previous state.
    pub(crate) update_keeps: bool,
    pub(crate) r: Gate,
    pub(crate) z: Gate,
    pub(crate) n: Gate,
    /// The new state is bounded to `[−clip, clip]`.
    pub(crate) clip_state: Option<Number>,
    /// `[T,N,·]` instead of `[N,T,·]`.
    pub(crate) time_major: bool,
    /// Steps are computed from the last in time to the first.
    pub(crate) reverse: bool,
    pub(crate) zoneout: ZoneoutKind,
    pub(crate) starts: Starts,
    /// Buffers have 16 bits per value.
    pub(crate) narrow: bool,
}

impl Rule {
    /// `epsilon` is the rounding error of the type in which gates are stored. Arithmetic is always
    /// float32, so a clip may be as large as the largest float32.
    pub(crate) fn new(spec: &GruSpec, order: Order, hidden: usize, epsilon: f64) -> Self {
        let spec = &spec.for_numbers_up_to(f32::MAX.into());
        let gate = |activation| Gate::new(activation, spec.clip_gates, epsilon);
        Self {
            hidden,
            reset_after: spec.reset == Reset::AfterMatmul,
            update_keeps: spec.update == Update::Keeps,
            r: gate(spec.activations.reset),
            z: gate(spec.activations.update),
            n: gate(spec.activations.candidate),
            clip_state: spec.clip_state.map(Number::new),
            time_major: order.layout == Layout::TimeMajor,
            reverse: order.direction == Direction::Reverse,
            zoneout: ZoneoutKind::None,
            starts: Starts::None,
            narrow: epsilon > f64::from(f32::EPSILON),
        }
    }

    /// Columns of the saved gates, counted in H.
    pub(crate) fn saved(&self) -> usize {
        if self.reset_after { 4 } else { 3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_that_float32_does_not_hold_is_none() {
        let none = Activation::LeakyRelu { alpha: 0.0 };
        let activations = [Activation::Softsign, Activation::Sigmoid, none];
        let spec = GruSpec::default().with_activations(activations.into());
        let rule = |clip| {
            let spec = spec.with_clip_gates(clip).with_clip_state(clip);
            Rule::new(&spec, Order::default(), 3, f32::EPSILON.into())
        };
        for clip in [f64::INFINITY, f64::MAX, 1e39] {
            assert_eq!(rule(Some(clip)), rule(None), "{clip}");
        }
        // Beyond float16 is not beyond float32.
        let clipped = rule(Some(1e5));
        assert_eq!(clipped.clip_state, Some(Number::new(1e5)));
        assert_eq!(clipped.r.clip, Some(Number::new(1e5)));
        assert!(clipped.r.ends.is_some());
    }

    /// In every type, what `φ(clip)` may be stored as is clipped, and what is stored two numbers further inside is not.
    #[test]
    fn only_the_ends_of_a_clip_are_clipped() {
        let on_device = 4.0 * f64::from(f32::EPSILON);
        for epsilon in [2f64.powi(-23), 2f64.powi(-10), 2f64.powi(-7)] {
            for activation in [Activation::Tanh, Activation::Softsign, Activation::Identity] {
                for clip in [0.3, 1.0, 2.7, 3.0] {
                    let gate = Gate::new(activation, Some(clip), epsilon);
                    let (low, high) = gate.ends.expect("a clip has ends");
                    let [low, high] = [low, high].map(|end| f64::from(end.value()));
                    let end = activation.value(clip);
                    let name = format!("{activation:?}, clip {clip}, epsilon {epsilon}");
                    for error in [-on_device, 0.0, on_device] {
                        let stored = rounded(end * (1.0 + error), epsilon);
                        assert!(stored >= high, "{name}");
                        assert!(-stored <= low, "{name}");
                    }
                    let inside = rounded(end * (1.0 - 2.0 * epsilon - 16.0 * on_device), epsilon);
                    assert!(inside < high, "{name}");
                    assert!(-inside > low, "{name}");
                }
            }
        }
    }
}
