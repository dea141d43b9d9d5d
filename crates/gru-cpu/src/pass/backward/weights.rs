//! The transposed weights, and the products with them.

use super::{
    super::{matrices::LayerMatrices, units},
    gate_of_d,
};
use crate::{
    call::Call,
    product::{
        Blocks, PanelShape, Panels, Prefetch, Product, SumOrder, Sums, WIDTH, WeightRows, pack,
    },
    simd::{Lanes, Machine},
    spec::{Reset, Sizes},
    tuning::{PACK_BACK_FROM, VECTORS_BACK},
};
use core::ops::Range;
use pulp::Simd;

/// The right sides of the products over units.
pub(super) type Transposed<'a, E> = LayerMatrices<Rhs<'a, E>>;

/// The input weight is one of them if the input gradient is requested.
pub(super) fn transposed<'a, E: Lanes>(
    machine: &Machine,
    call: &Call<'a, E>,
    of_input: bool,
) -> Transposed<'a, E> {
    let Sizes { n, t, i, h } = *call.sizes;
    let weights = &call.inputs.weights;
    let tiles = |rows: usize| rows.div_ceil(machine.tile_rows);
    let rhs = |weight, gates, units, reads| Rhs::new(machine, weight, h, gates, units, reads);
    let (reads, after) = (t * tiles(n), call.spec.reset == Reset::AfterMatmul);
    let gates = if after {
        gate_of_d::DQ
    } else {
        gate_of_d::R_AND_Z
    };
    let w_ih = weights.w_ih.filter(|_| of_input);
    let mut matrices = LayerMatrices {
        input: w_ih.map(|w_ih| rhs(w_ih, gate_of_d::DP, i, tiles(t * n))),
        state: rhs(weights.w_hh, gates, h, reads),
        candidate: (!after).then(|| rhs(weights.w_hh, gate_of_d::CANDIDATE, h, reads)),
    };
    let all = matrices.with_weights(weights);
    let panels = all.filter_map(|(rhs, weight)| Some(rhs.panels()?.unpacked(weight)));
    pack(panels.flatten());
    matrices
}

/// A transposed weight.
pub(super) struct Rhs<'a, E> {
    /// The gates of `d` that it multiplies, which are adjacent, each with its gate in the weight.
    gates: &'static [(usize, usize)],
    /// Columns of the product.
    units: usize,
    weight: Weight<'a, E>,
}

enum Weight<'a, E> {
    /// Packed once in a call.
    Packed(Panels<E>),
    /// Read in place.
    InPlace(WeightRows<'a, E>),
}

impl<'a, E: Lanes> Rhs<'a, E> {
    /// For a weight that the call reads `reads` times.
    fn new(
        machine: &Machine,
        weight: &'a [E],
        h: usize,
        gates: &'static [(usize, usize)],
        units: usize,
        reads: usize,
    ) -> Self {
        let weight = if reads < PACK_BACK_FROM {
            Weight::InPlace(WeightRows::new(weight, h))
        } else {
            let (k, first) = (gates.len() * h, gates[0].1 * h);
            let shape = PanelShape::units(k, units, machine.lanes, VECTORS_BACK, first);
            Weight::Packed(Panels::transposed(3 * h, shape))
        };
        Self {
            gates,
            units,
            weight,
        }
    }

    fn panels(&mut self) -> Option<&mut Panels<E>> {
        match &mut self.weight {
            Weight::Packed(panels) => Some(panels),
            Weight::InPlace(_) => None,
        }
    }

    /// Panels of [`VECTORS_BACK`] vectors; the last may have fewer.
    pub(super) fn count(&self, lanes: usize) -> usize {
        self.units.div_ceil(VECTORS_BACK * lanes)
    }

    /// The units of a panel.
    #[inline(always)]
    pub(super) fn of_panel(&self, panel: usize, lanes: usize) -> Range<usize> {
        units(panel..panel + 1, VECTORS_BACK * lanes, self.units)
    }

    /// What a tile prefetches: its share of panel `next` if that is packed.
    #[inline(always)]
    pub(super) fn prefetch(
        &self,
        next: usize,
        share: (usize, usize),
        lanes: usize,
    ) -> Prefetch<'static, E> {
        match &self.weight {
            Weight::Packed(panels) => {
                let elements = panels.k() * VECTORS_BACK * lanes;
                Prefetch::next(panels.panel(next), elements, share)
            }
            Weight::InPlace(_) => Prefetch::NOTHING,
        }
    }

    /// Sets the sums to the product of rows of `d` from `row` on with a panel.
    ///
    /// # Safety
    /// The gates of these rows were written before the last barrier, and no thread writes them before the next one.
    #[inline(always)]
    pub(super) unsafe fn multiply<S: Simd>(
        &self,
        simd: S,
        (d, row): (&Blocks<'_, E>, usize),
        panel: usize,
        prefetch: Prefetch<'_, E>,
        sums: &mut Sums<E, S>,
    ) {
        match &self.weight {
            Weight::InPlace(rows) => {
                let units = self.of_panel(panel, E::lanes::<S>());
                // SAFETY: the caller keeps this promise.
                unsafe { rows.multiply_transposed(simd, (d, row), self.gates, units, sums) }
            }
            Weight::Packed(panels) => {
                let (k, panel) = (panels.k(), panels.panel(panel));
                // If H is a multiple of the block width, the gates are one run of blocks.
                let (count, k) = if (k / self.gates.len()).is_multiple_of(WIDTH) {
                    (1, k)
                } else {
                    (self.gates.len(), k / self.gates.len())
                };
                for at in 0..count {
                    let product = Product {
                        lhs: &d.lhs(self.gates[at].0, row),
                        k,
                        vectors: panel.count,
                        panel: panel.skip(at * k),
                        order: SumOrder::Free,
                        prefetch: if at == 0 { prefetch } else { Prefetch::NOTHING },
                    };
                    // SAFETY: `d` has these rows, which no thread writes, and the panel has a row for each of
                    // their elements.
                    unsafe { product.add_to_small(simd, sums) };
                }
            }
        }
    }
}
