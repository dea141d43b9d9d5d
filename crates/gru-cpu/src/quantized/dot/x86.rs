//! Products of bytes on x86-64.

use super::{super::shape::Multiplication, Dot, product};
use core::arch::x86_64::*;

/// [`product`] with AVX2.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2(operands: Multiplication<'_>) {
    // SAFETY: the caller keeps the same promises.
    unsafe { product(Avx2, operands) }
}

/// [`product`] with AVX2, for small weights.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2_small(operands: Multiplication<'_>) {
    // SAFETY: the caller keeps the same promises.
    unsafe { product(Avx2Small, operands) }
}

/// [`product`] with AVX-VNNI.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "avx2,avxvnni")]
pub(super) unsafe fn avx_vnni(operands: Multiplication<'_>) {
    // SAFETY: the caller keeps the same promises.
    unsafe { product(AvxVnni, operands) }
}

/// [`product`] with AVX512-VNNI.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) unsafe fn avx512_vnni(operands: Multiplication<'_>) {
    // SAFETY: the caller keeps the same promises.
    unsafe { product(Avx512Vnni, operands) }
}

/// `vpmaddubsw` multiplies unsigned by signed bytes, here [`Signs::Inputs`](super::Signs). A pair of products is at most 2·127·128, which
/// does not saturate 16 bits. Unlike `vpsignb`, the exclusive or does not wait for the ports of the multiplications.
#[derive(Clone, Copy)]
struct Avx2;

/// `vpmaddubsw` with [`Signs::Offset`](super::Signs). A pair of products is at most 254·129.
#[derive(Clone, Copy)]
struct Avx2Small;

/// `vpdpbusd` multiplies unsigned by signed bytes, here [`Signs::Weights`](super::Signs).
#[derive(Clone, Copy)]
struct AvxVnni;

/// [`AvxVnni`] with 512 bits.
#[derive(Clone, Copy)]
struct Avx512Vnni;

vectors!(
    Avx2: 8,
    __m256i { _mm256_set1_epi32, _mm256_loadu_si256 },
    __m256 { _mm256_set1_ps, _mm256_add_ps, _mm256_mul_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_cvtepi32_ps },
    |word| -> (__m256i, __m256i) {
        let x = _mm256_set1_epi32(word as i32);
        (_mm256_cmpgt_epi8(_mm256_setzero_si256(), x), _mm256_abs_epi8(x))
    },
    |sums, w, x| {
        let (is_negative, size) = x;
        let pairs = _mm256_maddubs_epi16(size, _mm256_xor_si256(w, is_negative));
        _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    }
);

vectors!(
    Avx2Small: 8,
    __m256i { _mm256_set1_epi32, _mm256_loadu_si256 },
    __m256 { _mm256_set1_ps, _mm256_add_ps, _mm256_mul_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_cvtepi32_ps },
    |word| -> __m256i { _mm256_set1_epi32(word as i32) },
    |sums, w, x| {
        _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1)))
    }
);

vectors!(
    AvxVnni: 8,
    __m256i { _mm256_set1_epi32, _mm256_loadu_si256 },
    __m256 { _mm256_set1_ps, _mm256_add_ps, _mm256_mul_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_cvtepi32_ps },
    |word| -> __m256i { _mm256_set1_epi32(word as i32) },
    |sums, w, x| { _mm256_dpbusd_avx_epi32(sums, w, x) }
);

vectors!(
    Avx512Vnni: 16,
    __m512i { _mm512_set1_epi32, _mm512_loadu_si512 },
    __m512 { _mm512_set1_ps, _mm512_add_ps, _mm512_mul_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_cvtepi32_ps },
    |word| -> __m512i { _mm512_set1_epi32(word as i32) },
    |sums, w, x| { _mm512_dpbusd_epi32(sums, w, x) }
);
