//! Recomputes the gates of a round from the states, for calls that did not keep them. All states are
//! known, so that no step waits for another one, and a tile may hold rows of several steps.

use super::{
    super::{
        Part, WriteLines,
        project::{InputProduct, Project, RoundRows},
        tile::GateRows,
    },
    Pass, Weights,
};
use crate::{
    product::{Prefetch, Rows},
    simd::{Gates, Lanes},
    threads::tiles,
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// What a call without kept gates needs in addition to its inputs.
pub(super) struct Recompute<'a, E> {
    pub(super) weights: Weights<'a, E>,
    /// The gates of each row of a round.
    pub(super) gates: Rows<'a, E>,
    /// The input product of a round, in the memory of the gradients that are computed afterwards.
    pub(super) p: InputProduct<'a, E>,
    /// With a mask: `m ⊙ h₋₁`.
    pub(super) g: Rows<'a, E>,
    /// Reset before the product: `r ⊙ g`.
    pub(super) rg: Rows<'a, E>,
}

/// Computes the gates of some rows of a round. No other thread reads or writes these rows before the next
/// barrier.
pub(super) struct RecomputeRows<'a, 'b, E> {
    pub(super) pass: &'a Pass<'b, E>,
    pub(super) recompute: &'a Recompute<'b, E>,
    pub(super) round: RoundRows<'b>,
    pub(super) rows: Range<usize>,
}

impl<E: Lanes> WithSimd for RecomputeRows<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Recompute { weights, p, .. } = self.recompute;
        self.mask_states();
        let tiles = tiles(self.rows.clone(), self.pass.machine.tile_rows);
        for panel in 0..weights.panels() {
            // One panel of `p` stays in the first-level cache until its tiles read it.
            Project {
                products: Rows::new(&mut [], 1),
                call: &self.pass.call,
                weights,
                round: self.round.clone(),
                rows: self.rows.clone(),
                panels: panel..panel + 1,
                p: *p,
            }
            .with_simd(simd);
            for tile in tiles.clone() {
                let part = Part {
                    tile,
                    panel,
                    next: panel,
                    index: 0,
                    count: 1,
                };
                // SAFETY: these rows belong to this thread, which has written their `p` and `g`.
                unsafe {
                    if self.pass.after {
                        self.tile_after(simd, part)
                    } else {
                        self.tile_before(simd, part)
                    }
                }
            }
        }
        for panel in 0..weights.candidates(self.pass.after) {
            for tile in tiles.clone() {
                // SAFETY: these rows belong to this thread, which has written their `r ⊙ g`.
                unsafe { self.tile_of_candidate(simd, tile, panel) };
            }
        }
    }
}

impl<E: Lanes> RecomputeRows<'_, '_, E> {
    /// `m ⊙ h₋₁` of all rows, if there is a mask.
    #[inline(always)]
    fn mask_states(&self) {
        let h = self.pass.call.sizes.h;
        let Some(mask) = self.pass.call.inputs.sequence.recurrent_mask else {
            return;
        };
        for row in self.rows.clone() {
            let n = self.round.place(row).0;
            // SAFETY: these rows belong to this thread.
            let g = unsafe { self.recompute.g.cells_mut(row, 0..h) };
            let sources = self.previous(row).iter().zip(&mask[n * h..]);
            for (g, (&state, &m)) in g.iter_mut().zip(sources) {
                *g = state * m;
            }
        }
    }

    /// The previous state of a row.
    #[inline(always)]
    fn previous(&self, row: usize) -> &[E] {
        let (n, s) = self.round.place(row);
        self.pass.previous(n, s)
    }
}

// SAFETY: states and the rows of `g` and `rg` have H elements.
unsafe impl<E: Lanes> GateRows<E> for RecomputeRows<'_, '_, E> {
    #[inline(always)]
    fn weights(&self) -> &Weights<'_, E> {
        &self.recompute.weights
    }

    #[inline(always)]
    fn gates(&self) -> &Gates<E> {
        &self.pass.gates
    }

    #[inline(always)]
    fn hidden(&self) -> usize {
        self.pass.call.sizes.h
    }

    #[inline(always)]
    fn p(&self) -> (InputProduct<'_, E>, usize) {
        (self.recompute.p, 0)
    }

    #[inline(always)]
    fn g(&self, row: usize) -> *const E {
        match self.pass.call.inputs.sequence.recurrent_mask {
            Some(_) => self.recompute.g.at(row),
            None => self.previous(row).as_ptr(),
        }
    }

    #[inline(always)]
    fn rg(&self, row: usize) -> *mut E {
        self.recompute.rg.at(row)
    }

    /// The weights are packed: gates are recomputed to save memory, which pays in long sequences.
    #[inline(always)]
    fn product(&self, _: usize) -> *const E {
        unreachable!("the weights are packed")
    }

    #[inline(always)]
    fn prefetch<'l>(&self, _: Part, _: usize, _: &'l mut WriteLines<E>) -> Prefetch<'l, E> {
        Prefetch::NOTHING
    }

    /// The states are known.
    #[inline(always)]
    unsafe fn new_state<S: Simd>(
        &self,
        _: S,
        _: [E::V<S>; 2],
        _: E::V<S>,
        _: usize,
        _: &Range<usize>,
    ) {
    }

    #[inline(always)]
    unsafe fn save<S: Simd>(
        &self,
        simd: S,
        row: usize,
        units: &Range<usize>,
        first: usize,
        gates: &[E::V<S>],
    ) {
        for (gate, &v) in (first..).zip(gates) {
            let start = gate * self.hidden() + units.start;
            // SAFETY: the caller owns these units.
            let to = unsafe {
                self.recompute
                    .gates
                    .cells_mut(row, start..start + units.len())
            };
            E::write(simd, to, v);
        }
    }
}
