//! Products that are written to memory, for weights that are read in place and for quantized weights. The gates are computed
//! from there.

use crate::{
    product::{ROWS, Rows, WeightRows},
    quantized::RowProduct,
    simd::Lanes,
    tuning::QUANTIZED_ROWS,
};
use pulp::Simd;
use std::ops::Range;

pub(super) struct RowMatrices<'a, E> {
    /// The input weight, all gates.
    pub(super) input: Option<RowMatrix<'a, E>>,
    /// All gates if the weights are read in place. Otherwise as for packed matrices.
    pub(super) state: RowMatrix<'a, E>,
    /// Quantized weights with the reset before the product: n.
    pub(super) candidate: Option<RowMatrix<'a, E>>,
}

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

impl<E: Lanes> RowMatrices<'_, E> {
    pub(super) fn are_quantized(&self) -> bool {
        matches!(self.state, RowMatrix::Quantized(_))
    }

    /// All of them, each with its first gate.
    fn all(&self) -> impl Iterator<Item = (&RowMatrix<'_, E>, usize)> {
        let input = self.input.iter().map(|input| (input, 0));
        let candidate = self.candidate.iter().map(|candidate| (candidate, 2));
        input.chain([(&self.state, 0)]).chain(candidate)
    }

    /// Bytes of the weights, except for weights that are read in place.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |(matrix, _): (&RowMatrix<'_, E>, _)| match matrix {
            RowMatrix::InPlace(_) => 0,
            RowMatrix::Quantized(matrix) => matrix.bytes(),
        };
        self.all().map(bytes).sum()
    }

    /// The sizes of a [`RowMemory`] for one row: elements of its products, and words of the encoded row. Last the rows that
    /// are multiplied together.
    pub(super) fn memory(&self, h: usize) -> [usize; 3] {
        let sizes = |(matrix, first): (&RowMatrix<'_, E>, usize)| match matrix {
            RowMatrix::InPlace(_) => [3 * h, 0],
            RowMatrix::Quantized(matrix) => [first * h + matrix.columns(), matrix.row_words()],
        };
        let largest = |a: [usize; 2], b: [usize; 2]| [a[0].max(b[0]), a[1].max(b[1])];
        let [columns, words] = self.all().map(sizes).fold([0; 2], largest);
        [columns, words, self.state.rows_at_once()]
    }

    /// Sets some units of the first `count` rows to the recurrent products of the rows that `lhs` returns: `g`, or for the
    /// candidate `r ⊙ g`.
    ///
    /// # Safety
    /// As for [`RowMatrix::multiply`].
    #[inline(always)]
    pub(super) unsafe fn multiply_state<S: Simd>(
        &self,
        simd: S,
        (count, lhs): (usize, impl Fn(usize) -> *const E),
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
        unsafe { matrix.multiply(simd, (count, lhs), gates, units, memory) };
    }
}

impl<E> RowMemory<'_, E> {
    /// For packed weights.
    pub(super) const NONE: Self = Self {
        products: Rows::EMPTY,
        encoded: Rows::EMPTY,
    };
}

impl<E: Lanes> RowMatrix<'_, E> {
    /// Rows that are multiplied together. Quantized panels stay in the first-level cache meanwhile.
    pub(super) fn rows_at_once(&self) -> usize {
        match self {
            Self::InPlace(_) => ROWS,
            Self::Quantized(_) => QUANTIZED_ROWS,
        }
    }

    /// Sets some units of some gates of the first `count` rows of products to the products of the rows that `lhs` returns.
    ///
    /// # Safety
    /// The rows of `lhs` have K elements, which no thread writes. The memory has `count` rows, and these units of them
    /// belong to this thread: all units if the weights are quantized.
    #[inline(always)]
    pub(super) unsafe fn multiply<S: Simd>(
        &self,
        simd: S,
        (count, lhs): (usize, impl Fn(usize) -> *const E),
        gates: Range<usize>,
        units: &Range<usize>,
        memory: &RowMemory<'_, E>,
    ) {
        let at_once = self.rows_at_once();
        for first in (0..count).step_by(at_once) {
            let len = at_once.min(count - first);
            let mut from = [std::ptr::null(); QUANTIZED_ROWS];
            for (at, from) in from[..len].iter_mut().enumerate() {
                *from = lhs(first + at);
            }
            let from = &from[..len];
            match self {
                Self::InPlace(weight) => {
                    let mut to = [std::ptr::null_mut(); ROWS];
                    for (at, to) in to[..len].iter_mut().enumerate() {
                        *to = memory.products.at(first + at);
                    }
                    // SAFETY: the caller keeps the same promises.
                    unsafe { weight.multiply_gates(simd, from, gates.clone(), units, &to) };
                }
                Self::Quantized(matrix) => {
                    let (products, encoded) = (&memory.products, &memory.encoded);
                    let to = products.at(first).wrapping_add(gates.start * units.len());
                    // SAFETY: the caller keeps the same promises, and only this thread encodes rows.
                    unsafe {
                        let encoded = encoded.cells_mut(0, 0..encoded.width());
                        matrix.multiply(from, encoded, to, products.width());
                    }
                }
            }
        }
    }
}
