//! Products without vector instructions. Most compilers make vector code of these loops, with the vectors that
//! every processor of the target has.

use super::Dot;

#[derive(Clone, Copy)]
pub(super) struct Scalar;

const LANES: usize = 8;

impl Dot for Scalar {
    const LANES: usize = LANES;
    type Ints = [i32; LANES];
    type Floats = [f32; LANES];
    type Lhs = [i16; 4];

    #[inline(always)]
    unsafe fn ints(self, v: i32) -> [i32; LANES] {
        [v; LANES]
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u32) -> [i32; LANES] {
        // SAFETY: the caller promises a vector at `from`.
        unsafe { from.cast::<[i32; LANES]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn lhs(self, word: u32) -> [i16; 4] {
        word.to_ne_bytes().map(|byte| (byte as i8).into())
    }

    #[inline(always)]
    unsafe fn dot(self, sums: [i32; LANES], w: [i32; LANES], x: [i16; 4]) -> [i32; LANES] {
        // SAFETY: both types have the same size, and every bit pattern is valid.
        let w = unsafe { core::mem::transmute::<[i32; LANES], [[i8; LANES]; 4]>(w) };
        let mut sums = sums;
        for k in 0..LANES {
            // A sum of two products is at most 2·127², which fits in 16 bits. A NaN may be −128, and wrap. The scale of
            // its row is NaN, and so is the result.
            let product = |at: usize| i16::from(w[at][k]).wrapping_mul(x[at]);
            let first = product(0).wrapping_add(product(1));
            let last = product(2).wrapping_add(product(3));
            sums[k] += i32::from(first) + i32::from(last);
        }
        sums
    }

    #[inline(always)]
    unsafe fn floats(self, v: f32) -> [f32; LANES] {
        [v; LANES]
    }

    #[inline(always)]
    unsafe fn add_scaled(
        self,
        sums: [f32; LANES],
        ints: [i32; LANES],
        scales: *const u32,
    ) -> [f32; LANES] {
        // SAFETY: the caller promises a vector at `scales`.
        let scales = unsafe { scales.cast::<[f32; LANES]>().read_unaligned() };
        core::array::from_fn(|k| sums[k] + ints[k] as f32 * scales[k])
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, sums: [f32; LANES], scale: f32) {
        let results = sums.map(|sum| sum * scale);
        // SAFETY: the caller promises a vector at `to`.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(results) }
    }
}
