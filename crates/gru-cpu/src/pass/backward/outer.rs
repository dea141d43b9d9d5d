//! The weight gradients: products over the rows of a round.

use super::{Pass, RoundRows, gate_of_d};
use crate::{
    product::{Columns, Lines, Panel, Prefetch, Product, ROWS, Rows, SumOrder, Sums, WIDTH},
    simd::Lanes,
    spec::Sizes,
    tuning::{FEW_ROWS, VECTORS_BACK},
};
use core::ops::Range;
use pulp::Simd;

/// Left sides of the products over the rows of a round.
pub(super) struct LhsColumns<'a, E> {
    pub(super) x: Columns<'a, E>,
    /// `m ⊙ h₋₁`.
    pub(super) g: Columns<'a, E>,
    /// Reset before the product: `r ⊙ g`.
    pub(super) rg: Columns<'a, E>,
}

/// One block of a weight gradient: `to += lhsᵀ·d`, over the first `rows` rows of a round.
pub(super) struct OuterProduct<'a, 'b, E> {
    pass: &'a Pass<'b, E>,
    lhs: Columns<'b, E>,
    /// Columns of the left side, which are rows of the gradient.
    columns: usize,
    /// Gates of `d`, in its order, each with its gate in the columns of the gradient.
    gates: &'static [(usize, usize)],
    to: Rows<'b, E>,
    rows: usize,
    /// Whether this is the first round, which overwrites the gradient.
    is_first: bool,
}

