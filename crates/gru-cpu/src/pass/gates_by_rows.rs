//! The gates of rows whose products are in memory: of weights that are read in place, and of quantized weights.
//! [`GateTiles`] says what "owned" and "complete" cells are.

use super::{
    by_rows::RowMatrix, gate_rows::GateRows, matrices::LayerMatrices, plain_row::PlainRow,
    tile::GateTiles, units,
};
use crate::simd::{
    Lanes,
    way::{CALLED, COARSE, DEFAULT},
};
use core::ops::Range;
use pulp::Simd;

/// All gates of rows.
pub(super) trait GatesByRows<E: Lanes>: GateTiles<E> {
    /// Products that are written to memory, and their gates: of `g`, or of `r ⊙ g` with n.
    ///
    /// # Safety
    /// `g`, or `rg`, and `p` are complete, and the units of these panels are owned: all units if the weights are
    /// quantized.
    #[inline(always)]
    unsafe fn by_rows<S: Simd>(
        &self,
        simd: S,
        matrices: &LayerMatrices<RowMatrix<'_, E>>,
        rows: Range<usize>,
        of_candidate: bool,
        panels: Range<usize>,
    ) {
        let cells = self.cells();
        let units = units(panels.clone(), E::lanes::<S>(), cells.h);
        let lhs = |row: usize| self.lhs(row, of_candidate);
        let gates = (cells.after, of_candidate);
        // SAFETY: the caller keeps the same promises.
        unsafe {
            matrices.multiply_state(simd, (rows.clone(), lhs), gates, &units, &cells.memory);
            let is_quantized = matrices.state.quantized().is_some();
            for row in rows {
                let panels = panels.clone();
                match (self.plain_row(row), cells.gates.are_default(), is_quantized) {
                    (Some(plain), true, true) => plain.run::<S, COARSE>(simd, panels),
                    (Some(plain), true, false) => plain.run::<S, DEFAULT>(simd, panels),
                    (None, true, true) => {
                        self.row::<S, COARSE>(simd, row, of_candidate, panels);
                    }
                    (None, true, false) => {
                        self.row::<S, DEFAULT>(simd, row, of_candidate, panels);
                    }
                    (_, false, _) => self.row::<S, CALLED>(simd, row, of_candidate, panels),
                }
            }
        }
    }

    /// A row whose products are complete, if it is plain.
    #[inline(always)]
    fn plain_row(&self, row: usize) -> Option<PlainRow<'_, E>> {
        let cells = self.cells();
        self.plain_states(row).map(|states| PlainRow {
            weights: cells.weights,
            gates: cells.gates,
            h: cells.h,
            p: cells.p.cells.at(self.first_row() + row),
            q: cells.memory.products.at(row),
            states,
        })
    }

    /// The gates of some panels of a row, from products in memory.
    ///
    /// # Safety
    /// As for [`by_rows`](Self::by_rows), and the products are complete.
    #[inline(always)]
    unsafe fn row<S: Simd, const WAY: u8>(
        &self,
        simd: S,
        row: usize,
        of_candidate: bool,
        panels: Range<usize>,
    ) {
        let cells = self.cells();
        let p = cells.p.cells.at(self.first_row() + row);
        let q = cells.memory.products.at(row);
        for panel in panels {
            let units = &self.units_of(panel, E::lanes::<S>());
            let [b_r, b_z, b_n, b_hn] = cells.weights.bias(simd, panel);
            let at = |gate: usize| gate * cells.h + units.start;
            // SAFETY: rows of `p` and of the products have all gates; they are complete, and these units of `p` are
            // owned.
            unsafe {
                let read = |from: *mut E, gate: usize| {
                    let from = from.add(at(gate)).cast_const();
                    E::read(simd, core::slice::from_raw_parts(from, units.len()))
                };
                let write = |gate: usize, v: E::V<S>| {
                    let to = p.add(at(gate));
                    E::write(simd, core::slice::from_raw_parts_mut(to, units.len()), v);
                };
                let plus = |bias: E::V<S>, from: *mut E, gate: usize| {
                    E::vadd(simd, bias, read(from, gate))
                };
                if of_candidate {
                    let n = E::vadd(simd, plus(b_n, p, 2), read(q, 2));
                    let z = [1, 0].map(|gate| read(p, gate));
                    self.units_of_candidate::<S, WAY>(simd, n, z, row, units);
                    continue;
                }
                let r = plus(plus(b_r, p, 0), q, 0);
                let z = plus(plus(b_z, p, 1), q, 1);
                if cells.after {
                    let sums = [r, z, plus(b_hn, q, 2)];
                    self.units_after::<S, WAY>(simd, sums, plus(b_n, p, 2), row, units);
                } else {
                    let [z, rest] = self.units_before::<S, WAY>(simd, [r, z], row, units);
                    write(0, rest);
                    write(1, z);
                }
            }
        }
    }
}

impl<E: Lanes, R: GateRows<E>> GatesByRows<E> for R {}
