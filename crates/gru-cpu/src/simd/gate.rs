//! Every activation on vectors, and its slope as a function of its output, for all instruction sets and both float
//! types. [`Activation`] defines them.

use super::{
    Lanes, Machine,
    math::{coarse_sigmoid, coarse_tanh, ln_1p},
};
use crate::spec::{Activation, Activations, GruSpec};
use pulp::{Simd, WithSimd};

/// The ways in which gates are computed, for const generics.
pub(crate) mod way {
    /// Any activations, as function calls.
    pub(crate) const CALLED: u8 = 0;
    /// σ, σ and tanh without a clip, inlined into the caller's loop.
    pub(crate) const DEFAULT: u8 = 1;
    /// As `DEFAULT`, with errors of r and n of at most 2⁻²⁰: for quantized weights. A small 1 − z decides how long a state
    /// lasts, so z is as precise as always.
    pub(crate) const COARSE: u8 = 2;
}

/// The three gates of a spec.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gates<E> {
    /// In the packed order r, z, n.
    gates: [Gate<E>; 3],
    is_default: bool,
}

impl<E: Lanes> Gates<E> {
    /// `spec` is for arithmetic in E.
    pub(crate) fn new(machine: &Machine, spec: &GruSpec) -> Self {
        let a = spec.activations;
        let clip = spec.clip_gates;
        let gates = a.into_array().map(|activation| {
            let gate = Gate {
                activation,
                clip,
                ends: None,
            };
            let ends = clip.map(|c| {
                let [a, b] = [-c, c].map(|c| machine.arch.dispatch(OneValue(gate, c)));
                if a < b { (a, b) } else { (b, a) }
            });
            Gate { ends, ..gate }
        });
        Self {
            gates,
            is_default: a == Activations::default() && clip.is_none(),
        }
    }

    /// Whether they are σ, σ and tanh without a clip.
    #[inline(always)]
    pub(crate) fn are_default(&self) -> bool {
        self.is_default
    }

    /// r from its pre-activation.
    #[inline(always)]
    pub(crate) fn reset<S: Simd, const WAY: u8>(&self, simd: S, a: E::V<S>) -> E::V<S> {
        match WAY {
            way::DEFAULT => E::vsigmoid(simd, a).0,
            way::COARSE => coarse_sigmoid::<E, S>(simd, a),
            _ => self.gates[0].called::<S, false>(simd, a),
        }
    }

    /// z and 1 − z from the pre-activation of z.
    #[inline(always)]
    pub(crate) fn update<S: Simd, const WAY: u8>(&self, simd: S, a: E::V<S>) -> [E::V<S>; 2] {
        let gate = &self.gates[1];
        if WAY != way::CALLED {
            E::vsigmoid(simd, a).into()
        } else if matches!(gate.activation, Activation::Sigmoid) {
            E::vsigmoid(simd, gate.clipped(simd, a)).into()
        } else {
            let z = gate.called::<S, false>(simd, a);
            [z, E::vsub(simd, E::real(simd, 1.0), z)]
        }
    }

    /// n from its pre-activation.
    #[inline(always)]
    pub(crate) fn candidate<S: Simd, const WAY: u8>(&self, simd: S, a: E::V<S>) -> E::V<S> {
        match WAY {
            way::DEFAULT => E::vtanh(simd, a),
            way::COARSE => coarse_tanh::<E, S>(simd, a),
            _ => self.gates[2].called::<S, false>(simd, a),
        }
    }

    /// The slope of gate r, z or n (0, 1, 2) from its output.
    #[inline(always)]
    pub(crate) fn slope<S: Simd, const WAY: u8>(
        &self,
        simd: S,
        gate: usize,
        y: E::V<S>,
    ) -> E::V<S> {
        let one = E::real(simd, 1.0);
        match gate {
            _ if WAY == way::CALLED => self.gates[gate].called::<S, true>(simd, y),
            2 => E::vsub(simd, one, E::vmul(simd, y, y)),
            _ => E::vmul(simd, y, E::vsub(simd, one, y)),
        }
    }
}

/// The function of one gate: an optional clip, then the activation.
#[derive(Debug, Clone, Copy)]
struct Gate<E> {
    activation: Activation,
    clip: Option<f64>,
    /// The outputs at the two ends of the clip, lower first. They come from the same instructions as the outputs
    /// that are compared with them.
    ends: Option<(E, E)>,
}

impl<E: Lanes> Gate<E> {
    #[inline(always)]
    fn clipped<S: Simd>(&self, simd: S, a: E::V<S>) -> E::V<S> {
        match self.clip {
            Some(c) => clip::<E, S>(simd, a, c),
            None => a,
        }
    }

    /// `φ(clip(a))`.
    #[inline(always)]
    fn value<S: Simd>(&self, simd: S, a: E::V<S>) -> E::V<S> {
        value::<E, S>(simd, self.activation, self.clipped(simd, a))
    }

    /// `dφ/da` from the output `y = φ(clip(a))`; NaN if `y` is NaN.
    #[inline(always)]
    fn slope<S: Simd>(&self, simd: S, y: E::V<S>) -> E::V<S> {
        let mut slope = slope::<E, S>(simd, self.activation, y);
        if let Some((low, high)) = self.ends {
            let zero = E::real(simd, 0.0);
            slope = E::if_less(simd, (E::splat(simd, low), y), slope, zero);
            slope = E::if_less(simd, (y, E::splat(simd, high)), slope, zero);
        }
        // Without this, the comparisons return a number for NaN.
        E::nan_or(simd, y, slope)
    }

