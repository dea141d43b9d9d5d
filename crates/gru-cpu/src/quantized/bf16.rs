//! The product of bfloat16: two weights in a word, sums in float32.

use super::shape::{Addresses, MatrixShape, Multiplication, VECTORS};
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

/// The product. Even and odd inputs have separate sums, whatever the number of rows.
pub(super) struct Bf16<'a>(pub(super) Multiplication<'a>);

impl WithSimd for Bf16<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(mut product) = self;
        product.check(S::F32_LANES);
        let (shape, count) = (product.shape, product.count);
        for panel in 0..shape.panels {
            let mut row = 0;
            while row < count {
                let at = product.at(panel, row);
                // SAFETY: by the check of the product, this panel, these rows and their results exist.
                unsafe {
                    row += match count - row {
                        // 24 sums.
                        4.. if registers::<S>() >= 32 => tile::<S, 4>(simd, &shape, at),
                        2.. => tile::<S, 2>(simd, &shape, at),
                        _ => tile::<S, 1>(simd, &shape, at),
                    };
                }
            }
        }
    }
}

/// `R` rows times a panel. Returns `R`.
///
/// # Safety
/// The panel, the rows and their results exist.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // See below.
unsafe fn tile<S: Simd, const R: usize>(simd: S, shape: &MatrixShape, at: Addresses) -> usize {
    let (row_words, stride) = (shape.row_words(), at.stride);
    let high = simd.splat_u32s(0xffff_0000);
    let half = simd.splat_u32s(16);
    let mut sums = [[[simd.splat_f32s(0.0); VECTORS]; 2]; R];
    let mut w = at.weights;
    for word in 0..shape.words {
        // The loops have constant bounds and index their arrays, so that the compiler unrolls them and keeps the
        // sums in registers. With iterators the sums were in memory, and one row took 2 to 4 times as long.
        let mut halves = [[simd.splat_f32s(0.0); VECTORS]; 2];
        for v in 0..VECTORS {
            let vector = w.wrapping_add(v * S::F32_LANES);
            // SAFETY: the caller promises that the panel exists.
            let both = unsafe { vector.cast::<S::u32s>().read_unaligned() };
            let low = simd.wrapping_dyn_shl_u32s(both, half);
            halves[0][v] = simd.transmute_f32s_u32s(low);
            halves[1][v] = simd.transmute_f32s_u32s(simd.and_u32s(both, high));
        }
        w = w.wrapping_add(VECTORS * S::F32_LANES);
        for r in 0..R {
            for k in 0..2 {
                let x = at.row.wrapping_add(r * row_words + 2 * word + k);
                // SAFETY: the caller promises that the rows exist.
                let x = simd.splat_f32s(f32::from_bits(unsafe { x.read() }));
                for v in 0..VECTORS {
                    sums[r][k][v] = simd.mul_add_e_f32s(halves[k][v], x, sums[r][k][v]);
                }
            }
        }
    }
    for (r, [even, odd]) in sums.iter().enumerate() {
        for v in 0..VECTORS {
            let sum = simd.add_f32s(even[v], odd[v]);
            let to = at.to.wrapping_add(r * stride + v * S::F32_LANES);
            // SAFETY: the caller promises that the results exist.
            unsafe { to.cast::<S::f32s>().write_unaligned(sum) };
        }
    }
    R
}
