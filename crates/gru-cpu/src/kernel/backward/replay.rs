//! The gates of a round made anew from the states: what the lean mode does instead of keeping them.
//! All states are known, so no step waits for another, and rows of any steps share a tile.

use super::Work;
use crate::{
    dims::Dims,
    element::Element,
    kernel::{
        gate::Apply,
        panels::{Panel, Panels},
        plan::tiles,
        rows::Rows,
        tile::{self, Ahead, Left, Sums, accumulate, load, store, tile_rows},
        weights::{CANDIDATE_VECTORS, Weights},
    },
};
use pulp::Simd;
use std::ops::Range;

/// What making the gates anew needs beside the inputs.
pub(super) struct Replay<'a, E> {
    pub(super) weights: Weights<'a, E>,
    /// The gates, for each row of a round.
    pub(super) made: Rows<'a, E>,
    /// With a mask: `m ⊙ h₋₁`.
    pub(super) g: Rows<'a, E>,
    /// Reset before the product: `r ⊙ g`.
    pub(super) rg: Rows<'a, E>,
}

impl<E: Element> Work<'_, E> {
    /// Makes the gates of some rows of a round that begins with step `first`.
    #[inline(always)]
    pub(super) fn replay<S: Simd, const COMMON: bool, const AFTER: bool>(
        &self,
        simd: S,
        first: usize,
        rows: Range<usize>,
    ) {
        if let Some(replay) = &self.replay {
            let work = self;
            Block::<E, COMMON, AFTER> {
                work,
                replay,
                first,
            }
            .run(simd, rows);
        }
    }
}

/// Some rows of a round.
struct Block<'a, 'b, E, const COMMON: bool, const AFTER: bool> {
    work: &'a Work<'b, E>,
    replay: &'a Replay<'b, E>,
    /// First step of the round.
    first: usize,
}

