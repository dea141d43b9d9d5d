//! The backward walk.

use super::{
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

/// Walks back through time: turns the gates `r | z | n | q_n` into the gradients
/// `dr̄ | dz̄ | dn̄ | dn̄ ⊙ r`, in place, and leaves in `dh` the gradient of the initial state.
pub(crate) fn walk_back(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, f32>,
    states: &[f32],
    saved: &mut [f32],
    d_states: &[f32],
    dh: &mut [f32],
) {
    Arch::new().dispatch(Backward {
        dims,
        spec,
        inputs,
        states,
        saved: Rows::new(saved, 4 * dims.h),
        d_states,
        dh: Rows::new(dh, dims.h),
    });
}

#[derive(Clone, Copy)]
struct Backward<'a> {
    dims: &'a Dims,
    spec: &'a GruSpec,
    inputs: &'a Inputs<'a, f32>,
    states: &'a [f32],
    saved: Rows<'a>,
    d_states: &'a [f32],
    dh: Rows<'a>,
}

/// Vectors of columns in a panel of `w_hhᵀ`, as many as there are gates in a forward panel.
const VECTORS: usize = 3;

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let width = VECTORS * S::F32_LANES;
        let panels = Panels::of_transpose(self.inputs.w_hh, self.dims.h, width);
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
    call: Backward<'a>,
    panels: &'a Panels,
    rows: Range<usize>,
}

impl WithSimd for Share<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Backward { dims, spec, .. } = self.call;
        let h = dims.h;
        let walk = Walk::new(dims, spec);
        let tiles = tiles(&self.rows, tile_rows::<S>());
        let mut dq = vec![0.0; self.rows.len() * 3 * h];
        let mut packed = vec![0.0; self.rows.len() * 3 * h];
        for s in (0..dims.t).rev() {
            let t = walk.time(s);
            let before = (s > 0).then(|| walk.time(s - 1));
            for (n, dq) in self.rows.clone().zip(dq.chunks_exact_mut(3 * h)) {
                self.through_gates(n, t, before, dq);
            }
            self.pack(&tiles, &dq, &mut packed);
            for panel in 0..h.div_ceil(VECTORS * S::F32_LANES) {
                for &(row, size) in &tiles {
                    let a = &packed[(row - self.rows.start) * 3 * h..][..size * 3 * h];
                    match size {
                        8 => self.through_product::<S, 8, 1>(simd, a, row, panel),
                        4 => self.through_product::<S, 4, 1>(simd, a, row, panel),
                        2 => self.through_product::<S, 2, 2>(simd, a, row, panel),
                        _ => self.through_product::<S, 1, 4>(simd, a, row, panel),
                    }
                }
            }
        }
    }
}

impl Share<'_> {
    /// Interleaves the rows of `dq`, tile by tile.
    fn pack(&self, tiles: &[(usize, usize)], dq: &[f32], packed: &mut [f32]) {
        let width = 3 * self.call.dims.h;
        for &(row, size) in tiles {
            let at = (row - self.rows.start) * width;
            let row = |m: usize| &dq[at + m * width..][..width];
            let packed = &mut packed[at..][..size * width];
            match size {
                8 => pack_rows::<8>(packed, row),
                4 => pack_rows::<4>(packed, row),
                2 => pack_rows::<2>(packed, row),
                _ => pack_rows::<1>(packed, row),
            }
        }
    }

    /// One row through the blend and the gates; `dh` becomes the part that the update gate hands
    /// on, `dq` the gradient of the recurrent product.
    #[inline(always)]
    fn through_gates(&self, n: usize, t: usize, before: Option<usize>, dq: &mut [f32]) {
        let Backward { dims, spec, .. } = self.call;
        let h = dims.h;
        let place = dims.place(spec.layout);
        let row = place.row(n, t);
        let previous = match before {
            Some(t) => &self.call.states[place.row(n, t) * h..][..h],
            None => self.call.inputs.h0.map_or(&[][..], |h0| &h0[n * h..][..h]),
        };
        // SAFETY: only this share touches the rows of its batch.
        let (gates, dh) = unsafe { (self.call.saved.row_mut(row), self.call.dh.row_mut(n)) };
        let d_state = &self.call.d_states[row * h..][..h];
        let (r, rest) = gates.split_at_mut(h);
        let (z, rest) = rest.split_at_mut(h);
        let (new, q) = rest.split_at_mut(h);
        let q = &mut q[..h];
        let dh = &mut dh[..h];
        let (dq_r, rest) = dq.split_at_mut(h);
        let (dq_z, dq_n) = rest.split_at_mut(h);
        let dq_n = &mut dq_n[..h];
        let keeps = spec.update == Update::Keeps;
        for j in 0..h {
            let before = previous.get(j).copied().unwrap_or(0.0);
            let d = dh[j] + d_state[j];
            // The part that takes the candidate and the part that keeps the state.
            let (taken, kept) = if keeps {
                (1.0 - z[j], z[j])
            } else {
                (z[j], 1.0 - z[j])
            };
            let to_z = if keeps {
                before - new[j]
            } else {
                new[j] - before
            };
            let dz = d * to_z * (z[j] * (1.0 - z[j]));
            let dn = d * taken * (1.0 - new[j] * new[j]);
            let dr = dn * q[j] * (r[j] * (1.0 - r[j]));
            let dn_r = dn * r[j];
            dh[j] = d * kept;
            (r[j], z[j], new[j], q[j]) = (dr, dz, dn, dn_r);
            (dq_r[j], dq_z[j], dq_n[j]) = (dr, dz, dn_r);
        }
    }

    /// One tile: `dh += dq·w_hhᵀ` for a panel of units.
    #[inline(always)]
    fn through_product<S: Simd, const MR: usize, const KU: usize>(
        &self,
        simd: S,
        a: &[f32],
        row: usize,
        panel: usize,
    ) {
        let (h, lanes) = (self.call.dims.h, S::F32_LANES);
        let sums = tile::<S, MR, VECTORS, KU>(simd, a, self.panels.panel(panel));
        for (m, sums) in sums.into_iter().enumerate() {
            // SAFETY: only this share touches the rows of its batch.
            let dh = unsafe { self.call.dh.row_mut(row + m) };
            for (v, sum) in sums.into_iter().enumerate() {
                let start = (panel * VECTORS + v) * lanes;
                if start < h {
                    let dh = &mut dh[start..(start + lanes).min(h)];
                    let sum = simd.add_f32s(simd.partial_load_f32s(dh), sum);
                    simd.partial_store_f32s(dh, sum);
                }
            }
        }
    }
}
