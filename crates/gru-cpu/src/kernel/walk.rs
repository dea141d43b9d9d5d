//! The forward walk.

use super::{
    math::{sigmoid, tanh},
    rows::Rows,
    run, shares,
    tile::{Panels, pack_rows, tile},
    tile_rows, tiles,
};
use crate::{
    dims::{Dims, Inputs, Walk},
    spec::{GruSpec, Update},
};
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;

/// Walks through time: turns `p`, in the first `3H` of `width` columns of `gates`, into the gates,
/// in place, and writes the states. With room behind them (`width = 4H`) `q_n` is kept there;
/// with `width = 3H` nothing is kept and `gates` ends as it began.
pub(crate) fn walk(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, f32>,
    gates: &mut [f32],
    width: usize,
    states: &mut [f32],
) {
    Arch::new().dispatch(Forward {
        dims,
        spec,
        inputs,
        gates: Rows::new(gates, width),
        keep: width == 4 * dims.h,
        states: Rows::new(states, dims.h),
    });
}

#[derive(Clone, Copy)]
struct Forward<'a> {
    dims: &'a Dims,
    spec: &'a GruSpec,
    inputs: &'a Inputs<'a, f32>,
    gates: Rows<'a>,
    keep: bool,
    states: Rows<'a>,
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let panels = Panels::of_gates(self.inputs.w_hh, self.dims.h, S::F32_LANES);
        run(shares(self.dims, tile_rows::<S>()), |rows| {
            Arch::new().dispatch(Share {
                call: self,
                panels: &panels,
                rows,
            });
        });
    }
}

/// One thread's rows, through all of time.
struct Share<'a> {
    call: Forward<'a>,
    panels: &'a Panels,
    rows: Range<usize>,
}

impl WithSimd for Share<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Forward { dims, spec, .. } = self.call;
        let walk = Walk::new(dims, spec);
        let tiles = tiles(&self.rows, tile_rows::<S>());
        let mut packed = vec![0.0; self.rows.len() * dims.h];
        for s in 0..dims.t {
            let t = walk.time(s);
            let before = (s > 0).then(|| walk.time(s - 1));
            self.pack(&tiles, &mut packed, before);
            for panel in 0..dims.h.div_ceil(S::F32_LANES) {
                for &(row, size) in &tiles {
                    let a = &packed[(row - self.rows.start) * dims.h..][..size * dims.h];
                    match size {
                        8 => self.units::<S, 8, 1>(simd, a, row, t, before, panel),
                        4 => self.units::<S, 4, 1>(simd, a, row, t, before, panel),
                        2 => self.units::<S, 2, 2>(simd, a, row, t, before, panel),
                        _ => self.units::<S, 1, 4>(simd, a, row, t, before, panel),
                    }
                }
            }
        }
    }
}

impl Share<'_> {
    /// Interleaves the states before this step, tile by tile.
    fn pack(&self, tiles: &[(usize, usize)], packed: &mut [f32], before: Option<usize>) {
        let h = self.call.dims.h;
        for &(row, size) in tiles {
            let packed = &mut packed[(row - self.rows.start) * h..][..size * h];
            match size {
                8 => pack_rows::<8>(packed, |m| self.previous(row + m, before)),
                4 => pack_rows::<4>(packed, |m| self.previous(row + m, before)),
                2 => pack_rows::<2>(packed, |m| self.previous(row + m, before)),
                _ => pack_rows::<1>(packed, |m| self.previous(row + m, before)),
            }
        }
    }

    /// The state of row `n` before this step; empty stands for zeros.
    #[inline(always)]
    fn previous(&self, n: usize, before: Option<usize>) -> &[f32] {
        let Forward { dims, spec, .. } = self.call;
        match before {
            // SAFETY: only this share writes the rows of its batch, and those of an earlier step
            // no more.
            Some(t) => unsafe { self.call.states.row(dims.place(spec.layout).row(n, t)) },
            None => self
                .call
                .inputs
                .h0
                .map_or(&[], |h0| &h0[n * dims.h..][..dims.h]),
        }
    }

    /// One tile: the products of one vector of units, their gates, their new states.
    #[inline(always)]
    fn units<S: Simd, const MR: usize, const KU: usize>(
        &self,
        simd: S,
        a: &[f32],
        row: usize,
        t: usize,
        before: Option<usize>,
        panel: usize,
    ) {
        let Forward { dims, spec, .. } = self.call;
        let (h, lanes) = (dims.h, S::F32_LANES);
        let units = panel * lanes..((panel + 1) * lanes).min(h);
        // Without an initial state the first step has no product.
        let sums = match before.is_some() || self.call.inputs.h0.is_some() {
            true => tile::<S, MR, 3, KU>(simd, a, self.panels.panel(panel)),
            false => [[simd.splat_f32s(0.0); 3]; MR],
        };
        let b_hn = match self.call.inputs.b_hh {
            Some(b) => simd.partial_load_f32s(&b[2 * h..][units.clone()]),
            None => simd.splat_f32s(0.0),
        };
        for (m, [sum_r, sum_z, sum_n]) in sums.into_iter().enumerate() {
            let place = dims.place(spec.layout).row(row + m, t);
            // SAFETY: only this share touches the rows of its batch, and here nothing else of
            // this step is borrowed.
            let (gates, state) = unsafe {
                (
                    self.call.gates.row_mut(place),
                    self.call.states.row_mut(place),
                )
            };
            let (r, rest) = gates.split_at_mut(h);
            let (z, rest) = rest.split_at_mut(h);
            let (n, kept) = rest.split_at_mut(h);
            let r = &mut r[units.clone()];
            let z = &mut z[units.clone()];
            let n = &mut n[units.clone()];
            let vr = sigmoid(simd, simd.add_f32s(simd.partial_load_f32s(r), sum_r));
            let vz = sigmoid(simd, simd.add_f32s(simd.partial_load_f32s(z), sum_z));
            let q = simd.add_f32s(sum_n, b_hn);
            let vn = tanh(simd, simd.mul_add_f32s(vr, q, simd.partial_load_f32s(n)));
            let old = match self.previous(row + m, before) {
                [] => simd.splat_f32s(0.0),
                old => simd.partial_load_f32s(&old[units.clone()]),
            };
            let new = match spec.update {
                Update::Keeps => simd.mul_add_f32s(vz, simd.sub_f32s(old, vn), vn),
                Update::Takes => simd.mul_add_f32s(vz, simd.sub_f32s(vn, old), old),
            };
            simd.partial_store_f32s(&mut state[units.clone()], new);
            if self.call.keep {
                simd.partial_store_f32s(r, vr);
                simd.partial_store_f32s(z, vz);
                simd.partial_store_f32s(n, vn);
                simd.partial_store_f32s(&mut kept[units.clone()], q);
            }
        }
    }
}
