//! The product of int8: dot products of four bytes.
//!
//! Each instruction set implements [`Dot`], and compiles [`product`] in a function with its target features.

#[macro_use]
mod vectors;

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod product;
mod scalar;
#[cfg(all(target_family = "wasm", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use self::product::product;
use super::{
    integers::{Integers, LARGEST},
    shape::Multiplication,
};
use crate::simd::Machine;

/// Whether the machine has a feature, or without `std` the target.
#[allow(unused_macros)] // Some targets have none.
macro_rules! detected {
    ($macro:ident, $feature:tt) => {{
        #[cfg(feature = "std")]
        let is_detected = std::arch::$macro!($feature);
        #[cfg(not(feature = "std"))]
        let is_detected = cfg!(target_feature = $feature);
        is_detected
    }};
}

/// An instruction set for dot products of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code)] // Each target has some of them.
pub(super) enum Dots {
    /// No vector instructions.
    Scalar,
    /// AVX2.
    Avx2,
    /// AVX2, for weights whose [pairs are small](Integers::pairs_are_small).
    Avx2Small,
    /// AVX2 with AVX-VNNI.
    AvxVnni,
    /// AVX-512 with VNNI.
    Avx512Vnni,
    /// AArch64 without the extension `dotprod`.
    Neon,
    /// AArch64 with the extension `dotprod`.
    NeonDotprod,
    /// The 128-bit vectors of WebAssembly.
    Simd128,
}

/// How an instruction set stores weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Storage {
    /// 32-bit words of a vector.
    pub(super) lanes: usize,
    pub(super) signs: Signs,
    pub(super) order: ByteOrder,
}

/// How an instruction set multiplies signed bytes: x of the left side and weights w.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signs {
    /// Its instructions do.
    Both,
    /// They multiply an unsigned w + 128. Sums start at −128·Σx.
    Weights,
    /// They multiply |x|, and the inverted bits of w where x is negative: −x·(−w − 1) = x·w + x. Sums start at the sum of
    /// the sizes of negative x.
    Inputs,
    /// They multiply an unsigned x + 127, and small w. Sums start at −127·Σw.
    Offset,
}

impl Signs {
    /// The stored byte of a weight.
    pub(super) fn byte_of_w(self, w: i8) -> u8 {
        match self {
            Self::Weights => (w as u8).wrapping_add(128),
            Self::Both | Self::Inputs | Self::Offset => w as u8,
        }
    }

    /// The encoded byte of an input.
    #[inline(always)]
    pub(super) fn byte_of_x(self, x: i8) -> u8 {
        match self {
            Self::Offset => (x as u8).wrapping_add(LARGEST),
            Self::Both | Self::Weights | Self::Inputs => x as u8,
        }
    }

    /// What a sum of products with `w` starts at, besides the [part of x](Self::first_sum_of_x).
    pub(super) fn first_sum_of_w(self, w: &[i8]) -> i32 {
        match self {
            Self::Offset => -i32::from(LARGEST) * w.iter().map(|&w| i32::from(w)).sum::<i32>(),
            Self::Both | Self::Weights | Self::Inputs => 0,
        }
    }

    /// What a sum of products with `x` starts at, besides the [part of w](Self::first_sum_of_w).
    #[inline(always)]
    pub(super) fn first_sum_of_x(self, x: &[i8]) -> i32 {
        match self {
            Self::Both | Self::Offset => 0,
            Self::Weights => -128 * x.iter().map(|&x| i32::from(x)).sum::<i32>(),
            Self::Inputs => -x.iter().map(|&x| i32::from(x.min(0))).sum::<i32>(),
        }
    }
}

/// The order of the bytes of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    /// Word by word.
    Words,
    /// The first two bytes of all words, then the last two.
    Pairs,
    /// The first bytes of all words, then the second, and so on.
    Planes,
}

impl Dots {
    /// All of them, also those that this machine does not have. The best of each target is last.
    pub(super) const ALL: [Self; 7] = [
        Self::Scalar,
        Self::Avx2,
        Self::AvxVnni,
        Self::Avx512Vnni,
        Self::Neon,
        Self::NeonDotprod,
        Self::Simd128,
    ];

    /// The best one whose vectors are not wider than the machine's.
    pub(super) fn of(machine: &Machine) -> Self {
        let fits = |dots: &Self| dots.is_available() && dots.storage().lanes <= machine.lanes;
        let best = Self::ALL.into_iter().rev().find(fits);
        best.unwrap_or(Self::Scalar)
    }