    /// The value, or the slope, as a separate function: the code of all activations is long, and would be inlined into
    /// every caller.
    #[inline(always)]
    fn called<S: Simd, const SLOPE: bool>(&self, simd: S, v: E::V<S>) -> E::V<S> {
        let mut v = v;
        simd.vectorize(Called::<E, SLOPE>(self, (&raw mut v).cast()));
        v
    }
}

/// [`Gate::called`]: the pointer is to a vector of the same instruction set.
struct Called<'a, E, const SLOPE: bool>(&'a Gate<E>, *mut E);

impl<E: Lanes, const SLOPE: bool> WithSimd for Called<'_, E, SLOPE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // SAFETY: the pointer is to a vector of `S`, which only this function uses.
        let v = unsafe { &mut *self.1.cast::<E::V<S>>() };
        *v = if SLOPE {
            self.0.slope(simd, *v)
        } else {
            self.0.value(simd, *v)
        };
    }
}

/// The value of a gate at one number.
struct OneValue<E>(Gate<E>, f64);

impl<E: Lanes> WithSimd for OneValue<E> {
    type Output = E;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> E {
        E::first::<S>(self.0.called::<S, false>(simd, E::real(simd, self.1)))
    }
}

/// `a` bounded to `[−c, c]`.
#[inline(always)]
pub(crate) fn clip<E: Lanes, S: Simd>(simd: S, a: E::V<S>, c: f64) -> E::V<S> {
    let a = E::at_least(simd, a, E::real(simd, -c));
    E::at_most(simd, a, E::real(simd, c))
}

#[inline(always)]
fn value<E: Lanes, S: Simd>(simd: S, activation: Activation, a: E::V<S>) -> E::V<S> {
    let real = |v: f64| E::real(simd, v);
    let zero = real(0.0);
    match activation {
        Activation::Sigmoid => E::vsigmoid(simd, a).0,
        Activation::Tanh => E::vtanh(simd, a),
        Activation::Relu => E::at_least(simd, a, zero),
        Activation::HardSigmoid { alpha, beta } => {
            let line = E::vfma(simd, real(alpha), a, real(beta));
            E::at_most(simd, E::at_least(simd, line, zero), real(1.0))
        }
        Activation::Identity => a,
        Activation::Affine { alpha, beta } => E::vfma(simd, real(alpha), a, real(beta)),
        Activation::LeakyRelu { alpha } => {
            E::if_less(simd, (zero, a), a, E::vmul(simd, real(alpha), a))
        }
        Activation::ThresholdedRelu { alpha } => {
            E::nan_or(simd, a, E::if_less(simd, (real(alpha), a), a, zero))
        }
        Activation::ScaledTanh { alpha, beta } => {
            let y = E::vtanh(simd, E::vmul(simd, real(beta), a));
            E::vmul(simd, real(alpha), y)
        }
        Activation::Elu { alpha } => {
            let below = E::exp_m1_negative(simd, E::at_most(simd, a, zero));
            E::if_less(simd, (zero, a), a, E::vmul(simd, real(alpha), below))
        }
        Activation::Softsign => {
            let bottom = E::vadd(simd, real(1.0), E::vabs(simd, a));
            E::vdiv(simd, a, bottom)
        }
        Activation::Softplus => {
            let e = E::exp_negative(simd, E::vneg(simd, E::vabs(simd, a)));
            E::vadd(simd, E::at_least(simd, a, zero), ln_1p::<E, S>(simd, e))
        }
        other => other.unknown(),
    }
}

#[inline(always)]
fn slope<E: Lanes, S: Simd>(simd: S, activation: Activation, y: E::V<S>) -> E::V<S> {
    let real = |v: f64| E::real(simd, v);
    let (zero, one) = (real(0.0), real(1.0));
    match activation {
        Activation::Sigmoid => E::vmul(simd, y, E::vsub(simd, one, y)),
        Activation::Tanh => E::vsub(simd, one, E::vmul(simd, y, y)),
        Activation::Relu | Activation::ThresholdedRelu { .. } => {
            E::if_less(simd, (zero, y), one, zero)
        }
        Activation::HardSigmoid { alpha, .. } => {
            let inside = E::if_less(simd, (y, one), real(alpha), zero);
            E::if_less(simd, (zero, y), inside, zero)
        }
        Activation::Identity => one,
        Activation::Affine { alpha, .. } => real(alpha),
        Activation::LeakyRelu { alpha } => E::if_less(simd, (zero, y), one, real(alpha)),
        // αβ(1 − y²/α²), exactly 0 at ±α. The square of α may exceed the range of E.
        Activation::ScaledTanh { alpha, beta } => {
            let t = E::vdiv(simd, y, real(alpha));
            let product = E::vmul(simd, E::vsub(simd, one, t), E::vadd(simd, one, t));
            E::vmul(simd, product, real(alpha * beta))
        }
        Activation::Elu { alpha } => {
            E::if_less(simd, (zero, y), one, E::vadd(simd, y, real(alpha)))
        }
        Activation::Softsign => {
            let rest = E::vsub(simd, one, E::vabs(simd, y));
            E::vmul(simd, rest, rest)
        }
        // `1 − e^−y`; the output is never negative.
        Activation::Softplus => {
            let y = E::at_least(simd, y, zero);
            E::vneg(simd, E::exp_m1_negative(simd, E::vneg(simd, y)))
        }
        other => other.unknown(),
    }
}
