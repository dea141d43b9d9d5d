//! What a round's gradients of the pre-activations make: sums over its rows, and the gradient of
//! the input.

use super::{VECTORS, Work, gate_of_d};
use crate::{
    element::Element,
    kernel::{
        blocks::{Blocks, WIDTH},
        panels::Panel,
        plan::tiles,
        rows::Rows,
        team::Member,
        tile::{Ahead, Left, ROWS, Sums, accumulate, load, store, tile_rows},
    },
};
use pulp::Simd;
use std::ops::Range;

/// Left sides of the products over the rows of a round.
pub(super) struct Sides<'a, E> {
    pub(super) x: Packed<'a, E>,
    /// `m ⊙ h₋₁`.
    pub(super) g: Packed<'a, E>,
    /// Reset before the product: `r ⊙ g`.
    pub(super) rg: Packed<'a, E>,
}

/// Rows cut into columns as wide as a tile has rows, each column from its first row to its last:
/// the left side of a product over rows. The last column is filled up with zeros.
pub(super) struct Packed<'a, E> {
    cells: Rows<'a, E>,
    rows: usize,
}

impl<E> Clone for Packed<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E> Copy for Packed<'_, E> {}

impl<'a, E: Element> Packed<'a, E> {
    /// `data` is zeroed.
    pub(super) fn new<S: Simd>(data: &'a mut [E], rows: usize) -> Self {
        let cells = Rows::new(data, tile_rows::<S>());
        Self { cells, rows }
    }

    /// Writes some elements of a row, from column `column` on.
    ///
    /// # Safety
    /// Nobody else reads or writes them meanwhile.
    #[inline(always)]
    pub(super) unsafe fn write<S: Simd>(&self, row: usize, column: usize, from: &[E]) {
        let width = tile_rows::<S>();
        let mut column = column;
        let mut from = from;
        while !from.is_empty() {
            let (tile, at) = (column / width, column % width);
            let count = (width - at).min(from.len());
            let (these, rest) = from.split_at(count);
            // SAFETY: the caller's word.
            let to = unsafe { self.cells.cells_mut(tile * self.rows + row, at..at + count) };
            // Most are whole, and of a size that is known when this is compiled.
            match (
                <&mut [E; ROWS]>::try_from(&mut *to),
                <&[E; ROWS]>::try_from(these),
            ) {
                (Ok(to), Ok(these)) => *to = *these,
                _ => to.copy_from_slice(these),
            }
            column += count;
            from = rest;
        }
    }
}

/// One block of a weight's gradient: `to += leftᵀ·d`.
pub(super) struct Outer<'a, E> {
    pub(super) left: Packed<'a, E>,
    /// Columns of the left side: rows of the gradient.
    pub(super) columns: usize,
    /// Gates of `d`.
    pub(super) gates: &'static [usize],
    /// Gate of the gradient's columns that the first of them belongs to.
    pub(super) first: usize,
    pub(super) to: Rows<'a, E>,
}

impl<E: Element> Outer<'_, E> {
    /// A panel's vectors of `d`, and the columns of the gradient that each becomes.
    #[inline(always)]
    fn panel(
        &self,
        d: &Blocks<'_, E>,
        h: usize,
        lanes: usize,
        panel: usize,
    ) -> (Panel<E>, [Range<usize>; VECTORS]) {
        let per_gate = h.div_ceil(lanes);
        let place = |v: usize| {
            let vector = panel * VECTORS + v;
            let gate = vector / per_gate;
            self.gates.get(gate).map(|&of_d| {
                let unit = vector % per_gate * lanes;
                let column = (self.first + gate) * h;
                (
                    d.at(of_d, unit, 0),
                    column + unit..column + (unit + lanes).min(h),
                )
            })
        };
        let places: [_; VECTORS] = std::array::from_fn(place);
        let first = places[0].as_ref().map_or(std::ptr::null_mut(), |p| p.0);
        let panel = Panel {
            at: first.cast_const(),
            per_k: WIDTH,
            vectors: std::array::from_fn(|v| {
                let at = places[v].as_ref().map_or(first, |p| p.0);
                (at.addr() - first.addr()) / size_of::<E>()
            }),
        };
        (panel, places.map(|p| p.map_or(0..0, |p| p.1)))
    }
}

/// Lines that a tile asks for: a vector of each row of the gradient.
const MAX_LINES: usize = ROWS * VECTORS;

