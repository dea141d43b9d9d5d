//! The weights of the forward pass, and the input product.

use super::by_rows::{RowMatrices, RowMatrix};
use crate::{
    call::{self, Call},
    product::{
        Buffer, Lhs, Panels, Prefetch, Product, ROWS, Shape, SumOrder, Sums, WeightRows, pack,
    },
    quantized::{Columns, Energy, Matrix},
    simd::{Lanes, Machine},
    spec::{Precision, Reset, Sizes},
    tuning::{CANDIDATE_VECTORS, ROW_GRANULE, pack_from},
};
use pulp::Simd;
use std::ops::Range;

/// The weights of a forward pass.
pub(super) struct ForwardWeights<'a, E> {
    pub(super) matrices: Matrices<'a, E>,
    /// Four vectors for each panel: the biases of the input product of r, z and n, and of the candidate's recurrent
    /// product.
    bias: Buffer<E>,
    /// Vectors of H units.
    panels: usize,
}

/// How the products read the weights.
#[allow(clippy::large_enum_variant)] // A call has one of them.
pub(super) enum Matrices<'a, E> {
    /// In panels. The products are summed in registers, where the gates are computed.
    Packed(PackedMatrices<E>),
    /// The products are written to memory, and the gates are computed from there.
    ByRows(RowMatrices<'a, E>),
}

pub(super) struct PackedMatrices<E> {
    /// The input weight, all gates.
    pub(super) input: Option<Panels<E>>,
    /// Reset after the product: all gates. Before it: r and z.
    pub(super) state: Panels<E>,
    /// Reset before the product: n, which multiplies `r ⊙ g`.
    pub(super) candidate: Option<Panels<E>>,
}

impl ForwardWeights<'_, f32> {
    /// Rounded to 16 or 8 bits, with the rounding of `w_ih` and of `w_hh`.
    pub(super) fn quantized(
        machine: &Machine,
        call: &Call<'_, f32>,
        precision: Precision,
    ) -> (Self, [Energy; 2]) {
        let Sizes { i, h, .. } = *call.sizes;
        let after = call.spec.reset == Reset::AfterMatmul;
        let call::Weights { w_ih, w_hh, .. } = call.inputs.weights;
        let matrix = |elements, k, gates: Range<usize>| {
            let columns = Columns {
                elements,
                stride: 3 * h,
                first: gates.start * h,
                count: gates.len() * h,
                k,
            };
            Matrix::new(*machine, precision, columns)
        };
        let input = w_ih.map(|w_ih| matrix(w_ih, i, 0..3));
        let state = matrix(w_hh, h, if after { 0..3 } else { 0..2 });
        let candidate = (!after).then(|| matrix(w_hh, h, 2..3));
        let energy = |of: &Option<Matrix>| of.as_ref().map_or_else(Energy::default, |of| of.energy);
        let energies = [energy(&input), state.energy.plus(energy(&candidate))];
        let by_rows = |matrix: Matrix| RowMatrix::Quantized(Box::new(matrix));
        let matrices = Matrices::ByRows(RowMatrices {
            input: input.map(by_rows),
            state: by_rows(state),
            candidate: candidate.map(by_rows),
        });
        (Self::new(machine, call, matrices), energies)
    }
}

impl<'a, E: Lanes> ForwardWeights<'a, E> {
    /// For one forward pass: packed, or read in place if the call reads them too rarely.
    pub(super) fn for_call(machine: &Machine, call: &Call<'a, E>) -> Self {
        let h = call.sizes.h;
        if call.sizes.rows() >= pack_from(h) {
            return Self::packed(machine, call);
        }
        let weights = &call.inputs.weights;
        let in_place = |weight| RowMatrix::InPlace(WeightRows::new(weight, h));
        let matrices = Matrices::ByRows(RowMatrices {
            input: weights.w_ih.map(in_place),
            state: in_place(weights.w_hh),
            candidate: None,
        });
        Self::new(machine, call, matrices)
    }

