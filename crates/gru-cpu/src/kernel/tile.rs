//! The register tile: a few rows against a panel, over k.

use super::{lanes::Lanes, panels::Panel};
use pulp::Simd;

/// Sums of a tile: `MR` rows of `NV` vectors.
pub(super) type Sums<E, S, const MR: usize, const NV: usize> = [[<E as Lanes>::V<S>; NV]; MR];

/// Rows of a full tile. With three vectors of weights and one broadcast, 8 rows fill 32 registers
/// and 4 rows fill 16.
pub(super) const fn tile_rows<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 8 } else { 4 }
}

/// Adds `a·b` to `sums`: `MR` rows of `k` elements each, by `k` rows of the panel. `KU` independent
/// sums hide the latency of the multiply-add where a tile has few rows.
///
/// The rows are read where they stand: a broadcast from memory costs no more than one from a
/// packed copy, and nothing has to be interleaved.
///
/// # Safety
/// Each row has `k` elements that nobody writes meanwhile, and the panel has `k` rows of `NV`
/// vectors.
#[inline(always)]
pub(super) unsafe fn accumulate<
    E: Lanes,
    S: Simd,
    const MR: usize,
    const NV: usize,
    const KU: usize,
>(
    simd: S,
    sums: &mut Sums<E, S, MR, NV>,
    rows: [*const E; MR],
    k: usize,
    panel: Panel<E>,
) {
    let mut all = [[[E::real(simd, 0.0); NV]; MR]; KU];
    all[0] = *sums;
    let mut b = panel.at;
    let mut at = 0;
    while at + KU <= k {
        for sums in &mut all {
            // SAFETY: `at` is below `k`; so the caller's word covers one element of each row and
            // one row of the panel.
            unsafe { step::<E, S, MR, NV>(simd, sums, &rows, at, b, panel.per_vector) };
            b = b.wrapping_add(panel.per_k);
            at += 1;
        }
    }
    while at < k {
        // SAFETY: as above.
        unsafe { step::<E, S, MR, NV>(simd, &mut all[0], &rows, at, b, panel.per_vector) };
        b = b.wrapping_add(panel.per_k);
        at += 1;
    }
    *sums = all[0];
    for other in &all[1..] {
        for m in 0..MR {
            for v in 0..NV {
                sums[m][v] = E::vadd(simd, sums[m][v], other[m][v]);
            }
        }
    }
}

/// # Safety
/// Element `at` of every row and the vectors at `b` can be read.
#[inline(always)]
unsafe fn step<E: Lanes, S: Simd, const MR: usize, const NV: usize>(
    simd: S,
    sums: &mut Sums<E, S, MR, NV>,
    rows: &[*const E; MR],
    at: usize,
    b: *const E,
    per_vector: usize,
) {
    let mut weights = [E::real(simd, 0.0); NV];
    for (v, weights) in weights.iter_mut().enumerate() {
        // SAFETY: the caller's word.
        *weights = unsafe { E::load(simd, b.add(v * per_vector)) };
    }
    for m in 0..MR {
        // SAFETY: the caller's word.
        let a = E::splat(simd, unsafe { *rows[m].add(at) });
        for v in 0..NV {
            sums[m][v] = E::vfma(simd, a, weights[v], sums[m][v]);
        }
    }
}

/// Calls a function of a tile for the number of its rows, with the number of independent sums for
/// tiles of 4, 2 and 1.
macro_rules! by_rows {
    ($size:expr, $S:ty, $this:ident.$f:ident[$k4:literal, $k2:literal, $k1:literal]$args:tt) => {
        match $size {
            8 if tile_rows::<$S>() == 8 => $this.$f::<$S, 8, 1> $args,
            4 => $this.$f::<$S, 4, $k4> $args,
            2 => $this.$f::<$S, 2, $k2> $args,
            _ => $this.$f::<$S, 1, $k1> $args,
        }
    };
}
pub(super) use by_rows;

/// A vector of `from`, zero past its end.
#[inline(always)]
pub(super) fn load<E: Lanes, S: Simd>(simd: S, from: &[E]) -> E::V<S> {
    if from.len() >= E::lanes::<S>() {
        // SAFETY: `from` is at least a vector long.
        return unsafe { E::load(simd, from.as_ptr()) };
    }
    E::load_part(simd, from)
}

/// Writes as much of a vector as `to` is long.
#[inline(always)]
pub(super) fn store<E: Lanes, S: Simd>(simd: S, to: &mut [E], v: E::V<S>) {
    if to.len() >= E::lanes::<S>() {
        // SAFETY: `to` is at least a vector long.
        return unsafe { E::store(simd, to.as_mut_ptr(), v) };
    }
    E::store_part(simd, to, v);
}
