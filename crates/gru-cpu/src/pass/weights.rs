//! The weights of the forward pass, and the input product.

use super::{by_rows::RowMatrix, matrices::LayerMatrices};
use crate::{
    call::{self, Call, LayerCall},
    product::{
        Buffer, Lhs, PanelShape, Panels, Prefetch, Product, ROWS, SumOrder, Sums, WeightRows, pack,
    },
    quantized::{Columns, Matrix},
    simd::{Lanes, Machine},
    spec::{Activations, Precision, Reset, Sizes},
    tuning::{CANDIDATE_VECTORS, PANELS_OF_A_CHAIN, ROW_GRANULE, pack_from},
};
use alloc::boxed::Box;
use core::ops::Range;
use pulp::{Simd, WithSimd};

/// The weights of a forward pass.
pub(super) struct ForwardWeights<'a, E> {
    pub(super) matrices: Matrices<'a, E>,
    /// Four vectors for each panel: the biases of the input product of r, z and n, and of the candidate's recurrent
    /// product.
    bias: Buffer<E>,
    /// Vectors of H units.
    panels: usize,
    /// Whether [`chain`](Self::chain) has single rows of this layer.
    pub(super) has_chains: bool,
}

/// How the products read the weights.
#[allow(clippy::large_enum_variant)] // A call has one of them.
pub(super) enum Matrices<'a, E> {
    /// In panels. The products are summed in registers, where the gates are computed.
    Packed(LayerMatrices<Panels<E>>),
    /// The products are written to memory, and the gates are computed from there.
    ByRows(LayerMatrices<RowMatrix<'a, E>>),
}

impl ForwardWeights<'_, f32> {
    /// Rounded to 16 or 8 bits.
    pub(super) fn quantized(
        machine: &Machine,
        layer: &LayerCall<'_, f32>,
        precision: Precision,
    ) -> Self {
        let h = layer.sizes.h;
        let matrices = LayerMatrices::new(layer, |elements, k, gates| {
            let columns = Columns {
                elements,
                stride: 3 * h,
                first: gates.start * h,
                count: gates.len() * h,
                k,
            };
            RowMatrix::Quantized(Box::new(Matrix::new(*machine, precision, columns)))
        });
        Self::new(machine, layer, Matrices::ByRows(matrices))
    }
}

impl<'a, E: Lanes> ForwardWeights<'a, E> {
    /// For one forward pass: packed, or read in place if the call reads them too rarely.
    pub(super) fn for_call(machine: &Machine, layer: &LayerCall<'a, E>) -> Self {
        let h = layer.sizes.h;
        if layer.sizes.places() >= pack_from(h) {
            return Self::packed(machine, layer);
        }
        let in_place = |weight, _, _| RowMatrix::InPlace(WeightRows::new(weight, h));
        let matrices = LayerMatrices::new(layer, in_place);
        Self::new(machine, layer, Matrices::ByRows(matrices))
    }

    pub(super) fn packed(machine: &Machine, layer: &LayerCall<'_, E>) -> Self {
        let (h, lanes) = (layer.sizes.h, machine.lanes);
        let mut matrices = LayerMatrices::new(layer, |_, k, gates| {
            let shape = match gates.start {
                0 => PanelShape::gates(k, h, lanes, gates),
                gate => PanelShape::units(k, h, lanes, CANDIDATE_VECTORS, gate * h),
            };
            Panels::new(3 * h, shape)
        });
        let all = matrices.with_weights(&layer.weights);
        pack(all.flat_map(|(panels, weight)| panels.unpacked(weight)));
        Self::new(machine, layer, Matrices::Packed(matrices))
    }

    fn new(machine: &Machine, layer: &LayerCall<'_, E>, matrices: Matrices<'a, E>) -> Self {
        let (h, lanes) = (layer.sizes.h, machine.lanes);
        let after = layer.spec.reset == Reset::AfterMatmul;
        let panels = h.div_ceil(lanes);
        Self {
            has_chains: matches!(matrices, Matrices::Packed(_)) && has_chains(layer, panels),
            matrices,
            bias: machine.arch.dispatch(Bias {
                h,
                after,
                weights: &layer.weights,
            }),
            panels,
        }
    }

    /// Panels of one vector of units.
    pub(super) fn panels(&self) -> usize {
        self.panels
    }

    /// Panels of the candidate's product.
    pub(super) fn candidates(&self, after: bool) -> usize {
        if after {
            0
        } else {
            self.panels.div_ceil(CANDIDATE_VECTORS)
        }
    }

    /// The parts into which threads may split the units. A quantized product writes all units of its rows.
    pub(super) fn parts(&self) -> usize {
        match &self.matrices {
            Matrices::ByRows(matrices) if matrices.state.quantized().is_some() => 1,
            _ => self.panels,
        }
    }

    /// Bytes of the prepared weights and biases.
    pub(super) fn bytes(&self) -> usize {
        let matrices: usize = match &self.matrices {
            Matrices::Packed(matrices) => matrices.iter().map(Panels::bytes).sum(),
            Matrices::ByRows(matrices) => {
                let quantized = matrices.iter().filter_map(RowMatrix::quantized);
                quantized.map(|matrix| matrix.bytes()).sum()
            }
        };
        matrices + size_of_val(self.bias.as_ref())
    }

