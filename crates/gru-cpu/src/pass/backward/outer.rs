//! The weight gradients: products over the rows of a round.

use super::{Pass, RoundRows, gate_of_d};
use crate::{
    product::{Columns, Lines, Order, Panel, Prefetch, Product, ROWS, Rows, Sums, WIDTH},
    simd::Lanes,
    spec::Sizes,
    tuning::{FEW_ROWS, VECTORS_BACK},
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Left sides of the products over the rows of a round.
pub(super) struct LhsColumns<'a, E> {
    pub(super) x: Columns<'a, E>,
    /// `m ⊙ h₋₁`.
    pub(super) g: Columns<'a, E>,
    /// Reset before the product: `r ⊙ g`.
    pub(super) rg: Columns<'a, E>,
}

/// One block of a weight gradient: `to += lhsᵀ·d`.
pub(super) struct OuterProduct<'a, E> {
    lhs: Columns<'a, E>,
    /// Columns of the left side, which are rows of the gradient.
    columns: usize,
    /// Gates of `d`, in its order, each with its gate in the columns of the gradient.
    gates: &'static [(usize, usize)],
    to: Rows<'a, E>,
}

impl<'a, E: Lanes> Pass<'a, E> {
    /// The products over rows: `dw_ih = xᵀ·dp`, `dw_hh = gᵀ·dq`.
    pub(super) fn products(&self) -> [Option<OuterProduct<'a, E>>; 3] {
        use gate_of_d::{CANDIDATE, DP, DQ, R_AND_Z};
        let Sizes { i, h, .. } = *self.call.sizes;
        let LhsColumns { x, g, rg } = self.lhs;
        let product = |to: Option<Rows<'a, E>>, lhs, columns, gates| {
            to.map(|to| OuterProduct {
                lhs,
                columns,
                gates,
                to,
            })
        };
        let input = product(self.dw_ih, x, i, DP);
        let state = |lhs, gates| product(self.dw_hh, lhs, h, gates);
        if self.after {
            [input, state(g, DQ), None]
        } else {
            [input, state(g, R_AND_Z), state(rg, CANDIDATE)]
        }
    }

    /// Packs the left sides of some rows of a round, which belong to this thread until the next barrier. (`r ⊙ g`
    /// is packed where it is computed.)
    pub(super) fn pack(&self, round: &RoundRows<'_>, rows: Range<usize>) {
        if self.dw_ih.is_none() && self.dw_hh.is_none() {
            return;
        }
        // Rows that share cache lines of a column are written at the same time.
        const AT_ONCE: usize = 4;
        let mut row = rows.start;
        while row < rows.end {
            if row + AT_ONCE <= rows.end && self.pack_rows::<AT_ONCE>(round, row) {
                row += AT_ONCE;
            } else {
                self.pack_row(round, row);
                row += 1;
            }
        }
    }

    /// Packs some rows, unless one of them needs more than a copy.
    fn pack_rows<const R: usize>(&self, round: &RoundRows<'_>, row: usize) -> bool {
        let places: [_; R] = std::array::from_fn(|r| round.place(row + r));
        let at = places.map(|(n, s)| self.call.row(n, s));
        if self.call.inputs.sequence.recurrent_mask.is_some()
            || at.iter().any(|&at| self.call.is_skipped(at))
        {
            return false;
        }
        // SAFETY: these rows of the left sides belong to this thread.
        unsafe {
            if self.dw_ih.is_some() {
                self.lhs.x.write(row, 0, at.map(|at| self.call.x(at)));
            }
            if self.dw_hh.is_some() {
                let g = places.map(|(n, s)| self.previous(n, s));
                self.lhs.g.write(row, 0, g);
            }
        }
        true
    }

    fn pack_row(&self, round: &RoundRows<'_>, row: usize) {
        let Sizes { i, h, .. } = *self.call.sizes;
        let (n, s) = round.place(row);
        let at = self.call.row(n, s);
        // SAFETY: this row of the left sides belongs to this thread.
        unsafe {
            // A skipped step may hold any value, and its gradient is zero.
            if self.call.is_skipped(at) {
                if self.dw_ih.is_some() {
                    self.lhs.x.clear(row, i);
                }
                if self.dw_hh.is_some() {
                    self.lhs.g.clear(row, h);
                }
                return;
            }
            if self.dw_ih.is_some() {
                self.lhs.x.write(row, 0, [self.call.x(at)]);
            }
            match (self.dw_hh, self.call.inputs.sequence.recurrent_mask) {
                (None, _) => {}
                (Some(_), None) => self.lhs.g.write(row, 0, [self.previous(n, s)]),
                (Some(_), Some(mask)) => {
                    let mask = &mask[n * h..][..h];
                    self.lhs.g.write_product(row, self.previous(n, s), mask);
                }
            }
        }
    }
}

