//! Products of bytes on x86-64.

use super::{Call, Dot, product};
use std::arch::x86_64::*;

/// [`product`] with AVX2.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2(call: Call<'_>) {
    // SAFETY: the caller keeps the same promises.
    unsafe { product(Avx2, call) }
}

/// [`product`] with AVX-VNNI.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "avx2,avxvnni")]
pub(super) unsafe fn avx_vnni(call: Call<'_>) {
    // SAFETY: the caller keeps the same promises.
    unsafe { product(AvxVnni, call) }
}

/// [`product`] with AVX512-VNNI.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) unsafe fn avx512_vnni(call: Call<'_>) {
    // SAFETY: the caller keeps the same promises.
    unsafe { product(Avx512Vnni, call) }
}

/// `vpmaddubsw` multiplies unsigned by signed bytes, so it gets `|x|` and `w` with the sign of `x`. A pair of
/// products is at most 2·127², which does not saturate 16 bits.
#[derive(Clone, Copy)]
struct Avx2;

/// `vpdpbusd` multiplies unsigned by signed bytes. The weights are stored as `w + 128`, and the sums of a
/// group start at `−128·Σx`.
#[derive(Clone, Copy)]
struct AvxVnni;

/// [`AvxVnni`] with 512 bits.
#[derive(Clone, Copy)]
struct Avx512Vnni;

/// Implements a product for vectors of 256 bits.
macro_rules! vectors_of_256 {
    ($name:ty, $lhs:ty, |$word:ident| $to_lhs:expr, |$sums:ident, $w:ident, $x:ident| $dot:expr) => {
        impl Dot for $name {
            const LANES: usize = 8;
            type Ints = __m256i;
            type Floats = __m256;
            type Lhs = $lhs;

            #[inline(always)]
            unsafe fn ints(self, v: i32) -> __m256i {
                // SAFETY: the caller promises the instruction set.
                unsafe { _mm256_set1_epi32(v) }
            }

            #[inline(always)]
            unsafe fn add(self, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: the caller promises the instruction set.
                unsafe { _mm256_add_epi32(a, b) }
            }

            #[inline(always)]
            unsafe fn load(self, from: *const u32) -> __m256i {
                // SAFETY: the caller promises the instruction set and a vector at `from`.
                unsafe { _mm256_loadu_si256(from.cast()) }
            }

            #[inline(always)]
            unsafe fn lhs(self, $word: u32) -> $lhs {
                // SAFETY: the caller promises the instruction set.
                unsafe { $to_lhs }
            }

            #[inline(always)]
            unsafe fn dot(self, $sums: __m256i, $w: __m256i, $x: $lhs) -> __m256i {
                // SAFETY: the caller promises the instruction set.
                unsafe { $dot }
            }

            #[inline(always)]
            unsafe fn floats(self, v: f32) -> __m256 {
                // SAFETY: the caller promises the instruction set.
                unsafe { _mm256_set1_ps(v) }
            }

            #[inline(always)]
            unsafe fn add_scaled(self, sums: __m256, ints: __m256i, scales: *const u32) -> __m256 {
                // SAFETY: the caller promises the instruction set and a vector at `scales`.
                unsafe {
                    let scales = _mm256_loadu_ps(scales.cast());
                    _mm256_add_ps(sums, _mm256_mul_ps(_mm256_cvtepi32_ps(ints), scales))
                }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f32, sums: __m256, scale: f32) {
                // SAFETY: the caller promises the instruction set and a vector at `to`.
                unsafe { _mm256_storeu_ps(to, _mm256_mul_ps(sums, _mm256_set1_ps(scale))) }
            }
        }
    };
}

vectors_of_256!(
    Avx2,
    (__m256i, __m256i),
    |word| {
        let x = _mm256_set1_epi32(word as i32);
        (x, _mm256_abs_epi8(x))
    },
    |sums, w, x| {
        let (x, size) = x;
        let pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(w, x));
        _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    }
);

vectors_of_256!(
    AvxVnni,
    __m256i,
    |word| _mm256_set1_epi32(word as i32),
    |sums, w, x| _mm256_dpbusd_avx_epi32(sums, w, x)
);

impl Dot for Avx512Vnni {
    const LANES: usize = 16;
    type Ints = __m512i;
    type Floats = __m512;
    type Lhs = __m512i;

    #[inline(always)]
    unsafe fn ints(self, v: i32) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_set1_epi32(v) }
    }

    #[inline(always)]
    unsafe fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u32) -> __m512i {
        // SAFETY: the caller promises the instruction set and a vector at `from`.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn lhs(self, word: u32) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_set1_epi32(word as i32) }
    }

    #[inline(always)]
    unsafe fn dot(self, sums: __m512i, w: __m512i, x: __m512i) -> __m512i {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_dpbusd_epi32(sums, w, x) }
    }

    #[inline(always)]
    unsafe fn floats(self, v: f32) -> __m512 {
        // SAFETY: the caller promises the instruction set.
        unsafe { _mm512_set1_ps(v) }
    }

    #[inline(always)]
    unsafe fn add_scaled(self, sums: __m512, ints: __m512i, scales: *const u32) -> __m512 {
        // SAFETY: the caller promises the instruction set and a vector at `scales`.
        unsafe {
            let scales = _mm512_loadu_ps(scales.cast());
            _mm512_add_ps(sums, _mm512_mul_ps(_mm512_cvtepi32_ps(ints), scales))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, sums: __m512, scale: f32) {
        // SAFETY: the caller promises the instruction set and a vector at `to`.
        unsafe { _mm512_storeu_ps(to, _mm512_mul_ps(sums, _mm512_set1_ps(scale))) }
    }
}