impl<E: Element> Work<'_, E> {
    /// Packs the left sides of some rows of a round.
    #[inline(always)]
    pub(super) fn pack<S: Simd>(&self, _: S, steps: Range<usize>, rows: Range<usize>) {
        let call = self.call;
        let h = call.dims.h;
        if call.dw_ih.is_none() && call.dw_hh.is_none() {
            return;
        }
        let mut masked = [E::zero(); 64];
        let zeros = [E::zero(); 64];
        for row in rows {
            let (s, n) = (steps.start + row / call.dims.n, row % call.dims.n);
            let at = call.place.row(n, call.time.time(s));
            let write_zeros = |to: &Packed<'_, E>, columns: usize| {
                for column in (0..columns).step_by(zeros.len()) {
                    let zeros = &zeros[..zeros.len().min(columns - column)];
                    // SAFETY: this row of the left sides is this thread's own until all meet.
                    unsafe { to.write::<S>(row, column, zeros) };
                }
            };
            // What stands at a skipped step may be anything, and its gradient is zero.
            let skipped = self.is_skipped(at);
            if call.dw_ih.is_some() {
                match skipped {
                    true => write_zeros(&self.sides.x, call.dims.i),
                    // SAFETY: as above.
                    false => unsafe {
                        let x = &call.inputs.x[at * call.dims.i..][..call.dims.i];
                        self.sides.x.write::<S>(row, 0, x);
                    },
                }
            }
            if call.dw_hh.is_none() {
                continue;
            }
            let previous = self.previous(n, s);
            match call.inputs.mask {
                _ if skipped => write_zeros(&self.sides.g, h),
                // SAFETY: this row of the left sides is this thread's own until all meet.
                None => unsafe { self.sides.g.write::<S>(row, 0, previous) },
                Some(mask) => {
                    let mask = mask[n * h..][..h].chunks(masked.len());
                    for (k, (g, m)) in previous.chunks(masked.len()).zip(mask).enumerate() {
                        for (to, (&g, &m)) in masked.iter_mut().zip(g.iter().zip(m)) {
                            *to = g * m;
                        }
                        // SAFETY: as for the whole row.
                        unsafe {
                            let column = k * masked.len();
                            self.sides.g.write::<S>(row, column, &masked[..g.len()]);
                        }
                    }
                }
            }
        }
    }

    /// This thread's share of one product over the first `rows` rows of a round.
    #[inline(always)]
    pub(super) fn add_product<S: Simd>(
        &self,
        simd: S,
        product: &Outer<'_, E>,
        rows: usize,
        is_first: bool,
        member: &Member<'_>,
    ) {
        let (h, lanes, full) = (self.call.dims.h, E::lanes::<S>(), tile_rows::<S>());
        let tiles = product.columns.div_ceil(full);
        let panels = (product.gates.len() * h.div_ceil(lanes)).div_ceil(VECTORS);
        let share = member.share(panels * tiles);
        let mut at = share.start;
        while at < share.end {
            let panel = at / tiles;
            let end = ((panel + 1) * tiles).min(share.end);
            let (right, columns) = product.panel(&self.d, h, lanes, panel);
            let vectors = columns.iter().filter(|c| !c.is_empty()).count();
            let rows_of = |tile: usize| tile * full..((tile + 1) * full).min(product.columns);
            for tile in at - panel * tiles..end - panel * tiles {
                let to = rows_of(tile);
                // The left side is filled up with zeros.
                let size = to.len().next_power_of_two();
                // A round's sum begins at zero: added up row after row, a long sequence would lose
                // a digit for each tenfold of its rows.
                let mut sums = Sums::<E, S, VECTORS>::new(size, [E::real(simd, 0.0); VECTORS]);
                let mut lines = [std::ptr::null(); MAX_LINES];
                let mut count = 0;
                if tile + 1 < tiles {
                    for row in rows_of(tile + 1) {
                        for columns in &columns[..vectors] {
                            lines[count] = product.to.at(row).wrapping_add(columns.end - 1);
                            count += 1;
                        }
                    }
                }
                let left = product.left.cells.at(tile * product.left.rows);
                let left = Left::columns(left.cast_const(), full);
                let ahead = Ahead::near(&lines[..count]);
                // SAFETY: the left side and `d` have that many rows, all of them written before
                // the threads last met.
                unsafe { accumulate(simd, &mut sums, vectors, &left, rows, right, ahead) };
                for (sums, row) in sums.iter().zip(to) {
                    for (&sum, columns) in sums.iter().zip(&columns).take(vectors) {
                        // SAFETY: this tile of the gradient is this thread's own.
                        let to = unsafe { product.to.cells_mut(row, columns.clone()) };
                        let sum = match is_first {
                            true => sum,
                            false => E::vadd(simd, load::<E, S>(simd, to), sum),
                        };
                        store(simd, to, sum);
                    }
                }
            }
            at = end;
        }
    }

    /// `dx = dp·w_ihᵀ` of some rows of a round, or `dp` itself where the input is projected.
    #[inline(always)]
    pub(super) fn input_gradients<S: Simd>(&self, simd: S, first: usize, rows: Range<usize>) {
        let call = self.call;
        let Some(dx) = call.dx else { return };
        let (i, h, lanes) = (call.dims.i, call.dims.h, E::lanes::<S>());
        let place = |row: usize| {
            let (s, n) = (first + row / call.dims.n, row % call.dims.n);
            call.place.row(n, call.time.time(s))
        };
        let Some(w_ih) = &self.weights.input else {
            for row in rows {
                for gate in gate_of_d::ALL {
                    for unit in (0..h).step_by(lanes) {
                        let columns = gate * h + unit..gate * h + (unit + lanes).min(h);
                        // SAFETY: this row of dx is this thread's own; a block is at least a
                        // vector wide.
                        unsafe {
                            let v = E::load(simd, self.d.at(gate, unit, row));
                            store(simd, dx.cells_mut(place(row), columns), v);
                        }
                    }
                }
            }
            return;
        };
        for panel in 0..w_ih.count() {
            let vectors = (i.div_ceil(lanes) - panel * VECTORS).min(VECTORS);
            for (row, size) in tiles(rows.clone(), tile_rows::<S>()) {
                let mut sums = Sums::<E, S, VECTORS>::new(size, [E::real(simd, 0.0); VECTORS]);
                let right = w_ih.panel(panel);
                self.product(
                    simd,
                    (&mut sums, vectors),
                    row,
                    gate_of_d::ALL,
                    right,
                    Ahead::NOTHING,
                );
                for (m, &sums) in sums.iter().enumerate() {
                    let place = place(row + m);
                    // Zero times a weight need not be zero.
                    let skipped = self.is_skipped(place);
                    for (v, sum) in sums.into_iter().enumerate().take(vectors) {
                        let sum = if skipped { E::real(simd, 0.0) } else { sum };
                        let start = (panel * VECTORS + v) * lanes;
                        let columns = start..(start + lanes).min(i);
                        // SAFETY: this row of dx is this thread's own.
                        let to = unsafe { dx.cells_mut(place, columns) };
                        store(simd, to, sum);
                    }
                }
            }
        }
    }

    /// Adds `d·b` to the sums: rows of a round from `row` on, the units of some gates one after the
    /// other.
    #[inline(always)]
    pub(super) fn product<S: Simd>(
        &self,
        simd: S,
        (sums, vectors): (&mut Sums<E, S, VECTORS>, usize),
        row: usize,
        gates: Range<usize>,
        panel: Panel<E>,
        ahead: Ahead<'_, E>,
    ) {
        let h = self.call.dims.h;
        // SAFETY: `d` has these rows and gates, written before the threads last met, and nobody
        // writes them before they meet again; the caller's panel has a row for each unit.
        unsafe {
            if h.is_multiple_of(WIDTH) {
                // No block sticks out of a gate.
                let left = self.d.left(gates.start, row);
                return accumulate(simd, sums, vectors, &left, gates.len() * h, panel, ahead);
            }
            for (k, gate) in gates.enumerate() {
                let left = self.d.left(gate, row);
                let ahead = if k == 0 { ahead } else { Ahead::NOTHING };
                accumulate(simd, sums, vectors, &left, h, panel.skip(k * h), ahead);
            }
        }
    }

    /// This thread's share of the sums of `d` over the first `rows` rows of a round: blocks of rows in
    /// pairs, and block after block with what each rounding loses, so that the error does not grow
    /// with the length of the sequence.
    #[inline(always)]
    pub(super) fn add_bias<S: Simd>(&self, simd: S, rows: usize, member: &Member<'_>) {
        const BLOCK: usize = 8;
        let Some(bias) = self.call.bias else { return };
        let (h, lanes) = (self.call.dims.h, E::lanes::<S>());
        let per_gate = h.div_ceil(lanes);
        for vector in member.share(self.call.spec.saved_per_unit() * per_gate) {
            let (gate, unit) = (vector / per_gate, vector % per_gate * lanes);
            let units = unit..(unit + lanes).min(h);
            let from = self.d.at(gate, unit, 0);
            // SAFETY: these units of both are this thread's own.
            let (sums, lost) = unsafe {
                let lost = bias.lost.cells_mut(gate, units.clone());
                (bias.sums.cells_mut(gate, units), lost)
            };
            let mut sum = load::<E, S>(simd, sums);
            let mut lost_of_all = load::<E, S>(simd, lost);
            for first in (0..rows).step_by(BLOCK) {
                let mut block = [E::real(simd, 0.0); BLOCK];
                for (row, v) in (first..rows).zip(&mut block) {
                    // SAFETY: a block is at least a vector wide, and this one has so many rows.
                    *v = unsafe { E::load(simd, from.add(row * WIDTH)) };
                }
                for half in [4, 2, 1] {
                    for k in 0..half {
                        block[k] = E::vadd(simd, block[k], block[k + half]);
                    }
                }
                let (new, lost) = add_exactly::<E, S>(simd, sum, block[0]);
                sum = new;
                lost_of_all = E::vadd(simd, lost_of_all, lost);
            }
            store(simd, sums, sum);
            store(simd, lost, lost_of_all);
        }
    }
}

/// `a + b` rounded, and what that lost: Knuth's two-sum.
#[inline(always)]
fn add_exactly<E: Element, S: Simd>(simd: S, a: E::V<S>, b: E::V<S>) -> (E::V<S>, E::V<S>) {
    let sum = E::vadd(simd, a, b);
    let of_b = E::vsub(simd, sum, a);
    let of_a = E::vsub(simd, sum, of_b);
    let lost = E::vadd(simd, E::vsub(simd, a, of_a), E::vsub(simd, b, of_b));
    (sum, lost)
}
