//! The product of bfloat16: two weights in a word, sums in float32.

use super::{dot::Call, matrix::VECTORS};
use crate::tuning::registers;
use pulp::{Simd, WithSimd};

/// The nearest bfloat16, half to even. NaN stays NaN.
pub(super) fn round(v: f32) -> u16 {
    let bits = v.to_bits();
    if v.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let half = 0x7fff + (bits >> 16 & 1);
    ((bits + half) >> 16) as u16
}

/// The row itself, with zeros after it.
pub(super) fn encode(x: &[f32], to: &mut [u32]) {
    let (row, rest) = to.split_at_mut(x.len());
    for (to, v) in row.iter_mut().zip(x) {
        *to = v.to_bits();
    }
    rest.fill(0);
}

/// All rows times all panels. Even and odd inputs have separate sums, whatever the number of rows.
pub(super) struct Product<'a>(pub(super) Call<'a>);

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Call {
            shape,
            weights,
            rows,
            to,
        } = self.0;
        assert_eq!(shape.lanes, S::F32_LANES);
        assert!(weights.len() >= shape.panels * shape.panel_words());
        assert!(rows.words.len() >= rows.count * rows.stride && rows.stride >= shape.row_words());
        let columns = shape.columns();
        assert!(to.len() >= rows.count * columns);
        for panel in 0..shape.panels {
            let tile = Tile {
                words: shape.words,
                weights: weights.as_ptr().wrapping_add(panel * shape.panel_words()),
                columns,
                stride: rows.stride,
            };
            let to = to.as_mut_ptr().wrapping_add(panel * shape.panel_columns());
            let mut row = 0;
            while row < rows.count {
                let from = rows.words.as_ptr().wrapping_add(row * rows.stride);
                let to = to.wrapping_add(row * columns);
                // SAFETY: by the lengths above, this panel, these rows and their results exist.
                unsafe {
                    row += match rows.count - row {
                        // 24 sums.
                        4.. if registers::<S>() >= 32 => tile.run::<S, 4>(simd, from, to),
                        2.. => tile.run::<S, 2>(simd, from, to),
                        _ => tile.run::<S, 1>(simd, from, to),
                    };
                }
            }
        }
    }
}

/// A panel for some rows.
struct Tile {
    words: usize,
    weights: *const u32,
    /// Floats from one row of results to the next.
    columns: usize,
    /// Words from one row to the next.
    stride: usize,
}

impl Tile {
    /// `R` rows from `from` on. Returns `R`.
    ///
    /// # Safety
    /// The panel, the rows and their results at `to` exist.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // See below.
    unsafe fn run<S: Simd, const R: usize>(
        &self,
        simd: S,
        from: *const u32,
        to: *mut f32,
    ) -> usize {
        let high = simd.splat_u32s(0xffff_0000);
        let half = simd.splat_u32s(16);
        let mut sums = [[[simd.splat_f32s(0.0); VECTORS]; 2]; R];
        let mut w = self.weights;
        for word in 0..self.words {
            // The loops have constant bounds and index their arrays, so that the compiler unrolls them and keeps the
            // sums in registers. With iterators the sums were in memory, and one row took 2 to 4 times as long.
            let mut halves = [[simd.splat_f32s(0.0); VECTORS]; 2];
            for v in 0..VECTORS {
                let at = w.wrapping_add(v * S::F32_LANES);
                // SAFETY: the caller promises that the panel exists.
                let both = unsafe { at.cast::<S::u32s>().read_unaligned() };
                let low = simd.wrapping_dyn_shl_u32s(both, half);
                halves[0][v] = simd.transmute_f32s_u32s(low);
                halves[1][v] = simd.transmute_f32s_u32s(simd.and_u32s(both, high));
            }
            w = w.wrapping_add(VECTORS * S::F32_LANES);
            for r in 0..R {
                for k in 0..2 {
                    let at = from.wrapping_add(r * self.stride + 2 * word + k);
                    // SAFETY: the caller promises that the rows exist.
                    let x = simd.splat_f32s(f32::from_bits(unsafe { at.read() }));
                    for v in 0..VECTORS {
                        sums[r][k][v] = simd.mul_add_e_f32s(halves[k][v], x, sums[r][k][v]);
                    }
                }
            }
        }
        for (r, [even, odd]) in sums.iter().enumerate() {
            for v in 0..VECTORS {
                let sum = simd.add_f32s(even[v], odd[v]);
                let to = to.wrapping_add(r * self.columns + v * S::F32_LANES);
                // SAFETY: the caller promises that the results exist.
                unsafe { to.cast::<S::f32s>().write_unaligned(sum) };
            }
        }
        R
    }
}