    /// The matrices of packed weights.
    #[inline(always)]
    pub(super) fn in_panels(&self) -> &LayerMatrices<Panels<E>> {
        match &self.matrices {
            Matrices::Packed(matrices) => matrices,
            Matrices::ByRows(_) => unreachable!("these weights are packed"),
        }
    }

    /// The packed panels of the input weight and of the state's, and the biases.
    #[inline(always)]
    pub(super) fn slices(&self) -> [&[E]; 3] {
        let LayerMatrices { input, state, .. } = self.in_panels();
        let input = input.as_ref().map_or(&[][..], Panels::packed);
        [input, state.packed(), self.bias.as_ref()]
    }

    /// The four bias vectors of a panel.
    #[inline(always)]
    pub(super) fn bias<S: Simd>(&self, simd: S, panel: usize) -> [E::V<S>; 4] {
        let lanes = E::lanes::<S>();
        let bias = &self.bias.as_ref()[panel * 4 * lanes..][..4 * lanes];
        let mut vectors = [E::real(simd, 0.0); 4];
        for (vector, from) in vectors.iter_mut().zip(bias.chunks_exact(lanes)) {
            *vector = E::read(simd, from);
        }
        vectors
    }

    /// Computes the input product with biases of some rows: r, z and n of a panel. `x` are rows of I elements. If
    /// there is no input weight, they are rows of the product `[3H]`.
    ///
    /// # Safety
    /// The rows can be read, and no thread writes them.
    #[inline(always)]
    pub(super) unsafe fn project<S: Simd>(
        &self,
        simd: S,
        call: &Call<'_, E>,
        x: &[*const E; ROWS],
        panel: usize,
        sums: &mut Sums<E, S>,
    ) {
        let Sizes { i, h, .. } = *call.sizes;
        let [b_r, b_z, b_n, _] = self.bias(simd, panel);
        sums.iter_mut().for_each(|sums| *sums = [b_r, b_z, b_n]);
        let Matrices::Packed(LayerMatrices {
            input: Some(w_ih), ..
        }) = &self.matrices
        else {
            let units = super::units(panel..panel + 1, E::lanes::<S>(), h);
            for (sums, &x) in sums.iter_mut().zip(x) {
                // SAFETY: the caller promises a row of the product.
                unsafe { add_gates::<E, S>(simd, sums, x, 0, h, &units) };
            }
            return;
        };
        let product = Product {
            lhs: &Lhs::dense(*x),
            k: i,
            panel: w_ih.panel(panel),
            vectors: 3,
            // The rows of a small tile depend on the number of threads, so the order of their sums must
            // not. A call with very few rows runs on one thread and uses the fastest order.
            order: if call.sizes.places() < ROW_GRANULE {
                SumOrder::Free
            } else {
                SumOrder::Strict
            },
            prefetch: Prefetch::NOTHING,
        };
        // SAFETY: the caller promises rows of I elements, and the panel has I rows.
        unsafe { product.add_to(simd, sums) };
    }
}

/// Adds some units of a row `[3H]` to the sums of gates from `first` on.
///
/// # Safety
/// These units can be read, and no thread writes them.
#[inline(always)]
pub(super) unsafe fn add_gates<E: Lanes, S: Simd>(
    simd: S,
    sums: &mut [E::V<S>],
    row: *const E,
    first: usize,
    h: usize,
    units: &Range<usize>,
) {
    for (gate, sum) in (first..).zip(sums) {
        // SAFETY: the caller keeps this promise.
        let units = unsafe {
            let from = row.add(gate * h + units.start);
            core::slice::from_raw_parts(from, units.len())
        };
        *sum = E::vadd(simd, *sum, E::read(simd, units));
    }
}

/// See [`ForwardWeights::has_chains`].
fn has_chains<E: Lanes>(layer: &LayerCall<'_, E>, panels: usize) -> bool {
    let spec = &layer.spec;
    layer.weights.w_ih.is_some()
        && panels <= PANELS_OF_A_CHAIN
        && layer.sizes.h > 0
        && spec.reset == Reset::AfterMatmul
        && spec.activations == Activations::default()
        && spec.clip_gates.is_none()
        && spec.clip_state.is_none()
}

/// Makes [`ForwardWeights::bias`], of H units.
struct Bias<'a, E> {
    h: usize,
    after: bool,
    weights: &'a call::Weights<'a, E>,
}

impl<E: Lanes> WithSimd for Bias<'_, E> {
    type Output = Buffer<E>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Buffer<E> {
        let (h, lanes, zero) = (self.h, E::lanes::<S>(), E::real(simd, 0.0));
        let mut bias = Buffer::new(h.div_ceil(lanes) * 4 * lanes);
        let panels = bias.as_mut().chunks_exact_mut(4 * lanes).enumerate();
        for (panel, to) in panels {
            let units = super::units(panel..panel + 1, lanes, h);
            let mut sums = [zero; 4];
            // With reset-after, r multiplies b_hn too, so b_hn cannot be added to p.
            let candidate = if self.after { 3 } else { 2 };
            for (b, candidate) in [(self.weights.b_ih, 2), (self.weights.b_hh, candidate)] {
                let Some(b) = b else { continue };
                for (gate, slot) in [0, 1, candidate].into_iter().enumerate() {
                    let b = E::read(simd, &b[gate * h..][units.clone()]);
                    sums[slot] = E::vadd(simd, sums[slot], b);
                }
            }
            for (to, sums) in to.chunks_exact_mut(lanes).zip(sums) {
                E::write(simd, to, sums);
            }
        }
        bias
    }
}
