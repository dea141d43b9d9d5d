//! The gates of a round made anew from the states: what the lean mode does instead of keeping them.
//! All states are known, so no step waits for another, and rows of any steps share a tile.

use super::{super::units, Pass, Weights};
use crate::{
    product::{Ahead, Left, Order, Panel, Panels, Product, ROWS, Rows, Sums},
    simd::Lanes,
    threads::tiles,
    tuning::CANDIDATE_VECTORS,
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// What making the gates anew needs beside the inputs.
pub(super) struct Replay<'a, E> {
    pub(super) weights: Weights<'a, E>,
    /// The gates, for each row of a round.
    pub(super) gates: Rows<'a, E>,
    /// With a mask: `m ⊙ h₋₁`.
    pub(super) g: Rows<'a, E>,
    /// Reset before the product: `r ⊙ g`.
    pub(super) rg: Rows<'a, E>,
}

/// Makes the gates of some rows of a round.
pub(super) struct Replayed<'a, 'b, E> {
    pub(super) pass: &'a Pass<'b, E>,
    pub(super) replay: &'a Replay<'b, E>,
    /// First step of the round.
    pub(super) first: usize,
    /// This thread's own until the threads meet.
    pub(super) rows: Range<usize>,
}

impl<E: Lanes> WithSimd for Replayed<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.pass.gates.are_usual() {
            self.run::<S, true>(simd)
        } else {
            self.run::<S, false>(simd)
        }
    }
}

impl<E: Lanes> Replayed<'_, '_, E> {
    #[inline(always)]
    fn run<S: Simd, const USUAL: bool>(&self, simd: S) {
        let weights = &self.replay.weights;
        self.mask_states();
        let tiles = tiles(self.rows.clone(), self.pass.machine.tile_rows);
        for panel in 0..weights.state.count() {
            for tile in tiles.clone() {
                // SAFETY: these rows are this thread's own.
                unsafe {
                    if self.pass.after {
                        self.tile_after::<S, USUAL>(simd, tile, panel)
                    } else {
                        self.tile_before::<S, USUAL>(simd, tile, panel)
                    }
                }
            }
        }
        for panel in 0..weights.candidate.as_ref().map_or(0, Panels::count) {
            for tile in tiles.clone() {
                // SAFETY: these rows are this thread's own, and it has just made r ⊙ g of them.
                unsafe { self.tile_of_candidate::<S, USUAL>(simd, tile, panel) };
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
            let n = self.pass.of_round(self.first, row).0;
            // SAFETY: these rows are this thread's own.
            let g = unsafe { self.replay.g.cells_mut(row, 0..h) };
            let sources = self.previous(row).iter().zip(&mask[n * h..]);
            for (g, (&state, &m)) in g.iter_mut().zip(sources) {
                *g = state * m;
            }
        }
    }

    /// The state before a row.
    #[inline(always)]
    fn previous(&self, row: usize) -> &[E] {
        let (n, s) = self.pass.of_round(self.first, row);
        self.pass.previous(n, s)
    }

    /// The left side of the recurrent product.
    #[inline(always)]
    fn source(&self, row: usize) -> *const E {
        match self.pass.call.inputs.sequence.recurrent_mask {
            Some(_) => self.replay.g.at(row),
            None => self.previous(row).as_ptr(),
        }
    }

    /// Some units of a gate.
    ///
    /// # Safety
    /// The row is this thread's own, and nobody holds these units of the gate.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // `Rows` is what this borrows from, not `self`.
    unsafe fn gate(&self, row: usize, gate: usize, units: &Range<usize>) -> &mut [E] {
        let start = gate * self.pass.call.sizes.h + units.start;
        let cells = start..start + units.len();
        // SAFETY: the caller owns them.
        unsafe { self.replay.gates.cells_mut(row, cells) }
    }

    /// Writes the input product and the biases of a tile: r, z and n.
    #[inline(always)]
    fn project<S: Simd>(&self, simd: S, first: usize, panel: usize, sums: &mut Sums<E, S>) {
        let call = &self.pass.call;
        let mut x: [&[E]; ROWS] = [&[]; ROWS];
        for (row, x) in (first..).zip(&mut x[..sums.len()]) {
            let (n, s) = self.pass.of_round(self.first, row);
            *x = call.x(call.row(n, s));
        }
        self.replay.weights.project(simd, call, &x, panel, sums);
    }

    /// Adds the product of the states before a tile's rows to the sums.
    #[inline(always)]
    fn add_product<S: Simd>(
        &self,
        simd: S,
        sums: &mut Sums<E, S>,
        first: usize,
        vectors: usize,
        panel: usize,
    ) {
        let mut rows = [std::ptr::null(); ROWS];
        for (row, to) in (first..first + sums.len()).zip(&mut rows) {
            *to = self.source(row);
        }
        let panel = self.replay.weights.state.panel(panel);
        // SAFETY: states are not written in this pass, and the masked ones of these rows by this
        // thread only; each has H units.
        unsafe { self.multiply(simd, sums, rows, vectors, panel) };
    }

    /// # Safety
    /// There are as many rows as the sums have, of H units each that nobody writes meanwhile.
    #[inline(always)]
    unsafe fn multiply<S: Simd>(
        &self,
        simd: S,
        sums: &mut Sums<E, S>,
        rows: [*const E; ROWS],
        vectors: usize,
        panel: Panel<E>,
    ) {
        let product = Product {
            left: &Left::dense(rows),
            k: self.pass.call.sizes.h,
            panel,
            vectors,
            order: Order::Free,
            ahead: Ahead::NOTHING,
        };
        // SAFETY: the caller's rows, and a panel of a recurrent weight has H rows too.
        unsafe { product.add_to(simd, sums) };
    }

    /// One tile of a panel, the reset gate acting after the product: all gates.
    ///
    /// # Safety
    /// The rows of the tile are this thread's own.
    #[inline(always)]
    unsafe fn tile_after<S: Simd, const USUAL: bool>(
        &self,
        simd: S,
        (first, size): (usize, usize),
        panel: usize,
    ) {
        let gates = &self.pass.gates;
        let units = units(panel..panel + 1, E::lanes::<S>(), self.pass.call.sizes.h);
        let [.., b_hn] = self.replay.weights.bias(simd, panel);
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, size);
        self.project(simd, first, panel, &mut sums);
        // The candidate's two products stay apart.
        for (row, sums) in (first..).zip(sums.iter_mut()) {
            // SAFETY: these rows are this thread's own.
            E::write(simd, unsafe { self.gate(row, 2, &units) }, sums[2]);
            sums[2] = b_hn;
        }
        self.add_product(simd, &mut sums, first, 3, panel);
        for (row, &[r, z, q]) in (first..).zip(sums.iter()) {
            let r = gates.reset::<S, USUAL>(simd, r);
            let [z, _] = gates.update::<S, USUAL>(simd, z);
            // SAFETY: these rows are this thread's own, and each gate is held for a line only.
            unsafe {
                let p_n = E::read(simd, self.gate(row, 2, &units));
                let n = gates.candidate::<S, USUAL>(simd, E::vfma(simd, r, q, p_n));
                for (gate, v) in [r, z, n, q].into_iter().enumerate() {
                    E::write(simd, self.gate(row, gate, &units), v);
                }
            }
        }
    }

