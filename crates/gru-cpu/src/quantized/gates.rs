//! From the pre-activations of a row to its new state.

use crate::{
    simd::{Gates, Lanes, clip},
    spec::{GruSpec, Update},
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

type V<S> = <f32 as Lanes>::V<S>;

/// What all rows share.
#[derive(Clone, Copy)]
pub(super) struct Cell<'a> {
    pub(super) spec: &'a GruSpec,
    pub(super) gates: &'a Gates<f32>,
    /// `[4H]`: r, z and n of the input product, and n of the recurrent product.
    pub(super) bias: &'a [f32],
    pub(super) h: usize,
    /// The share of the previous state that is kept.
    pub(super) zoneout: f32,
}

impl Cell<'_> {
    #[inline(always)]
    fn units<S: Simd>(self) -> impl Iterator<Item = Range<usize>> {
        let lanes = f32::lanes::<S>();
        (0..self.h)
            .step_by(lanes)
            .map(move |first| first..self.h.min(first + lanes))
    }

    /// Some units of a gate's slot.
    #[inline(always)]
    fn read<S: Simd>(self, simd: S, from: &[f32], slot: usize, units: &Range<usize>) -> V<S> {
        f32::read(simd, &from[slot * self.h..][units.clone()])
    }

    /// `p + q + b` of a gate.
    #[inline(always)]
    fn sum<S: Simd>(
        self,
        simd: S,
        [p, q]: [&[f32]; 2],
        [of_q, slot]: [usize; 2],
        units: &Range<usize>,
    ) -> V<S> {
        let sum = f32::vadd(
            simd,
            self.read(simd, p, slot, units),
            self.read(simd, q, of_q, units),
        );
        f32::vadd(simd, sum, self.read(simd, self.bias, slot, units))
    }

    /// Replaces some units of the state. The blend is [`forward`](crate::pass::forward)'s.
    #[inline(always)]
    fn replace<S: Simd>(
        self,
        simd: S,
        [z, rest, n]: [V<S>; 3],
        h: &mut [f32],
        units: &Range<usize>,
    ) {
        let h = &mut h[units.clone()];
        let old = f32::read(simd, h);
        let mut new = match self.spec.update {
            Update::Keeps => f32::vfma(simd, z, old, f32::vmul(simd, rest, n)),
            Update::Takes => f32::vfma(simd, z, n, f32::vmul(simd, rest, old)),
        };
        if let Some(c) = self.spec.clip_state {
            new = clip::<f32, S>(simd, new, c);
        }
        if self.zoneout > 0.0 {
            let kept = f32::splat(simd, self.zoneout);
            let taken = f32::vsub(simd, f32::real(simd, 1.0), kept);
            new = f32::vfma(simd, new, taken, f32::vmul(simd, old, kept));
        }
        f32::write(simd, h, f32::without_subnormals(simd, new));
    }
}

/// What is computed for a row.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    /// The new state, the reset gate acting after the product.
    After,
    /// The first half, the reset gate acting before the product: `r ⊙ h`, and z and 1 − z in place of the input
    /// products of r and z.
    Before,
    /// The second half: the new state, from z and 1 − z in `p`, and the product of `r ⊙ h` in `q`.
    Candidate,
}

/// A stage of a row.
pub(super) struct GateRow<'a> {
    pub(super) cell: Cell<'a>,
    pub(super) stage: Stage,
    pub(super) p: &'a mut [f32],
    pub(super) q: &'a [f32],
    pub(super) h: &'a mut [f32],
    /// [`Stage::Before`] writes it.
    pub(super) rh: &'a mut [f32],
}

impl GateRow<'_> {
    #[inline(always)]
    fn run<S: Simd, const DEFAULT: bool>(self, simd: S) {
        let Self {
            cell,
            stage,
            p,
            q,
            h,
            rh,
        } = self;
        for units in cell.units::<S>() {
            let sum = |slot| cell.sum(simd, [p, q], [slot, slot], &units);
            let [z, rest, a] = match stage {
                Stage::Candidate => {
                    let [z, rest] = [0, 1].map(|slot| cell.read(simd, p, slot, &units));
                    [z, rest, cell.sum(simd, [p, q], [0, 2], &units)]
                }
                Stage::After | Stage::Before => {
                    let r = cell.gates.reset::<S, DEFAULT>(simd, sum(0));
                    let [z, rest] = cell.gates.update::<S, DEFAULT>(simd, sum(1));
                    if let Stage::Before = stage {
                        f32::write(simd, &mut p[units.clone()], z);
                        f32::write(simd, &mut p[cell.h..][units.clone()], rest);
                        let old = f32::read(simd, &h[units.clone()]);
                        f32::write(simd, &mut rh[units], f32::vmul(simd, r, old));
                        continue;
                    }
                    let bias = |slot| cell.read(simd, cell.bias, slot, &units);
                    let p_n = f32::vadd(simd, cell.read(simd, p, 2, &units), bias(2));
                    let q_n = f32::vadd(simd, cell.read(simd, q, 2, &units), bias(3));
                    [z, rest, f32::vfma(simd, r, q_n, p_n)]
                }
            };
            let n = cell.gates.candidate::<S, DEFAULT>(simd, a);
            cell.replace(simd, [z, rest, n], h, &units);
        }
    }
}

impl WithSimd for GateRow<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.cell.gates.are_default() {
            self.run::<S, true>(simd)
        } else {
            self.run::<S, false>(simd)
        }
    }
}
