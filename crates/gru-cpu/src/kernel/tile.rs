//! The register tile: a few rows against a panel of vectors, all of k.

use pulp::Simd;

/// A matrix cut into panels of `NV` vectors of columns: for each panel all of its rows, one after
/// the other. Columns past the end are zero.
pub(super) struct Panels {
    data: Vec<f32>,
    rows: usize,
    width: usize,
}

impl Panels {
    /// `w_hh [H,3H]` for the forward product: a panel holds the three gates of `lanes` units.
    pub(super) fn of_gates(w_hh: &[f32], h: usize, lanes: usize) -> Self {
        let (rows, width) = (h, 3 * lanes);
        let mut data = vec![0.0; h.div_ceil(lanes) * rows * width];
        for (p, panel) in data.chunks_exact_mut(rows * width).enumerate() {
            let units = p * lanes..((p + 1) * lanes).min(h);
            for (to, from) in panel.chunks_exact_mut(width).zip(w_hh.chunks_exact(3 * h)) {
                for gate in 0..3 {
                    let from = &from[gate * h..][units.clone()];
                    to[gate * lanes..][..units.len()].copy_from_slice(from);
                }
            }
        }
        Self { data, rows, width }
    }

    /// `w_hhᵀ [3H,H]` for the backward product: a panel holds `width` units.
    pub(super) fn of_transpose(w_hh: &[f32], h: usize, width: usize) -> Self {
        let rows = 3 * h;
        let mut data = vec![0.0; h.div_ceil(width) * rows * width];
        for (unit, from) in w_hh.chunks_exact(rows).enumerate() {
            let panel = &mut data[unit / width * rows * width..][..rows * width];
            let to = panel[unit % width..].iter_mut().step_by(width);
            to.zip(from).for_each(|(to, &from)| *to = from);
        }
        Self { data, rows, width }
    }

    pub(super) fn panel(&self, p: usize) -> &[f32] {
        let size = self.rows * self.width;
        &self.data[p * size..][..size]
    }
}

/// Interleaves `MR` rows of `k` elements: element `k` of every row side by side.
#[inline(always)]
pub(super) fn pack_rows<'a, const MR: usize>(packed: &mut [f32], row: impl Fn(usize) -> &'a [f32]) {
    for m in 0..MR {
        let to = packed.iter_mut().skip(m).step_by(MR);
        for (to, &from) in to.zip(row(m)) {
            *to = from;
        }
    }
}

/// `a·b`: `MR` interleaved rows by a panel of `NV` vectors. `KU` independent sums hide the latency
/// of the multiply-add where a tile has few rows.
#[inline(always)]
pub(super) fn tile<S: Simd, const MR: usize, const NV: usize, const KU: usize>(
    simd: S,
    a: &[f32],
    b: &[f32],
) -> [[S::f32s; NV]; MR] {
    let zero = simd.splat_f32s(0.0);
    let (a, _) = a.as_chunks::<MR>();
    let (b, _) = S::as_simd_f32s(b);
    let (b, _) = b.as_chunks::<NV>();
    let mut sums = [[[zero; NV]; MR]; KU];
    let (a_units, a_rest) = a.as_chunks::<KU>();
    let (b_units, b_rest) = b.as_chunks::<KU>();
    for (a, b) in a_units.iter().zip(b_units) {
        for u in 0..KU {
            step(simd, &mut sums[u], &a[u], &b[u]);
        }
    }
    for (a, b) in a_rest.iter().zip(b_rest) {
        step(simd, &mut sums[0], a, b);
    }
    let mut sum = sums[0];
    for other in &sums[1..] {
        for m in 0..MR {
            for v in 0..NV {
                sum[m][v] = simd.add_f32s(sum[m][v], other[m][v]);
            }
        }
    }
    sum
}

#[inline(always)]
fn step<S: Simd, const MR: usize, const NV: usize>(
    simd: S,
    sum: &mut [[S::f32s; NV]; MR],
    a: &[f32; MR],
    b: &[S::f32s; NV],
) {
    for m in 0..MR {
        let a = simd.splat_f32s(a[m]);
        for v in 0..NV {
            sum[m][v] = simd.mul_add_e_f32s(a, b[v], sum[m][v]);
        }
    }
}
