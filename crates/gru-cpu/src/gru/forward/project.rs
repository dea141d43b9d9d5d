//! The input product of a round.

use super::{Group, Pass};
use crate::{
    product::{ROWS, Sums},
    simd::Lanes,
    tuning::{registers, tile_rows},
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// The input product and the biases of all steps of a round, for some panels: this thread's own
/// until the threads meet.
pub(super) struct Project<'a, 'b, E> {
    pub(super) group: &'a Group<'b, E>,
    pub(super) steps: Range<usize>,
    pub(super) panels: Range<usize>,
}

impl<E: Lanes> WithSimd for Project<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let count = self.group.rows.len() * self.steps.len();
        for panel in self.panels.clone() {
            let mut row = 0;
            while row < count {
                // Rows of all steps follow each other; a tile takes what is there.
                let size = match count - row {
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

impl<E: Lanes> Project<'_, '_, E> {
    #[inline(always)]
    fn tile<S: Simd>(&self, simd: S, rows: Range<usize>, panel: usize) {
        let group = self.group;
        let Pass { call, weights, .. } = group.pass;
        let per_step = group.rows.len();
        let mut x: [&[E]; ROWS] = [&[]; ROWS];
        let (mut s, mut n) = (
            self.steps.start + rows.start / per_step,
            rows.start % per_step,
        );
        for x in &mut x[..rows.len()] {
            *x = call.x(call.row(group.rows.start + n, s));
            n += 1;
            if n == per_step {
                (s, n) = (s + 1, 0);
            }
        }
        let mut sums = Sums::<E, S>::new();
        sums.clear(simd, rows.len());
        weights.project(simd, call, &x, panel, &mut sums);
        let first = group.place_in_p(panel, 0, 0);
        for (row, sums) in rows.zip(sums.iter()) {
            let p = group.p.at(first + row);
            for (gate, &sum) in sums.iter().enumerate() {
                // SAFETY: a row of `p` is three vectors, and this panel is this thread's own.
                unsafe { E::store(simd, p.add(gate * E::lanes::<S>()), sum) };
            }
        }
    }
}