    pub(super) fn packed(machine: &Machine, call: &Call<'_, E>) -> Self {
        let Sizes { i, h, .. } = *call.sizes;
        let lanes = machine.lanes;
        let after = call.spec.reset == Reset::AfterMatmul;
        let call::Weights { w_ih, w_hh, .. } = call.inputs.weights;
        let panels = |shape| Panels::new(3 * h, shape);
        let state_gates = if after { 0..3 } else { 0..2 };
        let mut input = w_ih.map(|_| panels(Shape::gates(i, h, lanes, 0..3)));
        let mut state = panels(Shape::gates(h, h, lanes, state_gates));
        let mut candidate =
            (!after).then(|| panels(Shape::units(h, h, lanes, CANDIDATE_VECTORS, 2 * h)));
        let of_input = input.iter_mut().zip(w_ih);
        let of_state = [Some(&mut state), candidate.as_mut()].into_iter().flatten();
        let all = of_input.chain(of_state.map(|panels| (panels, w_hh)));
        pack(all.flat_map(|(panels, weight)| panels.unpacked(weight)));
        let matrices = PackedMatrices {
            input,
            state,
            candidate,
        };
        Self::new(machine, call, Matrices::Packed(matrices))
    }

    fn new(machine: &Machine, call: &Call<'_, E>, matrices: Matrices<'a, E>) -> Self {
        let (h, lanes) = (call.sizes.h, machine.lanes);
        let after = call.spec.reset == Reset::AfterMatmul;
        Self {
            matrices,
            bias: bias(h, after, &call.inputs.weights, lanes),
            panels: h.div_ceil(lanes),
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
            Matrices::ByRows(matrices) if matrices.are_quantized() => 1,
            _ => self.panels,
        }
    }

    /// Bytes of the prepared weights and biases.
    pub(super) fn bytes(&self) -> usize {
        let matrices: usize = match &self.matrices {
            Matrices::Packed(PackedMatrices {
                input,
                state,
                candidate,
            }) => {
                let panels = [input.as_ref(), Some(state), candidate.as_ref()];
                panels.into_iter().flatten().map(Panels::bytes).sum()
            }
            Matrices::ByRows(matrices) => matrices.bytes(),
        };
        matrices + size_of_val(self.bias.as_ref())
    }

    /// The packed panels of the input weight and of the state's, and the biases.
    #[inline(always)]
    pub(super) fn slices(&self) -> [&[E]; 3] {
        let Matrices::Packed(PackedMatrices { input, state, .. }) = &self.matrices else {
            unreachable!("these weights are packed")
        };
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
    /// the weights are not packed or there is no input weight, they are rows of the product `[3H]`.
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
        let Matrices::Packed(PackedMatrices {
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
            order: if call.sizes.rows() < ROW_GRANULE {
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
            std::slice::from_raw_parts(from, units.len())
        };
        *sum = E::vadd(simd, *sum, E::read(simd, units));
    }
}

/// See [`ForwardWeights::bias`].
fn bias<E: Lanes>(
    h: usize,
    after: bool,
    weights: &call::Weights<'_, E>,
    lanes: usize,
) -> Buffer<E> {
    let (b_ih, b_hh) = (weights.b_ih, weights.b_hh);
    let mut bias = Buffer::new(h.div_ceil(lanes) * 4 * lanes);
    // With reset-after, r multiplies b_hn too, so b_hn cannot be added to p.
    for (b, candidate) in [(b_ih, 2), (b_hh, if after { 3 } else { 2 })] {
        let Some(b) = b else { continue };
        for (gate, slot) in [0, 1, candidate].into_iter().enumerate() {
            let panels = bias.as_mut().chunks_exact_mut(4 * lanes);
            for (to, b) in panels.zip(b[gate * h..][..h].chunks(lanes)) {
                let to = to[slot * lanes..].iter_mut();
                to.zip(b).for_each(|(to, &b)| *to = *to + b);
            }
        }
    }
    bias
}