impl<E: Element, const COMMON: bool, const AFTER: bool> Block<'_, '_, E, COMMON, AFTER> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, rows: Range<usize>) {
        let (call, weights) = (self.work.call, &self.replay.weights);
        let h = call.dims.h;
        if let Some(mask) = call.inputs.mask {
            for row in rows.clone() {
                let n = self.step(row).0;
                // SAFETY: these rows are this thread's own.
                let g = unsafe { self.replay.g.cells_mut(row, 0..h) };
                let sources = self.previous(row).iter().zip(&mask[n * h..]);
                for (g, (&state, &m)) in g.iter_mut().zip(sources) {
                    *g = state * m;
                }
            }
        }
        let tiles = tiles(rows.clone(), tile_rows::<S>());
        for panel in 0..weights.state.count() {
            for (row, size) in tiles.clone() {
                self.gates(simd, (row, size), panel);
            }
        }
        if !COMMON {
            self.apply(simd, 0, &rows);
            self.apply(simd, 1, &rows);
            for row in rows.clone() {
                self.combine(simd, row);
            }
        }
        for panel in 0..weights.candidate.as_ref().map_or(0, Panels::count) {
            for (row, size) in tiles.clone() {
                self.candidate(simd, (row, size), panel);
            }
        }
        if !(COMMON || AFTER) {
            self.apply(simd, 2, &rows);
        }
    }

    /// Applies a gate to all units of some rows, in place.
    #[inline(always)]
    fn apply<S: Simd>(&self, simd: S, gate: usize, rows: &Range<usize>) {
        let h = self.work.call.dims.h;
        simd.vectorize(Apply {
            gate: &self.work.gates[gate],
            rows: self.replay.made,
            range: rows.clone(),
            columns: gate * h..(gate + 1) * h,
        });
    }

    /// From r, q_n and p_n of a row to the candidate's pre-activation, or from r to `r ⊙ g`.
    #[inline(always)]
    fn combine<S: Simd>(&self, simd: S, row: usize) {
        let h = self.work.call.dims.h;
        for start in (0..h).step_by(E::lanes::<S>()) {
            let units = start..(start + E::lanes::<S>()).min(h);
            let r = load::<E, S>(simd, self.made(row, 0, &units));
            if AFTER {
                let p_n = load::<E, S>(simd, self.made(row, 2, &units));
                let q = load::<E, S>(simd, self.made(row, 3, &units));
                store(simd, self.made(row, 2, &units), E::vfma(simd, r, q, p_n));
            } else {
                self.reset(simd, r, row, &units);
            }
        }
        if AFTER {
            self.apply(simd, 2, &(row..row + 1));
        }
    }

    /// The row of the batch, and the step, of a row of the round.
    #[inline(always)]
    fn step(&self, row: usize) -> (usize, usize) {
        let n = self.work.call.dims.n;
        (row % n, self.first + row / n)
    }

    /// The state before a row.
    #[inline(always)]
    fn previous(&self, row: usize) -> &[E] {
        let (n, s) = self.step(row);
        self.work.previous(n, s)
    }

    /// The left side of the recurrent product.
    #[inline(always)]
    fn source(&self, row: usize) -> *const E {
        match self.work.call.inputs.mask {
            Some(_) => self.replay.g.at(row),
            None => self.previous(row).as_ptr(),
        }
    }

    /// Some units of a gate.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // `Rows` is what this borrows from, not `self`.
    fn made(&self, row: usize, gate: usize, units: &Range<usize>) -> &mut [E] {
        let at = gate * self.work.call.dims.h;
        // SAFETY: this row is this thread's own, and no caller holds two slices of the same cells.
        unsafe {
            self.replay
                .made
                .cells_mut(row, at + units.start..at + units.end)
        }
    }

    /// One tile of a panel: all gates, or r, z, the input product of n, and `r ⊙ g`.
    #[inline(always)]
    fn gates<S: Simd>(&self, simd: S, (first, size): (usize, usize), panel: usize) {
        let (call, weights) = (self.work.call, &self.replay.weights);
        let Dims { i, h, .. } = *call.dims;
        let lanes = E::lanes::<S>();
        let units = panel * lanes..((panel + 1) * lanes).min(h);
        let features = if weights.input.is_some() { i } else { 3 * h };
        let [b_r, b_z, b_n, b_hn] = weights.bias(simd, panel);
        let mut x: [&[E]; tile::ROWS] = [&[]; tile::ROWS];
        let mut g = [std::ptr::null(); tile::ROWS];
        for (m, (x, g)) in x.iter_mut().zip(&mut g).enumerate().take(size) {
            let (n, s) = self.step(first + m);
            *x = &call.inputs.x[self.work.place(n, s) * features..][..features];
            *g = self.source(first + m);
        }
        let mut sums = Sums::<E, S, 3>::new(size, [b_r, b_z, b_n]);
        match &weights.input {
            // SAFETY: each row has I elements, and so many rows has the panel.
            Some(w_ih) => unsafe {
                let (x, panel) = (Left::dense(x.map(<[E]>::as_ptr)), w_ih.panel(panel));
                accumulate(simd, &mut sums, 3, &x, i, panel, Ahead::NOTHING);
            },
            None => {
                for (sums, x) in sums.iter_mut().zip(x) {
                    for (gate, sum) in sums.iter_mut().enumerate() {
                        let x = load::<E, S>(simd, &x[gate * h..][units.clone()]);
                        *sum = E::vadd(simd, *sum, x);
                    }
                }
            }
        }
        let w_hh = weights.state.panel(panel);
        if AFTER {
            // The candidate's two products stay apart.
            for (m, sums) in sums.iter_mut().enumerate() {
                store(simd, self.made(first + m, 2, &units), sums[2]);
                sums[2] = b_hn;
            }
            self.product(simd, &mut sums, 3, &Left::dense(g), w_hh);
            for (m, &[r, z, q]) in sums.iter().enumerate() {
                let row = first + m;
                let (mut r, mut z) = (r, z);
                if COMMON {
                    let p_n = load::<E, S>(simd, self.made(row, 2, &units));
                    r = E::vsigmoid(simd, r).0;
                    z = E::vsigmoid(simd, z).0;
                    let n = E::vtanh(simd, E::vfma(simd, r, q, p_n));
                    store(simd, self.made(row, 2, &units), n);
                }
                store(simd, self.made(row, 0, &units), r);
                store(simd, self.made(row, 1, &units), z);
                store(simd, self.made(row, 3, &units), q);
            }
        } else {
            let mut two = Sums::<E, S, 2>::new(size, [b_r; 2]);
            for (two, &[r, z, _]) in two.iter_mut().zip(&*sums) {
                *two = [r, z];
            }
            self.product(simd, &mut two, 2, &Left::dense(g), w_hh);
            for (m, &[r, z]) in two.iter().enumerate() {
                let row = first + m;
                let (mut r, mut z) = (r, z);
                if COMMON {
                    (r, z) = (E::vsigmoid(simd, r).0, E::vsigmoid(simd, z).0);
                    self.reset(simd, r, row, &units);
                }
                store(simd, self.made(row, 0, &units), r);
                store(simd, self.made(row, 1, &units), z);
                store(simd, self.made(row, 2, &units), sums[m][2]);
            }
        }
    }

    #[inline(always)]
    fn product<S: Simd, const NV: usize>(
        &self,
        simd: S,
        sums: &mut Sums<E, S, NV>,
        vectors: usize,
        rows: &Left<E>,
        panel: Panel<E>,
    ) {
        let h = self.work.call.dims.h;
        // SAFETY: the rows are states or the block's scratch, H elements each, which nobody writes
        // meanwhile; the panel has H rows.
        unsafe { accumulate(simd, sums, vectors, rows, h, panel, Ahead::NOTHING) };
    }

    /// Some units of `r ⊙ g`.
    #[inline(always)]
    fn reset<S: Simd>(&self, simd: S, r: E::V<S>, row: usize, units: &Range<usize>) {
        // SAFETY: a source has H elements, and this row is this thread's own.
        unsafe {
            let g = self.source(row).add(units.start);
            let g = load::<E, S>(simd, std::slice::from_raw_parts(g, units.len()));
            store(
                simd,
                self.replay.rg.cells_mut(row, units.clone()),
                E::vmul(simd, r, g),
            );
        }
    }

    /// Reset before the product, second half: the candidate of some vectors of units.
    #[inline(always)]
    fn candidate<S: Simd>(&self, simd: S, (first, size): (usize, usize), panel: usize) {
        let (h, lanes) = (self.work.call.dims.h, E::lanes::<S>());
        let Some(weights) = &self.replay.weights.candidate else {
            return;
        };
        let units = |v: usize| {
            let start = ((panel * CANDIDATE_VECTORS + v) * lanes).min(h);
            start..(start + lanes).min(h)
        };
        let zeros = [E::real(simd, 0.0); CANDIDATE_VECTORS];
        let mut sums = Sums::<E, S, CANDIDATE_VECTORS>::new(size, zeros);
        let mut rows = [std::ptr::null(); tile::ROWS];
        for (m, (sums, to)) in sums.iter_mut().zip(&mut rows).enumerate() {
            *to = self.replay.rg.at(first + m).cast_const();
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = load::<E, S>(simd, self.made(first + m, 2, &units(v)));
            }
        }
        self.product(
            simd,
            &mut sums,
            CANDIDATE_VECTORS,
            &Left::dense(rows),
            weights.panel(panel),
        );
        for (m, &sums) in sums.iter().enumerate() {
            for (v, n) in sums.into_iter().enumerate() {
                let n = if COMMON { E::vtanh(simd, n) } else { n };
                store(simd, self.made(first + m, 2, &units(v)), n);
            }
        }
    }
}
