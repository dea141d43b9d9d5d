//! The left side of a product: rows of inputs or states, encoded.

use super::{
    dot::{BYTES, GROUP},
    matrix::Scale,
};
use pulp::{Simd, WithSimd};

/// 1.5 · 2²³. Adding it rounds to an integer, half to even, in the low bits.
pub(super) const ROUND: f32 = 12_582_912.0;

/// The largest integer.
pub(super) const LARGEST: f32 = 127.0;

/// Numbers below this size count as zero, because the inverse of their step could be infinite: 2⁻¹⁰⁰.
pub(super) const NEGLIGIBLE: f32 = f32::from_bits(27 << 23);

/// Encoded rows.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) words: &'a [u32],
    /// Words from one row to the next.
    pub(super) stride: usize,
    pub(super) count: usize,
}

/// Encodes a row for int8: the step of its integers, then for each group the sum at which its dot products
/// start, and four integers in each word. The loops become vector code.
pub(super) struct Encode<'a> {
    pub(super) x: &'a [f32],
    /// Whether the weights are stored as q + 128.
    pub(super) is_biased: bool,
    pub(super) to: &'a mut [u32],
}

impl WithSimd for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let sizes = self.x.iter().map(|v| v.to_bits() & !(1 << 31));
        let largest = sizes.fold(0, u32::max);
        let scale = Scale::for_largest(f32::from_bits(largest));
        let Some((step, mut to)) = self.to.split_first_mut() else {
            return;
        };
        *step = scale.step.to_bits();
        for x in self.x.chunks(GROUP) {
            let mut bytes = [0; GROUP];
            for (byte, &v) in bytes.iter_mut().zip(x) {
                *byte = scale.round(v);
            }
            let sum: i32 = bytes.iter().map(|&q| i32::from(q)).sum();
            let (group, rest) = to.split_at_mut(to.len().min(1 + GROUP / BYTES));
            if let Some((start, words)) = group.split_first_mut() {
                *start = if self.is_biased { -128 * sum } else { 0 } as u32;
                for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(BYTES)) {
                    *word = u32::from_ne_bytes([0, 1, 2, 3].map(|k| bytes[k] as u8));
                }
            }
            to = rest;
        }
    }
}
