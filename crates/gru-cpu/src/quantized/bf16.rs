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
            let [mut even, mut odd] = [[simd.splat_f32s(0.0); VECTORS]; 2];
            for (even, odd) in even.iter_mut().zip(&mut odd) {
                // SAFETY: the caller promises that the panel exists.
                let both = unsafe { w.cast::<S::u32s>().read_unaligned() };
                w = w.wrapping_add(S::F32_LANES);
                let low = simd.wrapping_dyn_shl_u32s(both, half);
                *even = simd.transmute_f32s_u32s(low);
                *odd = simd.transmute_f32s_u32s(simd.and_u32s(both, high));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                for (k, (sums, halves)) in sums.iter_mut().zip([&even, &odd]).enumerate() {
                    let at = from.wrapping_add(r * self.stride + 2 * word + k);
                    // SAFETY: the caller promises that the rows exist.
                    let x = simd.splat_f32s(f32::from_bits(unsafe { at.read() }));
                    for (sum, &w) in sums.iter_mut().zip(halves) {
                        *sum = simd.mul_add_e_f32s(w, x, *sum);
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