impl<E: Lanes> OuterProduct<'_, E> {
    /// The parts of the product over so many rows that threads share: tiles of all panels, or if there are few rows, tiles
    /// of all columns.
    pub(super) fn parts(&self, pass: &Pass<'_, E>, rows: usize) -> usize {
        if rows <= FEW_ROWS {
            return self.tiles_of_panel(pass);
        }
        let per_gate = pass.call.sizes.h.div_ceil(pass.machine.lanes);
        (self.gates.len() * per_gate).div_ceil(VECTORS_BACK) * self.tiles_of_panel(pass)
    }

    fn tiles_of_panel(&self, pass: &Pass<'_, E>) -> usize {
        self.columns.div_ceil(pass.machine.tile_rows)
    }

    /// The rows of the gradient in a tile.
    #[inline(always)]
    fn rows_of(&self, tile: usize, full: usize) -> Range<usize> {
        (tile * full).min(self.columns)..((tile + 1) * full).min(self.columns)
    }

    /// A panel of `d`, and the columns of the gradient for each of its vectors.
    #[inline(always)]
    fn panel(
        &self,
        pass: &Pass<'_, E>,
        lanes: usize,
        panel: usize,
    ) -> (Panel<E>, [Range<usize>; VECTORS_BACK]) {
        let h = pass.call.sizes.h;
        let per_gate = h.div_ceil(lanes);
        let all = self.gates.len() * per_gate;
        let first = panel * VECTORS_BACK;
        let count = (all - first).min(VECTORS_BACK);
        let (mut at, mut offsets) = (std::ptr::null(), [0; VECTORS_BACK]);
        let mut columns = [const { 0..0 }; VECTORS_BACK];
        for v in 0..count {
            let (gate, unit) = ((first + v) / per_gate, (first + v) % per_gate * lanes);
            let (of_d, gate) = self.gates[gate];
            let vector = pass.d.at(of_d, unit, 0).cast_const();
            if v == 0 {
                at = vector;
            }
            offsets[v] = (vector.addr() - at.addr()) / size_of::<E>();
            let column = gate * h;
            columns[v] = column + unit..column + (unit + lanes).min(h);
        }
        let panel = Panel {
            at,
            per_k: WIDTH,
            offsets,
            count,
        };
        (panel, columns)
    }
}

/// The cache lines that a tile prefetches: the vectors of each row of the gradient.
type GradientLines<E> = Lines<E, { ROWS * VECTORS_BACK }>;

/// Some tiles of one product over the first `rows` rows of a round.
pub(super) struct Outer<'a, 'b, E> {
    pub(super) pass: &'a Pass<'b, E>,
    pub(super) product: OuterProduct<'b, E>,
    pub(super) rows: usize,
    /// Whether this is the first round, which overwrites the gradient.
    pub(super) is_first: bool,
    /// The [parts](OuterProduct::parts) that belong to this thread.
    pub(super) share: Range<usize>,
}

