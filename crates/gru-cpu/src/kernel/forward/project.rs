//! The input product of a round.

use super::{Call, Group};
use crate::{
    dims::Inputs,
    element::Element,
    kernel::{
        plan::CUT,
        tile::{Ahead, Left, ROWS, Sums, accumulate, accumulate_in_order, load, tile_rows},
    },
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// The input product and the biases of all steps of a round, for some panels.
pub(super) struct Project<'a, 'b, E> {
    pub(super) group: &'a Group<'b, E>,
    pub(super) steps: Range<usize>,
    pub(super) panels: Range<usize>,
}

impl<E: Element> WithSimd for Project<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.group.project::<S>(simd, self.steps, self.panels);
    }
}

impl<E: Element> Group<'_, E> {
    /// The row of `p` for the group's row `row` at the `s`-th step of a round.
    #[inline(always)]
    pub(super) fn place_in_p(&self, panel: usize, s: usize, row: usize) -> usize {
        (panel * self.steps + s) * self.rows.len() + row
    }

    /// The input product and the biases of all steps of a round, for some panels.
    #[inline(always)]
    fn project<S: Simd>(&self, simd: S, steps: Range<usize>, panels: Range<usize>) {
        let count = self.rows.len() * steps.len();
        for panel in panels {
            let mut row = 0;
            while row < count {
                let size = match count - row {
                    8.. if tile_rows::<S>() == 8 => 8,
                    4.. => 4,
                    2.. => 2,
                    _ => 1,
                };
                self.project_tile(simd, steps.start, (row, size), panel);
                row += size;
            }
        }
    }

    #[inline(always)]
    fn project_tile<S: Simd>(
        &self,
        simd: S,
        first: usize,
        (row, size): (usize, usize),
        panel: usize,
    ) {
        let Call { inputs, dims, .. } = *self.call;
        let (i, h, lanes) = (dims.i, dims.h, E::lanes::<S>());
        let features = if self.weights.input.is_some() {
            i
        } else {
            3 * h
        };
        let mut x: [&[E]; ROWS] = [&[]; ROWS];
        let (mut s, mut n) = (first + row / self.rows.len(), row % self.rows.len());
        for x in &mut x[..size] {
            let at = self
                .call
                .place
                .row(self.rows.start + n, self.call.time.time(s));
            *x = &inputs.x[at * features..][..features];
            n += 1;
            if n == self.rows.len() {
                (s, n) = (s + 1, 0);
            }
        }
        let [b_r, b_z, b_n, _] = self.weights.bias(simd, panel);
        let mut sums = Sums::<E, S, 3>::new(size, [b_r, b_z, b_n]);
        match &self.weights.input {
            // SAFETY: each row has I elements, and so many rows has the panel.
            Some(w_ih) => unsafe {
                let (x, panel) = (Left::dense(x.map(<[E]>::as_ptr)), w_ih.panel(panel));
                if dims.rows() < CUT {
                    // The few rows of a call of one step: no order but the fastest.
                    accumulate(simd, &mut sums, 3, &x, i, panel, Ahead::NOTHING);
                } else {
                    // Which rows are left over for a small tile depends on the threads.
                    accumulate_in_order(simd, &mut sums, &x, i, panel);
                }
            },
            None => {
                let units = panel * lanes..((panel + 1) * lanes).min(h);
                for (sums, x) in sums.iter_mut().zip(x) {
                    for (gate, sum) in sums.iter_mut().enumerate() {
                        let x = load::<E, S>(simd, &x[gate * h..][units.clone()]);
                        *sum = E::vadd(simd, *sum, x);
                    }
                }
            }
        }
        for (m, &sums) in sums.iter().enumerate() {
            let p = self.p.at(panel * self.steps * self.rows.len() + row + m);
            for (gate, sum) in sums.into_iter().enumerate() {
                // SAFETY: a row of `p` is three vectors, and this panel is this thread's own.
                unsafe { E::store(simd, p.add(gate * lanes), sum) };
            }
        }
    }

    /// `m ⊙ h₀` of some units, for the first step.
    pub(super) fn mask_initial(&self, units: Range<usize>) {
        let Inputs { h0, mask, .. } = *self.call.inputs;
        let h = self.call.dims.h;
        let Some(mask) = mask else { return };
        for (at, n) in self.rows.clone().enumerate() {
            // SAFETY: until the threads meet, these units are this thread's own.
            let g = unsafe { self.g.cells_mut(at, units.clone()) };
            for (g, unit) in g.iter_mut().zip(units.clone()) {
                *g = h0.map_or(E::zero(), |h0| h0[n * h + unit]) * mask[n * h + unit];
            }
        }
    }
}
