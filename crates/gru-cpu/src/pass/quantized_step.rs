//! One step of one row with quantized weights: two products and the gates, without a round and its tiles.

use super::{
    by_rows::RowMatrix,
    forward::Scratch,
    matrices::LayerMatrices,
    plain_row::{PlainRow, PlainStates},
    weights::{ForwardWeights, Matrices},
};
use crate::{
    simd::{Gates, Machine, way::COARSE},
    spec::Update,
};
use pulp::{Simd, WithSimd};

impl ForwardWeights<'_, f32> {
    /// Writes a new state. Returns whether it did: the weights are quantized, the reset gate acts after the product, and
    /// the activations are the default ones.
    ///
    /// # Panics
    /// If `x`, `old` and `new` are not I, H and H elements.
    pub(super) fn quantized_step(
        &self,
        (machine, gates, update): (&Machine, &Gates<f32>, Update),
        [x, old]: [&[f32]; 2],
        new: &mut [f32],
        scratch: &mut Scratch<f32>,
    ) -> bool {
        let Matrices::ByRows(LayerMatrices {
            input: Some(RowMatrix::Quantized(w_ih)),
            state: RowMatrix::Quantized(w_hh),
            candidate: None,
        }) = &self.matrices
        else {
            return false;
        };
        if !gates.are_default() {
            return false;
        }
        assert!(x.len() == w_ih.k() && old.len() == w_hh.k() && new.len() == w_hh.k());
        let ([p, q], encoded) = scratch.of_row();
        assert!(p.len() >= w_ih.columns() && q.len() >= w_hh.columns());
        // SAFETY: the rows have K elements, and the results have room for all columns.
        unsafe {
            w_ih.multiply(1, &|_| x.as_ptr(), encoded, p.as_mut_ptr(), 0);
            w_hh.multiply(1, &|_| old.as_ptr(), encoded, q.as_mut_ptr(), 0);
        }
        machine.arch.dispatch(AllPanels(PlainRow {
            weights: self,
            gates,
            h: new.len(),
            p: p.as_ptr(),
            q: q.as_ptr(),
            states: PlainStates {
                old: old.as_ptr(),
                new: new.as_mut_ptr(),
                update,
            },
        }));
        true
    }
}

/// All panels of a row. Its products are complete.
struct AllPanels<'a>(PlainRow<'a, f32>);

impl WithSimd for AllPanels<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let panels = 0..self.0.weights.panels();
        // SAFETY: `quantized_step` made the row of complete products and of states of H elements.
        unsafe { self.0.run::<S, COARSE>(simd, panels) };
    }
}
