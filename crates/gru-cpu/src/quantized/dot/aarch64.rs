//! Products of bytes on AArch64.

use super::{Call, Dot, product};
use std::arch::{aarch64::*, asm};

/// [`product`] without the extension `dotprod`.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "neon")]
pub(super) unsafe fn neon(call: Call<'_>) {
    // SAFETY: the caller keeps the same promises.
    unsafe { product(Neon, call) }
}

/// [`product`] with the extension `dotprod`.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn dotprod(call: Call<'_>) {
    // SAFETY: the caller keeps the same promises.
    unsafe { product(Dotprod, call) }
}

/// `smull`, `smlal2` and `sadalp`. The sum of two products is at most 2·127², which fits in 16 bits.
#[derive(Clone, Copy)]
struct Neon;

/// `sdot`.
#[derive(Clone, Copy)]
struct Dotprod;

macro_rules! vectors_of_128 {
    ($name:ty, $lhs:ty, |$word:ident| $to_lhs:expr, |$sums:ident, $w:ident, $x:ident| $dot:expr) => {
        impl Dot for $name {
            const LANES: usize = 4;
            type Ints = int32x4_t;
            type Floats = float32x4_t;
            type Lhs = $lhs;

            #[inline(always)]
            unsafe fn ints(self, v: i32) -> int32x4_t {
                // SAFETY: the caller promises the instruction set.
                unsafe { vdupq_n_s32(v) }
            }

            #[inline(always)]
            unsafe fn add(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
                // SAFETY: the caller promises the instruction set.
                unsafe { vaddq_s32(a, b) }
            }

            #[inline(always)]
            unsafe fn load(self, from: *const u32) -> int32x4_t {
                // SAFETY: the caller promises the instruction set and a vector at `from`.
                unsafe { vld1q_s32(from.cast()) }
            }

            #[inline(always)]
            unsafe fn lhs(self, $word: u32) -> $lhs {
                // SAFETY: the caller promises the instruction set.
                unsafe { $to_lhs }
            }

            #[inline(always)]
            unsafe fn dot(self, $sums: int32x4_t, $w: int32x4_t, $x: $lhs) -> int32x4_t {
                // SAFETY: the caller promises the instruction set.
                unsafe { $dot }
            }

            #[inline(always)]
            unsafe fn floats(self, v: f32) -> float32x4_t {
                // SAFETY: the caller promises the instruction set.
                unsafe { vdupq_n_f32(v) }
            }

            #[inline(always)]
            unsafe fn add_scaled(
                self,
                sums: float32x4_t,
                ints: int32x4_t,
                scales: *const u32,
            ) -> float32x4_t {
                // SAFETY: the caller promises the instruction set and a vector at `scales`.
                unsafe {
                    let scales = vld1q_f32(scales.cast());
                    vaddq_f32(sums, vmulq_f32(vcvtq_f32_s32(ints), scales))
                }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f32, sums: float32x4_t, scale: f32) {
                // SAFETY: the caller promises the instruction set and a vector at `to`.
                unsafe { vst1q_f32(to, vmulq_n_f32(sums, scale)) }
            }
        }
    };
}

vectors_of_128!(
    Neon,
    int8x16_t,
    |word| {
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

vectors_of_128!(
    Dotprod,
    int32x4_t,
    |word| vdupq_n_s32(word as i32),
    |sums, w, x| {
        // The intrinsic is not stable in the oldest supported Rust.
        let mut sums = sums;
        // SAFETY: the caller promises the instruction, which reads and writes only these registers.
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
