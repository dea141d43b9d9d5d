//! Products of bytes on WebAssembly: widened to 16 bits, then `i32x4.dot_i16x8_s`.

use super::Dot;
use std::arch::wasm32::*;

#[derive(Clone, Copy)]
pub(super) struct Simd128;

impl Dot for Simd128 {
    const LANES: usize = 4;
    type Ints = v128;
    type Floats = v128;
    /// The first two and the last two bytes, as pairs of 16 bits.
    type Lhs = [v128; 2];

    #[inline(always)]
    unsafe fn ints(self, v: i32) -> v128 {
        i32x4_splat(v)
    }

    #[inline(always)]
    unsafe fn add(self, a: v128, b: v128) -> v128 {
        i32x4_add(a, b)
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u32) -> v128 {
        // SAFETY: the caller promises a vector at `from`.
        unsafe { v128_load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn lhs(self, word: u32) -> [v128; 2] {
        let x = i16x8_extend_low_i8x16(u32x4_splat(word));
        [
            i32x4_shuffle::<0, 0, 0, 0>(x, x),
            i32x4_shuffle::<1, 1, 1, 1>(x, x),
        ]
    }

    #[inline(always)]
    unsafe fn dot(self, sums: v128, w: v128, [first, last]: [v128; 2]) -> v128 {
        let low = i32x4_dot_i16x8(i16x8_extend_low_i8x16(w), first);
        let high = i32x4_dot_i16x8(i16x8_extend_high_i8x16(w), last);
        i32x4_add(sums, i32x4_add(low, high))
    }

    #[inline(always)]
    unsafe fn floats(self, v: f32) -> v128 {
        f32x4_splat(v)
    }

    #[inline(always)]
    unsafe fn add_scaled(self, sums: v128, ints: v128, scales: *const u32) -> v128 {
        // SAFETY: the caller promises a vector at `scales`.
        let scales = unsafe { v128_load(scales.cast()) };
        f32x4_add(sums, f32x4_mul(f32x4_convert_i32x4(ints), scales))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, sums: v128, scale: f32) {
        // SAFETY: the caller promises a vector at `to`.
        unsafe { v128_store(to.cast(), f32x4_mul(sums, f32x4_splat(scale))) }
    }
}
