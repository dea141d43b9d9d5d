//! Every activation on vectors, and its slope from its output: the vector form of
//! [`crate::activation`].

use super::{
    lanes::Lanes,
    math::ln_1p,
    rows::Rows,
    tile::{load, store},
};
use crate::spec::{Activation, GruSpec};
use pulp::{Simd, WithSimd};
use std::{marker::PhantomData, ops::Range};

/// One gate's function: the activation behind its optional clip.
#[derive(Clone, Copy)]
pub(super) struct Gate<E> {
    activation: Activation,
    clip: Option<f64>,
    /// The outputs at the two ends of the clip, lower first, made by the same instructions as the
    /// outputs that are compared with them.
    ends: Option<(E, E)>,
}

/// The three gates of a spec, in the packed order r, z, n.
pub(super) fn gates<E: Lanes + PartialOrd, S: Simd>(simd: S, spec: &GruSpec) -> [Gate<E>; 3] {
    let a = spec.activations;
    [a.reset, a.update, a.candidate].map(|activation| {
        let clip = spec.clip_gates;
        let ends = clip.map(|c| {
            let [a, b] = [-c, c].map(|c| {
                simd.vectorize(End {
                    activation,
                    c,
                    element: PhantomData,
                })
            });
            if a < b { (a, b) } else { (b, a) }
        });
        Gate {
            activation,
            clip,
            ends,
        }
    })
}

/// The output at one end of a clip.
struct End<E> {
    activation: Activation,
    c: f64,
    element: PhantomData<E>,
}

impl<E: Lanes> WithSimd for End<E> {
    type Output = E;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> E {
        first::<E, S>(value::<E, S>(simd, self.activation, E::real(simd, self.c)))
    }
}

/// A gate applied in place, to some columns of some rows.
pub(super) struct Apply<'a, E> {
    pub(super) gate: &'a Gate<E>,
    pub(super) rows: Rows<'a, E>,
    pub(super) range: Range<usize>,
    pub(super) columns: Range<usize>,
}

impl<E: Lanes> WithSimd for Apply<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for row in self.range {
            // SAFETY: whoever asks for this owns these cells.
            let cells = unsafe { self.rows.cells_mut(row, self.columns.clone()) };
            for cells in cells.chunks_mut(E::lanes::<S>()) {
                let v = self.gate.value(simd, load::<E, S>(simd, cells));
                store(simd, cells, v);
            }
        }
    }
}

#[inline(always)]
fn first<E: Lanes, S: Simd>(v: E::V<S>) -> E {
    // SAFETY: a vector begins with its first element.
    unsafe { (&raw const v).cast::<E>().read_unaligned() }
}

impl<E: Lanes> Gate<E> {
    /// `φ(clip(a))`.
    #[inline(always)]
    pub(super) fn value<S: Simd>(&self, simd: S, mut a: E::V<S>) -> E::V<S> {
        if let Some(c) = self.clip {
            a = clip::<E, S>(simd, a, c);
        }
        value::<E, S>(simd, self.activation, a)
    }

    /// `dφ/da` from the output `y = φ(clip(a))`; NaN where that is.
    #[inline(always)]
    pub(super) fn slope<S: Simd>(&self, simd: S, y: E::V<S>) -> E::V<S> {
        let mut slope = slope::<E, S>(simd, self.activation, y);
        if let Some((low, high)) = self.ends {
            let zero = E::real(simd, 0.0);
            slope = E::if_less(simd, (E::splat(simd, low), y), slope, zero);
            slope = E::if_less(simd, (y, E::splat(simd, high)), slope, zero);
        }
        // Comparisons alone would make it an honest number.
        E::nan_or(simd, y, slope)
    }
}

/// `a` bounded to `[−c, c]`.
#[inline(always)]
pub(super) fn clip<E: Lanes, S: Simd>(simd: S, a: E::V<S>, c: f64) -> E::V<S> {
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
        Activation::ScaledTanh { alpha, beta } => {
            let y = E::vsub(
                simd,
                real(alpha),
                E::vmul(simd, E::vmul(simd, y, y), real(1.0 / alpha)),
            );
            E::vmul(simd, real(beta), y)
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
    }
}
