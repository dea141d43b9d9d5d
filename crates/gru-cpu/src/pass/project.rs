//! The input product of a round.

use super::weights::Weights;
use crate::{
    call::{Call, LiveRows},
    product::{ROWS, Rows, Sums},
    simd::Lanes,
    tuning::{registers, tile_rows},
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

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

/// `p`, the input product with biases of a round. For each panel and each row of the round it holds a
/// vector of r, z and n.
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

/// Computes `p` for some rows of a round and some panels. No other thread reads or writes them before the
/// next barrier.
pub(super) struct Project<'a, E> {
    pub(super) call: &'a Call<'a, E>,
    pub(super) weights: &'a Weights<'a, E>,
    pub(super) round: RoundRows<'a>,
    pub(super) rows: Range<usize>,
    pub(super) panels: Range<usize>,
    pub(super) p: InputProduct<'a, E>,
}

impl<E: Lanes> WithSimd for Project<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for panel in self.panels.clone() {
            let mut row = self.rows.start;
            while row < self.rows.end {
                // A tile may hold rows of several steps.
                let size = match self.rows.end - row {
                    8.. if tile_rows(registers::<S>()) == 8 => 8,
                    4.. => 4,
                    2.. => 2,
                    _ => 1,
                };
                self.tile(simd, row..row + size, panel);
                row += size;
            }
        }
    }
}

impl<E: Lanes> Project<'_, E> {
    #[inline(always)]
    fn tile<S: Simd>(&self, simd: S, rows: Range<usize>, panel: usize) {
        let mut x: [&[E]; ROWS] = [&[]; ROWS];
        let (mut n, mut s) = self.round.place(rows.start);
        for x in &mut x[..rows.len()] {
            *x = self.call.x(self.call.row(n, s));
            n += 1;
            if n == self.round.batch.start + self.round.at(s) {
                (n, s) = (self.round.batch.start, s + 1);
            }
        }
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, rows.len());
        self.weights.project(simd, self.call, &x, panel, &mut sums);
        for (row, sums) in rows.zip(sums.iter()) {
            let p = self.p.cells.at(self.p.row(panel, row));
            for (gate, &sum) in sums.iter().enumerate() {
                // SAFETY: a row of `p` has three vectors, and no other thread reads or writes this one.
                unsafe { E::store(simd, p.add(gate * E::lanes::<S>()), sum) };
            }
        }
    }
}
