//! The left side of an int8 product: rows of inputs or states, encoded.

use super::{
    dot::Signs,
    integers::Scale,
    shape::{BYTES, GROUP, GROUP_WORDS},
};
use pulp::{Simd, WithSimd};

/// Encodes a row for int8: the step of its integers, the sum at which the dot products of each group start, and four
/// integers in each word. The loops become vector code.
pub(super) struct Encode<'a> {
    pub(super) x: &'a [f32],
    pub(super) signs: Signs,
    pub(super) groups: usize,
    pub(super) to: &'a mut [u32],
}

impl WithSimd for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let scale = Scale::of(self.x.iter().copied());
        let (head, words) = self.to.split_at_mut(1 + self.groups);
        let Some((step, sums)) = head.split_first_mut() else {
            return;
        };
        *step = scale.step.to_bits();
        sums.fill(0);
        // A group is one of these chunks, or all of them.
        let mut add = |chunk: usize, sum: i32| {
            let of_group = &mut sums[chunk.min(self.groups - 1)];
            *of_group = of_group.wrapping_add(sum as u32);
        };
        let (chunks, last) = self.x.as_chunks::<GROUP>();
        let (of_chunks, of_last) = words.split_at_mut(chunks.len() * GROUP_WORDS);
        let (of_chunks, _) = of_chunks.as_chunks_mut();
        for (chunk, (x, to)) in chunks.iter().zip(of_chunks).enumerate() {
            let sum;
            (sum, *to) = encode(x, scale, self.signs);
            add(chunk, sum);
        }
        if !of_last.is_empty() {
            let mut x = [0.0; GROUP];
            x[..last.len()].copy_from_slice(last);
            let (sum, words) = encode(&x, scale, self.signs);
            of_last.copy_from_slice(&words[..of_last.len()]);
            add(chunks.len(), sum);
        }
    }
}

/// The first sum and the words of some integers.
#[inline(always)]
fn encode(x: &[f32; GROUP], scale: Scale, signs: Signs) -> (i32, [u32; GROUP_WORDS]) {
    let (mut integers, mut bytes, mut to) = ([0; GROUP], [0; GROUP], [0; GROUP_WORDS]);
    for (integer, &v) in integers.iter_mut().zip(x) {
        *integer = scale.round(v);
    }
    for (byte, &q) in bytes.iter_mut().zip(&integers) {
        *byte = signs.byte_of_x(q);
    }
    let (words, _) = bytes.as_chunks::<BYTES>();
    for (to, &word) in to.iter_mut().zip(words) {
        *to = u32::from_ne_bytes(word);
    }
    (signs.first_sum_of_x(&integers), to)
}
