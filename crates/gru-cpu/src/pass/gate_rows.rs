//! The rows of gate tiles, and what the tiles read and write.

use super::{
    Part, WriteLines, by_rows::RowMemory, plain_row::PlainStates, project::InputProduct,
    weights::ForwardWeights,
};
use crate::{
    product::{Prefetch, Rows, Strided},
    simd::{Gates, Lanes},
};
use core::ops::Range;
use pulp::Simd;

/// What gate tiles read and write, in all steps.
pub(super) struct GateCells<'a, E> {
    pub(super) weights: &'a ForwardWeights<'a, E>,
    pub(super) gates: &'a Gates<E>,
    pub(super) h: usize,
    /// Whether the reset gate acts after the product.
    pub(super) after: bool,
    pub(super) p: InputProduct<'a, E>,
    /// Reset before the product: `r ⊙ g` of each row.
    pub(super) rg: Rows<'a, E>,
    /// The recurrent product of each row, if it is written to memory.
    pub(super) memory: RowMemory<'a, E>,
}

/// The rows of gate tiles: one step of the forward pass, or rows of any steps whose gates are recomputed.
///
/// # Safety
/// `g` and `cells().rg` have H elements in rows that exist.
pub(super) unsafe trait GateRows<E: Lanes> {
    fn cells(&self) -> &GateCells<'_, E>;

    /// The row of the round that is row 0 here.
    fn first_row(&self) -> usize;

    /// Where each row's gates are stored, if this pass keeps them.
    fn saved(&self) -> Option<&Strided<'_, E>>;

    /// `g = m ⊙ h₋₁` of a row.
    fn g(&self, row: usize) -> *const E;

    /// The states of a row that is plain, in a pass that computes states.
    #[inline(always)]
    fn plain_states(&self, _row: usize) -> Option<PlainStates<E>> {
        None
    }

    /// What the recurrent product of a tile with so many vectors prefetches.
    #[inline(always)]
    fn prefetch<'l>(&self, _: Part, _: usize, _: &'l mut WriteLines<E>) -> Prefetch<'l, E> {
        Prefetch::NOTHING
    }

    /// Computes some units of a row's new state from `z`, `1 − z` and `n`, if this pass computes states.
    ///
    /// # Safety
    /// The previous state is complete, and these units are owned.
    #[inline(always)]
    unsafe fn new_state<S: Simd>(
        &self,
        _: S,
        _: [E::V<S>; 2],
        _: E::V<S>,
        _row: usize,
        _units: &Range<usize>,
    ) {
    }

    /// Stores gates of some units, from gate `first` on, if this pass keeps them.
    ///
    /// # Safety
    /// These units are owned.
    #[inline(always)]
    unsafe fn save<S: Simd>(
        &self,
        simd: S,
        row: usize,
        units: &Range<usize>,
        first: usize,
        gates: &[E::V<S>],
    ) {
        let Some(saved) = self.saved() else {
            return;
        };
        for (gate, &v) in (first..).zip(gates) {
            let start = gate * self.cells().h + units.start;
            // SAFETY: the caller owns these units, and a row has all gates.
            let to = unsafe { saved.cells_mut(row, &(start..start + units.len())) };
            E::write(simd, to, v);
        }
    }

    /// A row of the left side: `g`, or of the candidate's product `r ⊙ g`.
    #[inline(always)]
    fn lhs(&self, row: usize, of_candidate: bool) -> *const E {
        if of_candidate {
            self.cells().rg.at(row).cast_const()
        } else {
            self.g(row)
        }
    }
}
