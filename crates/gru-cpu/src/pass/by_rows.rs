//! Products that are written to memory, for weights that are read in place and for quantized weights. The gates are computed
//! from there.

use super::matrices::LayerMatrices;
use crate::{
    product::{ROWS, Rows, WeightRows},
    quantized::{Energy, RowProduct},
    simd::Lanes,
    tuning::QUANTIZED_ROWS,
};
use alloc::boxed::Box;
use core::ops::Range;
use pulp::Simd;

/// A matrix whose products are written to memory.
pub(super) enum RowMatrix<'a, E> {
    InPlace(WeightRows<'a, E>),
    /// Only for float32.
    Quantized(Box<dyn RowProduct<E>>),
}

/// Where a thread, or a team, writes the products of some rows.
#[derive(Clone, Copy)]
pub(super) struct RowMemory<'a, E> {
    /// Rows `[3H]`, with padding.
    pub(super) products: Rows<'a, E>,
    /// Quantized weights: room for encoded rows, as one row.
    pub(super) encoded: Rows<'a, u32>,
}

impl<E: Lanes> LayerMatrices<RowMatrix<'_, E>> {
    /// The sizes of a [`RowMemory`] for one row: elements of its products, and words of the encoded row. Last the rows that
    /// are multiplied together.
    pub(super) fn memory(&self, h: usize) -> [usize; 3] {
        let all = || self.iter().filter_map(RowMatrix::quantized);
        // The candidate's product follows the products of r and z.
        let candidate = self.candidate.as_ref().and_then(RowMatrix::quantized);
        let candidate = candidate.map(|of| 2 * h + of.columns());
        let columns = all().map(|of| of.columns()).chain(candidate);
        [
            columns.fold(3 * h, usize::max),
            all().map(|of| of.row_words()).max().unwrap_or(0),
            self.state.rows_at_once(),
        ]
    }

    /// The rounding of `w_ih` and of `w_hh`, if they are quantized.
    pub(super) fn rounding(&self) -> Option<[Energy; 2]> {
        let energy = |of: Option<&RowMatrix<'_, E>>| Some(of?.quantized()?.energy());
        let [input, candidate] = [&self.input, &self.candidate].map(|of| energy(of.as_ref()));
        let state = energy(Some(&self.state))?.plus(candidate.unwrap_or_default());
        Some([input.unwrap_or_default(), state])
    }

    /// Sets some units of some rows to the recurrent products of the rows that `lhs` returns: `g`, or for the candidate
    /// `r ⊙ g`.
    ///
    /// # Safety
    /// As for [`RowMatrix::multiply`].
    #[inline(always)]
    pub(super) unsafe fn multiply_state<S: Simd>(
        &self,
        simd: S,
        (rows, lhs): (Range<usize>, impl Fn(usize) -> *const E),
        (after, of_candidate): (bool, bool),
        units: &Range<usize>,
        memory: &RowMemory<'_, E>,
    ) {
        let gates = match (after, of_candidate) {
            (true, _) => 0..3,
            (false, false) => 0..2,
            (false, true) => 2..3,
        };
        let matrix = match &self.candidate {
            Some(candidate) if of_candidate => candidate,
            _ => &self.state,
        };
        // SAFETY: the caller keeps the same promises.
        unsafe { matrix.multiply(simd, (rows, lhs), gates, units, memory) };
    }
}

impl<E: Lanes> RowMatrix<'_, E> {
    pub(super) fn quantized(&self) -> Option<&dyn RowProduct<E>> {
        match self {
            Self::InPlace(_) => None,
            Self::Quantized(matrix) => Some(&**matrix),
        }
    }

    /// Rows that are multiplied together. Quantized panels stay in the first-level cache meanwhile.
    pub(super) fn rows_at_once(&self) -> usize {
        match self {
            Self::InPlace(_) => ROWS,
            Self::Quantized(_) => QUANTIZED_ROWS,
        }
    }

    /// Sets some units of some gates of some rows of products to the products of the rows that `lhs` returns.
    ///
    /// # Safety
    /// The rows of `lhs` have K elements, which no thread writes. The memory has these rows, and these units of them
    /// belong to this thread: all units if the weights are quantized.
    #[inline(always)]
    pub(super) unsafe fn multiply<S: Simd>(
        &self,
        simd: S,
        (rows, lhs): (Range<usize>, impl Fn(usize) -> *const E),
        gates: Range<usize>,
        units: &Range<usize>,
        memory: &RowMemory<'_, E>,
    ) {
        let at_once = self.rows_at_once();
        for first in rows.clone().step_by(at_once) {
            let len = at_once.min(rows.end - first);
            let to = |at: usize| memory.products.at(first + at);
            match self {
                Self::InPlace(weight) => {
                    let (mut from, mut into) =
                        ([core::ptr::null(); ROWS], [core::ptr::null_mut(); ROWS]);
                    for at in 0..len {
                        (from[at], into[at]) = (lhs(first + at), to(at));
                    }
                    // SAFETY: the caller keeps the same promises.
                    unsafe {
                        weight.multiply_gates(simd, &from[..len], gates.clone(), units, &into)
                    };
                }
                Self::Quantized(matrix) => {
                    let to = to(0).wrapping_add(gates.start * units.len());
                    // SAFETY: the caller keeps the same promises, and only this thread encodes rows.
                    unsafe {
                        let encoded = memory.encoded.cells_mut(0, 0..memory.encoded.width());
                        let lhs = |at| lhs(first + at);
                        matrix.multiply(len, &lhs, encoded, to, memory.products.width());
                    }
                }
            }
        }
    }
}
