//! The gates made anew from the states: what the lean mode does instead of keeping them. All states
//! are known, so no step waits for another, and rows of any steps share a tile.

use super::{
    buffer::Buffer,
    gate::{Apply, Gate, gates},
    is_common,
    isa::arch,
    math::{sigmoid, sigmoid_and_tanh, tanh},
    panels::{Panel, Panels},
    plan::tiles,
    rows::Rows,
    tile::{self, Ahead, Left, Sums, accumulate, load, store, tile_rows},
    weights::{CANDIDATE_VECTORS, Weights},
};
use crate::{
    dims::{Dims, Inputs},
    product::Element,
    settings,
    spec::{Direction, GruSpec, Layout, Reset},
};
use pulp::{Arch, Simd, WithSimd};
use std::{ops::Range, sync::atomic::AtomicUsize};

/// Rows that go through all panels together: enough to reuse each panel, few enough for what they
/// read to stay in the cache.
const ROWS: usize = 64;

/// Writes the gates to `saved`.
pub(crate) fn replay<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: &mut [E],
) {
    let arch = arch();
    arch.dispatch(Call {
        dims,
        spec,
        inputs,
        states,
        saved: Rows::new(saved, spec.saved_per_unit() * dims.h),
        arch,
    });
}

struct Call<'a, E> {
    dims: &'a Dims,
    spec: &'a GruSpec,
    inputs: &'a Inputs<'a, E>,
    states: &'a [E],
    saved: Rows<'a, E>,
    arch: Arch,
}

impl<E: Element> WithSimd for Call<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let rows = self.dims.rows();
        let weights = Weights::new::<S>(self.dims, self.spec, self.inputs);
        let gates = gates::<E, S>(simd, self.spec);
        let zeros = vec![E::zero(); self.dims.h];
        let next = AtomicUsize::new(0);
        let share = Share {
            call: &self,
            weights: &weights,
            gates: &gates,
            zeros: &zeros,
            next: &next,
        };
        let threads = settings::threads().min(rows.div_ceil(ROWS));
        if threads == 1 {
            return share.start();
        }
        rayon::in_place_scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|_| share.start());
            }
            share.start();
        });
    }
}

/// What one thread does: blocks of rows, as long as there are any.
struct Share<'a, 'b, E> {
    call: &'a Call<'b, E>,
    weights: &'a Weights<'b, E>,
    gates: &'a [Gate<E>; 3],
    zeros: &'a [E],
    /// First row that nobody has taken.
    next: &'a AtomicUsize,
}

impl<E> Clone for Share<'_, '_, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E> Copy for Share<'_, '_, E> {}

impl<E: Element> WithSimd for Share<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (is_common(self.call.spec), self.call.spec.reset) {
            (true, Reset::AfterMatmul) => self.run::<S, true, true>(simd),
            (false, Reset::AfterMatmul) => self.run::<S, false, true>(simd),
            (true, Reset::BeforeMatmul) => self.run::<S, true, false>(simd),
            (false, Reset::BeforeMatmul) => self.run::<S, false, false>(simd),
        }
    }
}

impl<E: Element> Share<'_, '_, E> {
    /// Out of line, or the code of every instruction set would hold that of all others.
    #[inline(never)]
    fn start(self) {
        self.call.arch.dispatch(self);
    }

    #[inline(always)]
    fn run<S: Simd, const COMMON: bool, const AFTER: bool>(self, simd: S) {
        use std::sync::atomic::Ordering::Relaxed;
        let (rows, h) = (self.call.dims.rows(), self.call.dims.h);
        let mut g = Buffer::new(if self.call.inputs.mask.is_some() {
            ROWS * h
        } else {
            0
        });
        let mut rg = Buffer::new(if AFTER { 0 } else { ROWS * h });
        let block = Block::<E, COMMON, AFTER> {
            share: &self,
            g: Rows::new(g.as_mut(), h),
            rg: Rows::new(rg.as_mut(), h),
        };
        loop {
            let first = self.next.fetch_add(ROWS, Relaxed);
            if first >= rows {
                return;
            }
            block.run::<S>(simd, first..(first + ROWS).min(rows));
        }
    }
}

/// One block of rows.
struct Block<'a, 'b, 'c, E, const COMMON: bool, const AFTER: bool> {
    share: &'a Share<'b, 'c, E>,
    /// With a mask: `m ⊙ h₋₁`.
    g: Rows<'a, E>,
    /// Reset before the product: `r ⊙ g`.
    rg: Rows<'a, E>,
}

