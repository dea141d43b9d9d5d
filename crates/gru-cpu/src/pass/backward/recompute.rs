//! Recomputes the gates of a round from the states, for calls that did not keep them. All states are
//! known, so that no step waits for another one, and a tile may hold rows of several steps.

use super::{
    super::{
        Part,
        gate_rows::{GateCells, GateRows},
        project::{Project, RoundRows},
        tile::GateTiles,
    },
    Pass,
};
use crate::{
    product::{Rows, Strided},
    simd::Lanes,
    threads::tiles,
};
use core::ops::Range;
use pulp::Simd;

/// What a call without kept gates needs in addition to its inputs. The input product of a round is in the memory of the
/// gradients that are computed afterwards.
pub(super) struct Recompute<'a, E> {
    pub(super) cells: GateCells<'a, E>,
    /// The gates of each row of a round.
    pub(super) gates: Rows<'a, E>,
    /// With a mask: `m ⊙ h₋₁`.
    pub(super) g: Rows<'a, E>,
}

/// Computes the gates of some rows of a round. No other thread reads or writes these rows before the next
/// barrier.
pub(super) struct RecomputeRows<'a, 'b, E> {
    pub(super) pass: &'a Pass<'b, E>,
    pub(super) recompute: &'a Recompute<'b, E>,
    pub(super) round: RoundRows<'b>,
    pub(super) rows: Range<usize>,
    /// The gates that this writes, from the round's first row on.
    pub(super) saved: Strided<'b, E>,
}

impl<E: Lanes> RecomputeRows<'_, '_, E> {
    #[inline(always)]
    pub(super) fn run<S: Simd>(&self, simd: S) {
        let GateCells {
            weights,
            after,
            p,
            memory,
            ..
        } = self.recompute.cells;
        self.mask_states();
        let tiles = tiles(self.rows.clone(), self.pass.machine.tile_rows);
        for panel in 0..weights.panels() {
            // One panel of `p` stays in the first-level cache until its tiles read it.
            Project {
                call: &self.pass.call,
                weights,
                round: self.round.clone(),
                rows: self.rows.clone(),
                panels: panel..panel + 1,
                p,
                memory,
            }
            .run(simd);
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
                    if after {
                        self.tile_after(simd, part)
                    } else {
                        self.tile_before(simd, part)
                    }
                }
            }
        }
        for panel in 0..weights.candidates(after) {
            for tile in tiles.clone() {
                // SAFETY: these rows belong to this thread, which has written their `r ⊙ g`.
                unsafe { self.tile_of_candidate(simd, tile, panel) };
            }
        }
    }

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
    fn cells(&self) -> &GateCells<'_, E> {
        &self.recompute.cells
    }

    #[inline(always)]
    fn first_row(&self) -> usize {
        0
    }

    #[inline(always)]
    fn saved(&self) -> Option<&Strided<'_, E>> {
        Some(&self.saved)
    }

    #[inline(always)]
    fn g(&self, row: usize) -> *const E {
        match self.pass.call.inputs.sequence.recurrent_mask {
            Some(_) => self.recompute.g.at(row),
            None => self.previous(row).as_ptr(),
        }
    }
}
