//! The gate tile: a few rows by the hidden units of one panel, from the input product to the gates. The
//! forward pass and the recomputation of gates use the same tile.
//!
//! In this file "owned" cells are read and written by this thread only until the next barrier, and
//! "complete" cells were written before the last barrier, or by this thread, and are not written again
//! before the next one.

use super::{Part, WriteLines, gate_rows::GateRows, project::slot_of, units};
use crate::{
    product::{Lhs, Prefetch, Product, ROWS, Strided, SumOrder, Sums},
    simd::{
        Lanes,
        way::{CALLED, DEFAULT},
    },
    threads::Tile,
    tuning::CANDIDATE_VECTORS,
};
use core::ops::Range;
use pulp::Simd;

/// The tiles of all rows.
pub(super) trait GateTiles<E: Lanes>: GateRows<E> {
    /// The rows of `p` of a tile.
    #[inline(always)]
    fn p_of(&self, panel: usize, tile: Tile) -> Strided<'_, E> {
        let p = &self.cells().p;
        let first = self.first_row() + tile.first;
        Strided::of(&p.cells, p.row(panel, first), 1, tile.rows)
    }

    /// The units of a panel of one vector.
    #[inline(always)]
    fn units_of(&self, panel: usize, lanes: usize) -> Range<usize> {
        units(panel..panel + 1, lanes, self.cells().h)
    }

    /// One tile, the reset gate acting after the product: all gates and the new states.
    ///
    /// # Safety
    /// `g` and `p` are complete, and the units of this panel are owned.
    #[inline(always)]
    unsafe fn tile_after<S: Simd>(&self, simd: S, part: Part) {
        let mut sums = Sums::new();
        // SAFETY: the caller keeps the same promises.
        unsafe {
            self.sums_after(simd, &mut sums, part);
            self.gates_after(simd, &sums, part.tile, part.panel);
        }
    }

    /// The products of a tile: r and z with the input product, and `q_n` with its bias.
    ///
    /// # Safety
    /// As for [`tile_after`](Self::tile_after).
    #[inline(always)]
    unsafe fn sums_after<S: Simd>(&self, simd: S, sums: &mut Sums<E, S>, part: Part) {
        let Part { tile, panel, .. } = part;
        let [.., b_hn] = self.cells().weights.bias(simd, panel);
        sums.fill(tile.rows, [b_hn; 3]);
        // SAFETY: the caller keeps the same promises.
        unsafe {
            self.start_with_p(simd, sums, tile, panel);
            self.add_recurrent_product::<S, 3>(simd, sums, part);
        }
    }

    /// Sets the sums of r and z to the input product.
    ///
    /// # Safety
    /// This panel of `p` is complete.
    #[inline(always)]
    unsafe fn start_with_p<S: Simd>(
        &self,
        simd: S,
        sums: &mut Sums<E, S>,
        tile: Tile,
        panel: usize,
    ) {
        let p = self.p_of(panel, tile);
        for (m, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller keeps the same promise.
            unsafe {
                sums[0] = slot_of::<E, S>(simd, p.at(m), 0);
                sums[1] = slot_of::<E, S>(simd, p.at(m), 1);
            }
        }
    }

    /// The gates and new states of a tile, from its products. On WebAssembly this is a separate function:
    /// inlined into the loop of the products, V8 spills their sums.
    ///
    /// # Safety
    /// As for [`tile_after`](Self::tile_after).
    #[cfg_attr(target_family = "wasm", inline(never))]
    #[cfg_attr(not(target_family = "wasm"), inline(always))]
    unsafe fn gates_after<S: Simd>(&self, simd: S, sums: &Sums<E, S>, tile: Tile, panel: usize) {
        // SAFETY: the caller keeps the same promises.
        unsafe {
            if self.cells().gates.are_default() {
                self.finish_after::<S, DEFAULT>(simd, sums, tile, panel)
            } else {
                self.finish_after::<S, CALLED>(simd, sums, tile, panel)
            }
        }
    }

    /// From the products of r, z and q_n to the new states.
    ///
    /// # Safety
    /// As for [`tile_after`](Self::tile_after).
    #[inline(always)]
    unsafe fn finish_after<S: Simd, const WAY: u8>(
        &self,
        simd: S,
        sums: &Sums<E, S>,
        tile: Tile,
        panel: usize,
    ) {
        let units = self.units_of(panel, E::lanes::<S>());
        let p = self.p_of(panel, tile);
        for (m, &sums) in sums.iter().enumerate() {
            // SAFETY: this panel of `p` is complete, and these units are owned.
            unsafe {
                let p_n = slot_of::<E, S>(simd, p.at(m), 2);
                self.units_after::<S, WAY>(simd, sums, p_n, tile.first + m, &units);
            }
        }
    }

    /// The gates and new states of some units of a row.
    ///
    /// # Safety
    /// These units are owned.
    #[inline(always)]
    unsafe fn units_after<S: Simd, const WAY: u8>(
        &self,
        simd: S,
        [r, z, q]: [E::V<S>; 3],
        p_n: E::V<S>,
        row: usize,
        units: &Range<usize>,
    ) {
        let gates = self.cells().gates;
        let r = gates.reset::<S, WAY>(simd, r);
        let z = gates.update::<S, WAY>(simd, z);
        let n = gates.candidate::<S, WAY>(simd, E::vfma(simd, r, q, p_n));
        // SAFETY: the caller keeps the same promise.
        unsafe {
            self.new_state(simd, z, n, row, units);
            self.save(simd, row, units, 0, &[r, z[0], n, q]);
        }
    }

    /// One tile, the reset gate acting before the product: r, z and `r ⊙ g`.
    ///
    /// # Safety
    /// `g` and `p` are complete, and the units of this panel are owned, in `p` too.
    #[inline(always)]
    unsafe fn tile_before<S: Simd>(&self, simd: S, part: Part) {
        let Part { tile, panel, .. } = part;
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, tile.rows);
        // SAFETY: the caller keeps the same promises.
        unsafe {
            self.start_with_p(simd, &mut sums, tile, panel);
            self.add_recurrent_product::<S, 2>(simd, &mut sums, part);
            if self.cells().gates.are_default() {
                self.finish_before::<S, DEFAULT>(simd, &sums, tile, panel)
            } else {
                self.finish_before::<S, CALLED>(simd, &sums, tile, panel)
            }
        }
    }

    /// From the products of r and z to `r ⊙ g`.
    ///
    /// # Safety
    /// As for [`tile_before`](Self::tile_before).
    #[inline(always)]
    unsafe fn finish_before<S: Simd, const WAY: u8>(
        &self,
        simd: S,
        sums: &Sums<E, S>,
        tile: Tile,
        panel: usize,
    ) {
        let lanes = E::lanes::<S>();
        let units = self.units_of(panel, lanes);
        let p = self.p_of(panel, tile);
        for (m, &[r, z, _]) in sums.iter().enumerate() {
            // SAFETY: `g` is complete; this panel of `p` and these units of `rg` are owned.
            unsafe {
                let row = tile.first + m;
                let [z, rest] = self.units_before::<S, WAY>(simd, [r, z], row, &units);
                // The input products of r and z are not read again.
                E::store(simd, p.at(m), rest);
                E::store(simd, p.at(m).add(lanes), z);
            }
        }
    }

    /// `r ⊙ g` of some units of a row. Returns z and 1 − z.
    ///
    /// # Safety
    /// `g` is complete, and these units are owned.
    #[inline(always)]
    unsafe fn units_before<S: Simd, const WAY: u8>(
        &self,
        simd: S,
        [r, z]: [E::V<S>; 2],
        row: usize,
        units: &Range<usize>,
    ) -> [E::V<S>; 2] {
        let gates = self.cells().gates;
        let r = gates.reset::<S, WAY>(simd, r);
        let z = gates.update::<S, WAY>(simd, z);
        // SAFETY: the caller keeps the same promises.
        unsafe {
            let g = self.g(row).add(units.start);
            let g = E::read(simd, core::slice::from_raw_parts(g, units.len()));
            let rg = self.cells().rg.at(row).add(units.start);
            let rg = core::slice::from_raw_parts_mut(rg, units.len());
            E::write(simd, rg, E::vmul(simd, r, g));
            self.save(simd, row, units, 0, &[r, z[0]]);
        }
        z
    }

    /// Reset before the product, second half: a panel of the candidate, and the new states.
    ///
    /// # Safety
    /// `rg`, r and z of these rows are complete, and the units of this panel are owned.
    #[inline(always)]
    unsafe fn tile_of_candidate<S: Simd>(&self, simd: S, tile: Tile, panel: usize) {
        let h = self.cells().h;
        let vectors = units(
            panel..panel + 1,
            CANDIDATE_VECTORS,
            self.cells().weights.panels(),
        );
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, tile.rows);
        for (at, vector) in vectors.clone().enumerate() {
            let p = self.p_of(vector, tile);
            for (m, sums) in sums.iter_mut().enumerate() {
                // SAFETY: `p` is complete.
                sums[at] = unsafe { slot_of::<E, S>(simd, p.at(m), 2) };
            }
        }
        let Some(candidate) = &self.cells().weights.in_panels().candidate else {
            return;
        };
        let product = Product {
            lhs: &self.lhs_of(tile, true),
            k: h,
            panel: candidate.panel(panel),
            vectors: vectors.len(),
            order: SumOrder::Free,
            prefetch: Prefetch::NOTHING,
        };
        // SAFETY: the rows have H complete units each, and the panel has H rows.
        unsafe { product.add_to_small(simd, &mut sums) };
        for (at, vector) in vectors.enumerate() {
            // SAFETY: the caller keeps the same promises.
            unsafe {
                if self.cells().gates.are_default() {
                    self.finish_candidate::<S, DEFAULT>(simd, &sums, at, tile, vector)
                } else {
                    self.finish_candidate::<S, CALLED>(simd, &sums, at, tile, vector)
                }
            }
        }
    }

    /// From the products of n, in vector `at` of the sums, to the new states.
    ///
    /// # Safety
    /// As for [`tile_of_candidate`](Self::tile_of_candidate).
    #[inline(always)]
    unsafe fn finish_candidate<S: Simd, const WAY: u8>(
        &self,
        simd: S,
        sums: &Sums<E, S>,
        at: usize,
        tile: Tile,
        vector: usize,
    ) {
        let units = self.units_of(vector, E::lanes::<S>());
        let p = self.p_of(vector, tile);
        for (m, sums) in sums.iter().enumerate() {
            // SAFETY: the first half stored 1 − z and z in `p`; these units are owned.
            unsafe {
                let z = [1, 0].map(|slot| slot_of::<E, S>(simd, p.at(m), slot));
                let row = tile.first + m;
                self.units_of_candidate::<S, WAY>(simd, sums[at], z, row, &units);
            }
        }
    }

    /// The candidate and the new states of some units of a row, from z and 1 − z.
    ///
    /// # Safety
    /// These units are owned.
    #[inline(always)]
    unsafe fn units_of_candidate<S: Simd, const WAY: u8>(
        &self,
        simd: S,
        n: E::V<S>,
        z: [E::V<S>; 2],
        row: usize,
        units: &Range<usize>,
    ) {
        let n = self.cells().gates.candidate::<S, WAY>(simd, n);
        // SAFETY: the caller keeps the same promise.
        unsafe {
            self.new_state(simd, z, n, row, units);
            self.save(simd, row, units, 2, &[n]);
        }
    }

    /// Adds the recurrent product of a tile to the sums.
    ///
    /// # Safety
    /// `g` is complete.
    #[inline(always)]
    unsafe fn add_recurrent_product<S: Simd, const VECTORS: usize>(
        &self,
        simd: S,
        sums: &mut Sums<E, S>,
        part: Part,
    ) {
        let h = self.cells().h;
        let mut lines = WriteLines::new();
        let product = Product {
            lhs: &self.lhs_of(part.tile, false),
            k: h,
            panel: self.cells().weights.in_panels().state.panel(part.panel),
            vectors: VECTORS,
            order: SumOrder::Free,
            prefetch: self.prefetch(part, VECTORS, &mut lines),
        };
        // SAFETY: the rows have H complete units each, and the panel has H rows.
        unsafe { product.add_to_small(simd, sums) };
    }

    /// The rows of a tile as a left side.
    #[inline(always)]
    fn lhs_of(&self, tile: Tile, of_candidate: bool) -> Lhs<E> {
        let mut rows = [core::ptr::null(); ROWS];
        for (row, to) in tile.range().zip(&mut rows) {
            *to = self.lhs(row, of_candidate);
        }
        Lhs::dense(rows)
    }
}

impl<E: Lanes, R: GateRows<E>> GateTiles<E> for R {}
