//! Products of bytes on WebAssembly: widened to 16 bits, then `i32x4.dot_i16x8_s`.

use super::Dot;
use core::arch::wasm32::*;

#[derive(Clone, Copy)]
pub(super) struct Simd128;

vectors!(
    Simd128: 4,
    v128 { i32x4_splat, v128_load },
    v128 { f32x4_splat, f32x4_add, f32x4_mul, v128_load, v128_store, f32x4_convert_i32x4 },
    // The first two and the last two bytes, as pairs of 16 bits.
    |word| -> [v128; 2] {
        let x = i16x8_extend_low_i8x16(u32x4_splat(word));
        [i32x4_shuffle::<0, 0, 0, 0>(x, x), i32x4_shuffle::<1, 1, 1, 1>(x, x)]
    },
    |sums, w, x| {
        let low = i32x4_dot_i16x8(i16x8_extend_low_i8x16(w), x[0]);
        let high = i32x4_dot_i16x8(i16x8_extend_high_i8x16(w), x[1]);
        i32x4_add(sums, i32x4_add(low, high))
    }
);