    /// The fastest one with the same vectors for these weights.
    pub(super) fn of_weights(self, weights: &Integers) -> Self {
        match self {
            Self::Avx2 if weights.pairs_are_small() => Self::Avx2Small,
            other => other,
        }
    }

    /// Whether this machine and this build have it.
    pub(super) fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::Avx2Small => detected!(is_x86_feature_detected, "avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => {
                detected!(is_x86_feature_detected, "avx2")
                    && detected!(is_x86_feature_detected, "avxvnni")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => {
                detected!(is_x86_feature_detected, "avx512f")
                    && detected!(is_x86_feature_detected, "avx512vnni")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => detected!(is_aarch64_feature_detected, "neon"),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDotprod => detected!(is_aarch64_feature_detected, "dotprod"),
            Self::Simd128 => cfg!(all(target_family = "wasm", target_feature = "simd128")),
            #[allow(unreachable_patterns)] // Each target has some of them.
            _ => false,
        }
    }

    /// How it stores weights.
    pub(super) fn storage(self) -> Storage {
        let (lanes, signs, order) = match self {
            Self::Scalar => (8, Signs::Both, ByteOrder::Planes),
            Self::Avx2 => (8, Signs::Inputs, ByteOrder::Words),
            Self::Avx2Small => (8, Signs::Offset, ByteOrder::Words),
            Self::AvxVnni => (8, Signs::Weights, ByteOrder::Words),
            Self::Avx512Vnni => (16, Signs::Weights, ByteOrder::Words),
            Self::NeonDotprod => (4, Signs::Both, ByteOrder::Words),
            Self::Neon | Self::Simd128 => (4, Signs::Both, ByteOrder::Pairs),
        };
        Storage {
            lanes,
            signs,
            order,
        }
    }

    /// Writes the product of every row with the whole matrix.
    ///
    /// # Safety
    /// It [is available](Self::is_available).
    pub(super) unsafe fn product(self, operands: Multiplication<'_>) {
        operands.check(self.storage().lanes);
        match self {
            // SAFETY: the lengths were checked for this number of lanes.
            Self::Scalar => unsafe { product(scalar::Scalar, operands) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above, and the instructions are available.
            Self::Avx2 => unsafe { x86::avx2(operands) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above, and the instructions are available.
            Self::Avx2Small => unsafe { x86::avx2_small(operands) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above, and the instructions are available.
            Self::AvxVnni => unsafe { x86::avx_vnni(operands) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above, and the instructions are available.
            Self::Avx512Vnni => unsafe { x86::avx512_vnni(operands) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above, and the instructions are available.
            Self::Neon => unsafe { aarch64::neon(operands) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above, and the instructions are available.
            Self::NeonDotprod => unsafe { aarch64::dotprod(operands) },
            #[cfg(all(target_family = "wasm", target_feature = "simd128"))]
            // SAFETY: as above, and the build has the instructions.
            Self::Simd128 => unsafe { product(wasm::Simd128, operands) },
            #[allow(unreachable_patterns)] // Each target has some of them.
            _ => unreachable!("it is available"),
        }
    }
}

/// The vector operations of a product.
///
/// # Safety
/// All functions require the instruction set. Pointers are valid for a vector, and need no alignment.
pub(super) trait Dot: Copy {
    /// Words of a vector.
    const LANES: usize;
    /// A vector of integers.
    type Ints: Copy;
    /// A vector of floats.
    type Floats: Copy;
    /// A word of the left side, in the form that [`dot`](Self::dot) reads.
    type Lhs: Copy;

    unsafe fn ints(self, v: i32) -> Self::Ints;
    unsafe fn load(self, from: *const u32) -> Self::Ints;
    /// Four bytes of the left side for every lane.
    unsafe fn lhs(self, word: u32) -> Self::Lhs;
    /// `sums` plus the dot products of the four bytes in each lane.
    unsafe fn dot(self, sums: Self::Ints, w: Self::Ints, x: Self::Lhs) -> Self::Ints;
    unsafe fn floats(self, v: f32) -> Self::Floats;
    /// `sums + ints · scales`, with the scales at `scales`, each operation rounded.
    unsafe fn add_scaled(
        self,
        sums: Self::Floats,
        ints: Self::Ints,
        scales: *const u32,
    ) -> Self::Floats;
    /// Stores `sums · scale`.
    unsafe fn store(self, to: *mut f32, sums: Self::Floats, scale: f32);
}