    /// One tile of a panel, the reset gate acting before the product: r, z, the input product of n,
    /// and `r ⊙ g`.
    ///
    /// # Safety
    /// The rows of the tile are this thread's own.
    #[inline(always)]
    unsafe fn tile_before<S: Simd, const USUAL: bool>(
        &self,
        simd: S,
        (first, size): (usize, usize),
        panel: usize,
    ) {
        let gates = &self.pass.gates;
        let units = units(panel..panel + 1, E::lanes::<S>(), self.pass.call.sizes.h);
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, size);
        self.project(simd, first, panel, &mut sums);
        self.add_product(simd, &mut sums, first, 2, panel);
        for (row, &[r, z, p_n]) in (first..).zip(sums.iter()) {
            let r = gates.reset::<S, USUAL>(simd, r);
            let [z, _] = gates.update::<S, USUAL>(simd, z);
            // SAFETY: a source has H units; these rows are this thread's own, and each gate is held
            // for a line only.
            unsafe {
                let g = self.source(row).add(units.start);
                let g = E::read(simd, std::slice::from_raw_parts(g, units.len()));
                let rg = self.replay.rg.cells_mut(row, units.clone());
                E::write(simd, rg, E::vmul(simd, r, g));
                for (gate, v) in [r, z, p_n].into_iter().enumerate() {
                    E::write(simd, self.gate(row, gate, &units), v);
                }
            }
        }
    }

    /// Reset before the product, second half: the candidate of some vectors of units.
    ///
    /// # Safety
    /// The rows of the tile are this thread's own, and all else of their gates is there.
    #[inline(always)]
    unsafe fn tile_of_candidate<S: Simd, const USUAL: bool>(
        &self,
        simd: S,
        (first, size): (usize, usize),
        panel: usize,
    ) {
        let (h, lanes) = (self.pass.call.sizes.h, E::lanes::<S>());
        let Some(weights) = &self.replay.weights.candidate else {
            return;
        };
        let start = panel * CANDIDATE_VECTORS;
        let vectors = start..(start + CANDIDATE_VECTORS).min(h.div_ceil(lanes));
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, size);
        let mut rows = [std::ptr::null(); ROWS];
        for (row, (sums, to)) in (first..).zip(sums.iter_mut().zip(&mut rows)) {
            *to = self.replay.rg.at(row).cast_const();
            for (vector, sum) in vectors.clone().zip(sums) {
                let units = units(vector..vector + 1, lanes, h);
                // SAFETY: these rows are this thread's own.
                *sum = E::read(simd, unsafe { self.gate(row, 2, &units) });
            }
        }
        // SAFETY: `rg` has H units a row, of rows that are this thread's own.
        unsafe { self.multiply(simd, &mut sums, rows, vectors.len(), weights.panel(panel)) };
        for (row, sums) in (first..).zip(sums.iter()) {
            for (vector, &n) in vectors.clone().zip(sums) {
                let units = units(vector..vector + 1, lanes, h);
                let n = self.pass.gates.candidate::<S, USUAL>(simd, n);
                // SAFETY: these rows are this thread's own.
                E::write(simd, unsafe { self.gate(row, 2, &units) }, n);
            }
        }
    }
}
