//! The input product of a round.

use super::{
    by_rows::{RowMatrix, RowMemory},
    units,
    weights::{ForwardWeights, Matrices},
};
use crate::{
    call::{Call, LiveRows},
    product::{ROWS, Rows, Sums},
    simd::Lanes,
    threads::tiles,
    tuning::{registers, tile_rows},
};
use core::ops::Range;
use pulp::Simd;

/// Some rows of the batch at some steps. They are numbered step by step.
#[derive(Clone)]
pub(super) struct RoundRows<'a> {
    /// Rows of the batch.
    pub(super) batch: Range<usize>,
    /// The first step.
    pub(super) first_step: usize,
    /// If rows have different lengths: the rows that are live at a step.
    pub(super) live: Option<&'a LiveRows>,
}

impl RoundRows<'_> {
    /// The number of rows in the first steps, up to `end`.
    #[inline(always)]
    pub(super) fn before(&self, end: usize) -> usize {
        match self.live {
            None => (end - self.first_step) * self.batch.len(),
            Some(live) => live.rows(&(self.first_step..end)),
        }
    }

    /// The number of rows at a step: the first of the batch.
    #[inline(always)]
    pub(super) fn at(&self, s: usize) -> usize {
        match self.live {
            None => self.batch.len(),
            Some(live) => live.live(s),
        }
    }

    /// The row of the batch, and the step, of a row of the round.
    #[inline(always)]
    pub(super) fn place(&self, row: usize) -> (usize, usize) {
        let (at, s) = match self.live {
            None => {
                let per_step = self.batch.len();
                (row % per_step, self.first_step + row / per_step)
            }
            Some(live) => live.place(self.first_step, row),
        };
        (self.batch.start + at, s)
    }
}

/// `p`, the input product of a round. For each panel and each row of the round it holds a vector of r, z and n, with
/// biases. If products are written to memory, it holds rows `[3H]` without biases.
#[derive(Clone, Copy)]
pub(super) struct InputProduct<'a, E> {
    pub(super) cells: Rows<'a, E>,
    /// Rows of a round.
    pub(super) per_panel: usize,
}

impl<E> InputProduct<'_, E> {
    /// The row of `cells` for a panel and a row of the round.
    #[inline(always)]
    pub(super) fn row(&self, panel: usize, row: usize) -> usize {
        panel * self.per_panel + row
    }
}

/// A vector of a row of `p`: of r, z or n.
///
/// # Safety
/// The row is complete.
#[inline(always)]
pub(super) unsafe fn slot_of<E: Lanes, S: Simd>(simd: S, row: *mut E, slot: usize) -> E::V<S> {
    // SAFETY: a row of `p` has three vectors, and no thread writes them now.
    unsafe { E::load(simd, row.add(slot * E::lanes::<S>())) }
}

/// Computes `p` for some rows of a round and some panels. No other thread reads or writes them before the
/// next barrier.
pub(super) struct Project<'a, E> {
    pub(super) call: &'a Call<'a, E>,
    pub(super) weights: &'a ForwardWeights<'a, E>,
    pub(super) round: RoundRows<'a>,
    pub(super) rows: Range<usize>,
    pub(super) panels: Range<usize>,
    pub(super) p: InputProduct<'a, E>,
    pub(super) memory: RowMemory<'a, E>,
}

impl<E: Lanes> Project<'_, E> {
    /// On WebAssembly this is a separate function, as the only row of a step.
    #[cfg_attr(target_family = "wasm", inline(never))]
    #[cfg_attr(not(target_family = "wasm"), inline(always))]
    pub(super) fn run<S: Simd>(&self, simd: S) {
        if let Matrices::ByRows(matrices) = &self.weights.matrices {
            return self.by_rows(simd, matrices.input.as_ref());
        }
        for panel in self.panels.clone() {
            // A tile may hold rows of several steps.
            for tile in tiles(self.rows.clone(), tile_rows(registers::<S>())) {
                let x = self.x(tile.range());
                // SAFETY: these are rows of x.
                unsafe { self.tile(simd, tile.range(), &x, panel) };
            }
        }
    }

    /// The products as they are. The gates add the biases.
    #[inline(always)]
    fn by_rows<S: Simd>(&self, simd: S, w_ih: Option<&RowMatrix<'_, E>>) {
        let h = self.call.sizes.h;
        let units = units(self.panels.clone(), E::lanes::<S>(), h);
        let x = |row: usize| {
            let (n, s) = self.round.place(row);
            self.call.x(self.call.row(n, s)).as_ptr()
        };
        if let Some(w_ih) = w_ih {
            let (rows, products) = (self.rows.clone(), self.p.cells);
            let memory = RowMemory {
                products,
                ..self.memory
            };
            // SAFETY: x has these rows, and the units of these panels belong to this thread.
            return unsafe { w_ih.multiply(simd, (rows, x), 0..3, &units, &memory) };
        }
        for row in self.rows.clone() {
            for start in [0, 1, 2].map(|gate| gate * h + units.start) {
                // SAFETY: x has rows of the product, and these units of `p` belong to this thread.
                unsafe {
                    let to = self.p.cells.at(row).add(start);
                    to.copy_from_nonoverlapping(x(row).add(start), units.len());
                }
            }
        }
    }

    /// The first rows of x of some rows of the round.
    #[inline(always)]
    fn x(&self, rows: Range<usize>) -> [*const E; ROWS] {
        let mut x = [core::ptr::null(); ROWS];
        let (mut n, mut s) = self.round.place(rows.start);
        for x in &mut x[..rows.len()] {
            let row = self.call.x(self.call.row(n, s));
            *x = row.as_ptr();
            n += 1;
            if n == self.round.batch.start + self.round.at(s) {
                (n, s) = (self.round.batch.start, s + 1);
            }
        }
        x
    }

    /// One tile of [`ForwardWeights::project`].
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn tile<S: Simd>(
        &self,
        simd: S,
        rows: Range<usize>,
        x: &[*const E; ROWS],
        panel: usize,
    ) {
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, rows.len());
        // SAFETY: the caller keeps the same promise.
        unsafe { self.weights.project(simd, self.call, x, panel, &mut sums) };
        for (row, sums) in rows.zip(sums.iter()) {
            let p = self.p.cells.at(self.p.row(panel, row));
            for (gate, &sum) in sums.iter().enumerate() {
                // SAFETY: a row of `p` has three vectors, and no other thread reads or writes this one.
                unsafe { E::store(simd, p.add(gate * E::lanes::<S>()), sum) };
            }
        }
    }
}