impl<E: Element, const COMMON: bool, const AFTER: bool> Block<'_, '_, '_, E, COMMON, AFTER> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, rows: Range<usize>) {
        let Share { call, weights, .. } = *self.share;
        let h = call.dims.h;
        if let Some(mask) = call.inputs.mask {
            for (at, row) in rows.clone().enumerate() {
                let (n, previous) = self.previous(row);
                // SAFETY: the block's own scratch.
                let g = unsafe { self.g.cells_mut(at, 0..h) };
                for ((g, &state), &m) in g.iter_mut().zip(previous).zip(&mask[n * h..]) {
                    *g = state * m;
                }
            }
        }
        let tiles = tiles(rows.len(), tile_rows::<S>());
        for panel in 0..weights.state.count() {
            for &(row, size) in &tiles {
                self.gates(simd, rows.start, (row, size), panel);
            }
        }
        if !COMMON {
            self.apply(simd, 0, &rows);
            self.apply(simd, 1, &rows);
            for (at, row) in rows.clone().enumerate() {
                self.combine(simd, at, row);
            }
        }
        for panel in 0..weights.candidate.as_ref().map_or(0, Panels::count) {
            for &(row, size) in &tiles {
                self.candidate(simd, rows.start, (row, size), panel);
            }
        }
        if !(COMMON || AFTER) {
            self.apply(simd, 2, &rows);
        }
    }

    /// Applies a gate to all units of some rows, in place.
    #[inline(always)]
    fn apply<S: Simd>(&self, simd: S, gate: usize, rows: &Range<usize>) {
        let h = self.share.call.dims.h;
        simd.vectorize(Apply {
            gate: &self.share.gates[gate],
            rows: self.share.call.saved,
            range: rows.clone(),
            columns: gate * h..(gate + 1) * h,
        });
    }

    /// From r, q_n and p_n of a row to the candidate's pre-activation, or from r to `r ⊙ g`.
    #[inline(always)]
    fn combine<S: Simd>(&self, simd: S, at: usize, row: usize) {
        let h = self.share.call.dims.h;
        for start in (0..h).step_by(E::lanes::<S>()) {
            let units = start..(start + E::lanes::<S>()).min(h);
            let r = load::<E, S>(simd, self.saved(row, 0, &units));
            if AFTER {
                let p_n = load::<E, S>(simd, self.saved(row, 2, &units));
                let q = load::<E, S>(simd, self.saved(row, 3, &units));
                store(simd, self.saved(row, 2, &units), E::vfma(simd, r, q, p_n));
            } else {
                self.reset(simd, r, at, row, &units);
            }
        }
        if AFTER {
            self.apply(simd, 2, &(row..row + 1));
        }
    }

    /// Which row of the batch stands at a row of memory, and its state before that step.
    #[inline(always)]
    fn previous(&self, row: usize) -> (usize, &[E]) {
        let call = self.share.call;
        let Dims { n, t, h, .. } = *call.dims;
        let (k, time, step) = match call.spec.layout {
            Layout::BatchMajor => (row / t, row % t, 1),
            Layout::TimeMajor => (row % n, row / n, n),
        };
        let (is_first, before) = match call.spec.direction {
            Direction::Forward => (time == 0, row.wrapping_sub(step)),
            Direction::Reverse => (time + 1 == t, row + step),
        };
        let state = match (is_first, call.inputs.h0) {
            (false, _) => &call.states[before * h..][..h],
            (true, Some(h0)) => &h0[k * h..][..h],
            (true, None) => self.share.zeros,
        };
        (k, state)
    }

    /// The left side of the recurrent product, for row `at` of the block.
    #[inline(always)]
    fn source(&self, at: usize, row: usize) -> *const E {
        match self.share.call.inputs.mask {
            Some(_) => self.g.at(at),
            None => self.previous(row).1.as_ptr(),
        }
    }

    /// Some units of a saved gate.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // `Rows` is what this borrows from, not `self`.
    fn saved(&self, row: usize, gate: usize, units: &Range<usize>) -> &mut [E] {
        let at = gate * self.share.call.dims.h;
        // SAFETY: this row is in this thread's block, and no caller holds two slices of the same
        // cells.
        unsafe {
            self.share
                .call
                .saved
                .cells_mut(row, at + units.start..at + units.end)
        }
    }

    /// One tile of a panel: all gates, or r, z, the input product of n, and `r ⊙ g`.
    #[inline(always)]
    fn gates<S: Simd>(&self, simd: S, first: usize, (at, size): (usize, usize), panel: usize) {
        let Share { call, weights, .. } = *self.share;
        let Dims { i, h, .. } = *call.dims;
        let lanes = E::lanes::<S>();
        let units = panel * lanes..((panel + 1) * lanes).min(h);
        let features = if weights.input.is_some() { i } else { 3 * h };
        let [b_r, b_z, b_n, b_hn] = weights.bias(simd, panel);
        let mut x: [&[E]; tile::ROWS] = [&[]; tile::ROWS];
        let mut g = [std::ptr::null(); tile::ROWS];
        for (m, (x, g)) in x.iter_mut().zip(&mut g).enumerate().take(size) {
            let row = first + at + m;
            *x = &call.inputs.x[row * features..][..features];
            *g = self.source(at + m, row);
        }
        let mut sums = Sums::<E, S, 3>::new(size, [b_r, b_z, b_n]);
        match &weights.input {
            // SAFETY: each row has I elements, and so many rows has the panel.
            Some(w_ih) => unsafe {
                let (x, panel) = (x.map(<[E]>::as_ptr), w_ih.panel(panel));
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
                store(simd, self.saved(first + at + m, 2, &units), sums[2]);
                sums[2] = b_hn;
            }
            self.product(simd, &mut sums, 3, &g, w_hh);
            for (m, &[r, z, q]) in sums.iter().enumerate() {
                let row = first + at + m;
                let (mut r, mut z) = (r, z);
                if COMMON {
                    let p_n = load::<E, S>(simd, self.saved(row, 2, &units));
                    r = sigmoid::<E, S>(simd, r);
                    let n;
                    (z, n) = sigmoid_and_tanh::<E, S>(simd, z, E::vfma(simd, r, q, p_n));
                    store(simd, self.saved(row, 2, &units), n);
                }
                store(simd, self.saved(row, 0, &units), r);
                store(simd, self.saved(row, 1, &units), z);
                store(simd, self.saved(row, 3, &units), q);
            }
        } else {
            let mut two = Sums::<E, S, 2>::new(size, [b_r; 2]);
            for (two, &[r, z, _]) in two.iter_mut().zip(&*sums) {
                *two = [r, z];
            }
            self.product(simd, &mut two, 2, &g, w_hh);
            for (m, &[r, z]) in two.iter().enumerate() {
                let row = first + at + m;
                let (mut r, mut z) = (r, z);
                if COMMON {
                    (r, z) = (sigmoid::<E, S>(simd, r), sigmoid::<E, S>(simd, z));
                    self.reset(simd, r, at + m, row, &units);
                }
                store(simd, self.saved(row, 0, &units), r);
                store(simd, self.saved(row, 1, &units), z);
                store(simd, self.saved(row, 2, &units), sums[m][2]);
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
        let h = self.share.call.dims.h;
        // SAFETY: the rows are states or the block's scratch, H elements each, which nobody writes
        // meanwhile; the panel has H rows.
        unsafe { accumulate(simd, sums, vectors, rows, h, panel, Ahead::NOTHING) };
    }

    /// Some units of `r ⊙ g`, into row `at` of the block's scratch.
    #[inline(always)]
    fn reset<S: Simd>(&self, simd: S, r: E::V<S>, at: usize, row: usize, units: &Range<usize>) {
        // SAFETY: a source has H elements, and the scratch is the block's own.
        unsafe {
            let g = self.source(at, row).add(units.start);
            let g = load::<E, S>(simd, std::slice::from_raw_parts(g, units.len()));
            store(
                simd,
                self.rg.cells_mut(at, units.clone()),
                E::vmul(simd, r, g),
            );
        }
    }

    /// Reset before the product, second half: the candidate of some vectors of units.
    #[inline(always)]
    fn candidate<S: Simd>(&self, simd: S, first: usize, (at, size): (usize, usize), panel: usize) {
        let (h, lanes) = (self.share.call.dims.h, E::lanes::<S>());
        let Some(weights) = &self.share.weights.candidate else {
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
            *to = self.rg.at(at + m).cast_const();
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = load::<E, S>(simd, self.saved(first + at + m, 2, &units(v)));
            }
        }
        self.product(
            simd,
            &mut sums,
            CANDIDATE_VECTORS,
            &rows,
            weights.panel(panel),
        );
        for (m, &sums) in sums.iter().enumerate() {
            for (v, n) in sums.into_iter().enumerate() {
                let n = if COMMON { tanh::<E, S>(simd, n) } else { n };
                store(simd, self.saved(first + at + m, 2, &units(v)), n);
            }
        }
    }
}
