//! Products of bytes on AArch64.

use super::{super::shape::Multiplication, Dot, product};
use core::arch::{aarch64::*, asm};

/// [`product`] without the extension `dotprod`.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "neon")]
pub(super) unsafe fn neon(operands: Multiplication<'_>) {
    // SAFETY: the caller keeps the same promises.
    unsafe { product(Neon, operands) }
}

/// [`product`] with the extension `dotprod`.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn dotprod(operands: Multiplication<'_>) {
    // SAFETY: the caller keeps the same promises.
    unsafe { product(Dotprod, operands) }
}

/// `smull`, `smlal2` and `sadalp`. The sum of two products is at most 2·127², which fits in 16 bits.
#[derive(Clone, Copy)]
struct Neon;

/// `sdot`.
#[derive(Clone, Copy)]
struct Dotprod;

vectors!(
    Neon: 4,
    int32x4_t { vdupq_n_s32, vld1q_s32 },
    float32x4_t { vdupq_n_f32, vaddq_f32, vmulq_f32, vld1q_f32, vst1q_f32, vcvtq_f32_s32 },
    |word| -> int8x16_t {
        // The first two bytes in the low half, the last two in the high half, as the weights.
        let (first, last) = (word as u16, (word >> 16) as u16);
        vreinterpretq_s8_u16(vcombine_u16(vdup_n_u16(first), vdup_n_u16(last)))
    },
    |sums, w, x| {
        let w = vreinterpretq_s8_s32(w);
        let pairs = vmull_s8(vget_low_s8(w), vget_low_s8(x));
        vpadalq_s16(sums, vmlal_high_s8(pairs, w, x))
    }
);

vectors!(
    Dotprod: 4,
    int32x4_t { vdupq_n_s32, vld1q_s32 },
    float32x4_t { vdupq_n_f32, vaddq_f32, vmulq_f32, vld1q_f32, vst1q_f32, vcvtq_f32_s32 },
    |word| -> int32x4_t { vdupq_n_s32(word as i32) },
    |sums, w, x| {
        // The intrinsic is not stable in the oldest supported Rust.
        let mut sums = sums;
        asm!(
            "sdot {sums:v}.4s, {w:v}.16b, {x:v}.16b",
            sums = inout(vreg) sums,
            w = in(vreg) w,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
        sums
    }
);