impl<E: Lanes> WithSimd for Outer<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.rows <= FEW_ROWS {
            for tile in self.share.clone() {
                match self.pass.machine.tile_rows {
                    8 => self.tile_of_few_rows::<S, 8>(simd, tile),
                    4 => self.tile_of_few_rows::<S, 4>(simd, tile),
                    2 => self.tile_of_few_rows::<S, 2>(simd, tile),
                    rows => unreachable!("no machine has tiles of {rows} rows"),
                }
            }
            return;
        }
        let per_panel = self.product.tiles_of_panel(self.pass);
        let mut at = self.share.start;
        while at < self.share.end {
            let panel = at / per_panel;
            let end = ((panel + 1) * per_panel).min(self.share.end);
            let rhs = self.product.panel(self.pass, E::lanes::<S>(), panel);
            let tiles = at - panel * per_panel..end - panel * per_panel;
            for tile in tiles.clone() {
                self.tile(simd, tile, tiles.end, &rhs);
            }
            at = end;
        }
    }
}

impl<E: Lanes> Outer<'_, '_, E> {
    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        simd: S,
        tile: usize,
        end: usize,
        (panel, columns): &(Panel<E>, [Range<usize>; VECTORS_BACK]),
    ) {
        let (product, full) = (&self.product, self.pass.machine.tile_rows);
        let (to, columns) = (product.rows_of(tile, full), &columns[..panel.count]);
        let mut lines = GradientLines::new();
        if tile + 1 < end {
            for row in product.rows_of(tile + 1, full) {
                for columns in columns {
                    lines.push(product.to.at(row).wrapping_add(columns.end - 1));
                }
            }
        }
        // The left side is padded with zeros.
        let size = to.len().next_power_of_two();
        // The sum of a round begins at zero. A single sum over all rows would lose a digit for each tenfold
        // of rows.
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, size);
        let over_rows = Product {
            lhs: &product.lhs.lhs(tile),
            k: self.rows,
            panel: *panel,
            vectors: panel.count,
            order: Order::Free,
            prefetch: Prefetch::NOTHING.with_near(&lines),
        };
        // SAFETY: the left side and `d` have so many rows, all written before the last barrier.
        unsafe { over_rows.add_to(simd, &mut sums) };
        for (row, sums) in to.zip(sums.iter()) {
            for (columns, &sum) in columns.iter().zip(sums) {
                self.write(simd, row, columns.clone(), sum);
            }
        }
    }

    /// All columns of some rows of the gradient. `MR` is the width of the left side.
    #[inline(always)]
    fn tile_of_few_rows<S: Simd, const MR: usize>(&self, simd: S, tile: usize) {
        let (pass, product) = (self.pass, &self.product);
        let (h, lanes) = (pass.call.sizes.h, E::lanes::<S>());
        let lhs = product.lhs.column(tile);
        for &(of_d, gate) in product.gates {
            for unit in (0..h).step_by(lanes) {
                let d = pass.d.at(of_d, unit, 0).cast_const();
                let mut sums = [E::real(simd, 0.0); MR];
                for k in 0..self.rows {
                    // SAFETY: a block of `d` is at least a vector wide. It and the left side have so many rows, all
                    // written before the last barrier.
                    let (v, elements) = unsafe {
                        (
                            E::load(simd, d.add(k * WIDTH)),
                            lhs.add(k * MR).cast::<[E; MR]>().read(),
                        )
                    };
                    for (sum, a) in sums.iter_mut().zip(elements) {
                        *sum = E::vfma(simd, E::splat(simd, a), v, *sum);
                    }
                }
                let columns = gate * h + unit..gate * h + (unit + lanes).min(h);
                for (row, sum) in product.rows_of(tile, MR).zip(sums) {
                    self.write(simd, row, columns.clone(), sum);
                }
            }
        }
    }

    /// Writes the sum of the first round to some columns of the gradient, or adds the sum of a later one.
    #[inline(always)]
    fn write<S: Simd>(&self, simd: S, row: usize, columns: Range<usize>, sum: E::V<S>) {
        // SAFETY: this part of the gradient belongs to this thread.
        let to = unsafe { self.product.to.cells_mut(row, columns) };
        let sum = if self.is_first {
            sum
        } else {
            E::vadd(simd, E::read(simd, to), sum)
        };
        E::write(simd, to, sum);
    }
}