impl<'b, E: Lanes> Pass<'b, E> {
    /// The products over rows: `dw_ih = xᵀ·dp`, `dw_hh = gᵀ·dq`.
    #[inline(always)]
    pub(super) fn outer_products(
        &self,
        rows: usize,
        is_first: bool,
    ) -> [Option<OuterProduct<'_, 'b, E>>; 3] {
        use gate_of_d::{CANDIDATE, DP, DQ, R_AND_Z};
        let Sizes { i, h, .. } = *self.call.sizes;
        let LhsColumns { x, g, rg } = self.lhs;
        let product = |to: Option<Rows<'b, E>>, lhs, columns, gates| {
            to.map(|to| OuterProduct {
                pass: self,
                lhs,
                columns,
                gates,
                to,
                rows,
                is_first,
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
        let places: [_; R] = core::array::from_fn(|r| round.place(row + r));
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

/// The cache lines that a tile prefetches: the vectors of each row of the gradient.
type GradientLines<E> = Lines<E, { ROWS * VECTORS_BACK }>;

impl<E: Lanes> OuterProduct<'_, '_, E> {
    /// The parts that threads share: tiles of all panels, or if there are few rows, tiles of all columns.
    pub(super) fn parts(&self) -> usize {
        if self.rows <= FEW_ROWS {
            return self.tiles_of_panel();
        }
        let per_gate = self.pass.call.sizes.h.div_ceil(self.pass.machine.lanes);
        (self.gates.len() * per_gate).div_ceil(VECTORS_BACK) * self.tiles_of_panel()
    }

    /// Computes the [parts](Self::parts) that belong to this thread.
    #[inline(always)]
    pub(super) fn run<S: Simd>(&self, simd: S, share: Range<usize>) {
        let h = self.pass.call.sizes.h;
        let mut gates = self.gates.iter();
        assert!(gates.all(|&(_, gate)| (gate + 1) * h <= self.to.width()));
        if self.rows <= FEW_ROWS {
            for tile in share {
                match self.pass.machine.tile_rows {
                    8 => self.tile_of_few_rows::<S, 8>(simd, tile),
                    4 => self.tile_of_few_rows::<S, 4>(simd, tile),
                    2 => self.tile_of_few_rows::<S, 2>(simd, tile),
                    rows => unreachable!("no machine has tiles of {rows} rows"),
                }
            }
            return;
        }
        let per_panel = self.tiles_of_panel();
        let mut at = share.start;
        while at < share.end {
            let panel = at / per_panel;
            let end = ((panel + 1) * per_panel).min(share.end);
            let rhs = self.panel(E::lanes::<S>(), panel);
            let tiles = at - panel * per_panel..end - panel * per_panel;
            for tile in tiles.clone() {
                self.tile(simd, tile, tiles.end, &rhs);
            }
            at = end;
        }
    }

    fn tiles_of_panel(&self) -> usize {
        self.columns.div_ceil(self.pass.machine.tile_rows)
    }

    /// The rows of the gradient in a tile.
    #[inline(always)]
    fn rows_of(&self, tile: usize, full: usize) -> Range<usize> {
        (tile * full).min(self.columns)..((tile + 1) * full).min(self.columns)
    }

    /// A panel of `d`, and the columns of the gradient for each of its vectors.
    #[inline(always)]
    fn panel(&self, lanes: usize, panel: usize) -> (Panel<E>, [Range<usize>; VECTORS_BACK]) {
        let (d, h) = (&self.pass.d, self.pass.call.sizes.h);
        let per_gate = h.div_ceil(lanes);
        let all = self.gates.len() * per_gate;
        let first = panel * VECTORS_BACK;
        let count = (all - first).min(VECTORS_BACK);
        let (mut at, mut offsets) = (core::ptr::null(), [0; VECTORS_BACK]);
        let mut columns = [const { 0..0 }; VECTORS_BACK];
        for v in 0..count {
            let (gate, unit) = ((first + v) / per_gate, (first + v) % per_gate * lanes);
            let (of_d, gate) = self.gates[gate];
            let vector = d.at(of_d, unit, 0).cast_const();
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

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        simd: S,
        tile: usize,
        end: usize,
        (panel, columns): &(Panel<E>, [Range<usize>; VECTORS_BACK]),
    ) {
        let full = self.pass.machine.tile_rows;
        let (to, columns) = (self.rows_of(tile, full), &columns[..panel.count]);
        let mut lines = GradientLines::new();
        if tile + 1 < end {
            for row in self.rows_of(tile + 1, full) {
                for columns in columns {
                    lines.push(self.to.at(row).wrapping_add(columns.end - 1));
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
            lhs: &self.lhs.lhs(tile),
            k: self.rows,
            panel: *panel,
            vectors: panel.count,
            order: SumOrder::Free,
            prefetch: Prefetch::NOTHING.with_near(&lines),
        };
        // SAFETY: the left side and `d` have so many rows, all written before the last barrier.
        unsafe { over_rows.add_to(simd, &mut sums) };
        for (row, sums) in to.zip(sums.iter()) {
            let row = (row, self.to.at(row));
            for (columns, &sum) in columns.iter().zip(sums) {
                // SAFETY: `run` checked the columns.
                unsafe { self.write(simd, row, columns.clone(), sum) };
            }
        }
    }

    /// All columns of some rows of the gradient. `MR` is the width of the left side.
    #[inline(always)]
    fn tile_of_few_rows<S: Simd, const MR: usize>(&self, simd: S, tile: usize) {
        let pass = self.pass;
        let (h, lanes) = (pass.call.sizes.h, E::lanes::<S>());
        let lhs = self.lhs.column(tile);
        let rows = self.rows_of(tile, MR);
        // A last tile of fewer rows repeats its last one.
        let addresses: [_; MR] =
            core::array::from_fn(|r| self.to.at(rows.end.min(rows.start + r + 1) - 1));
        for &(of_d, gate) in self.gates {
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
                for (row, sum) in rows.clone().zip(addresses).zip(sums) {
                    // SAFETY: `run` checked the columns.
                    unsafe { self.write(simd, row, columns.clone(), sum) };
                }
            }
        }
    }

    /// Writes the sum of the first round to some columns of the gradient, at most a vector, or adds the sum of a later
    /// one. The row is at this address.
    ///
    /// # Safety
    /// The row has these columns.
    #[inline(always)]
    unsafe fn write<S: Simd>(
        &self,
        simd: S,
        (row, address): (usize, *mut E),
        columns: Range<usize>,
        sum: E::V<S>,
    ) {
        // SAFETY: this part of the gradient belongs to this thread. The first round wrote what a later one reads.
        unsafe {
            if columns.len() == E::lanes::<S>() {
                let to = address.add(columns.start);
                let sum = if self.is_first {
                    sum
                } else {
                    E::vadd(simd, E::load(simd, to), sum)
                };
                E::store(simd, to, sum);
            } else if self.is_first {
                self.to.write(simd, row, columns, sum);
            } else {
                let to = self.to.cells_mut(row, columns);
                E::write(simd, to, E::vadd(simd, E::read(simd, to), sum));
            }
        }
    }
}
