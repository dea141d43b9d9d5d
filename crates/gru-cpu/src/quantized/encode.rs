//! Rounding to int8, and the left side of its product: rows of inputs or states, encoded.

use super::{
    dot::Signs,
    shape::{BYTES, GROUP, GROUP_WORDS},
};
use pulp::{Simd, WithSimd};

/// 1.5 · 2²³. Adding it rounds to an integer, half to even, in the low bits.
const ROUND: f32 = 12_582_912.0;

/// The largest integer.
const LARGEST: f32 = 127.0;

/// How far a weight may be from a multiple of a step, in steps: four times the rounding errors of float32.
const EXACT: f32 = 1.0 / 16384.0;

/// Numbers below this size count as zero, because the inverse of their step could be infinite: 2⁻¹⁰⁰.
const NEGLIGIBLE: f32 = f32::from_bits(27 << 23);

/// The scale of some numbers.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// The size of a step.
    pub(super) step: f32,
    per_unit: f32,
}

impl Scale {
    /// The largest number is 127 steps. With a number that is not finite, the step is NaN. Negligible numbers
    /// are zero.
    #[inline(always)]
    fn of(numbers: impl Iterator<Item = f32>) -> Self {
        Self::with(LARGEST, largest(numbers))
    }

    /// [`of`](Self::of), except that weights which are multiples of a larger step keep their integers: weights that were
    /// rounded to 8 bits before.
    pub(super) fn of_weights(weights: impl Iterator<Item = f32> + Clone) -> Self {
        let largest = largest(weights.clone());
        let counts = (1..=LARGEST as u8).rev().map(f32::from);
        let mut scales = counts.map(|steps| Self::with(steps, largest));
        let exact = scales.find(|scale| weights.clone().all(|w| scale.is_exact(w)));
        exact.unwrap_or_else(|| Self::of(weights))
    }

    /// `largest` is this number of steps.
    #[inline(always)]
    fn with(steps: f32, largest: f32) -> Self {
        let (step, per_unit) = if !largest.is_finite() {
            (f32::NAN, 0.0)
        } else if largest < NEGLIGIBLE {
            (0.0, 0.0)
        } else {
            (largest / steps, steps / largest)
        };
        Self { step, per_unit }
    }

    fn is_exact(self, w: f32) -> bool {
        let steps = w * self.per_unit;
        (steps - steps.round_ties_even()).abs() <= EXACT
    }

    /// The nearest integer, half to even, between −127 and 127. It is another one if the step is NaN.
    #[inline(always)]
    pub(super) fn round(self, v: f32) -> i32 {
        let bits = (v * self.per_unit + ROUND).to_bits();
        bits.wrapping_sub(ROUND.to_bits()) as i32
    }
}

#[inline(always)]
fn largest(numbers: impl Iterator<Item = f32>) -> f32 {
    // Sizes without a sign have the order of their bits, and a NaN is the largest.
    let sizes = numbers.map(|v| v.to_bits() & !(1 << 31));
    f32::from_bits(sizes.fold(0, u32::max))
}

/// Encodes a row for int8: the step of its integers, then for each group the sum at which its dot products
/// start, and four integers in each word. The loops become vector code.
pub(super) struct Encode<'a> {
    pub(super) x: &'a [f32],
    pub(super) signs: Signs,
    pub(super) to: &'a mut [u32],
}

impl WithSimd for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let scale = Scale::of(self.x.iter().copied());
        let Some((step, to)) = self.to.split_first_mut() else {
            return;
        };
        *step = scale.step.to_bits();
        let (groups, last) = self.x.as_chunks::<GROUP>();
        let (of_groups, of_last) = to.split_at_mut(groups.len() * (1 + GROUP_WORDS));
        let (of_groups, _) = of_groups.as_chunks_mut();
        for (x, to) in groups.iter().zip(of_groups) {
            *to = encode(x, scale, self.signs);
        }
        if !of_last.is_empty() {
            let mut x = [0.0; GROUP];
            x[..last.len()].copy_from_slice(last);
            let group = encode(&x, scale, self.signs);
            of_last.copy_from_slice(&group[..of_last.len()]);
        }
    }
}

/// The first sum and the words of a group.
#[inline(always)]
fn encode(x: &[f32; GROUP], scale: Scale, signs: Signs) -> [u32; 1 + GROUP_WORDS] {
    let integers = x.map(|v| scale.round(v));
    let bytes = integers.map(|q| q as u8);
    let (words, _) = bytes.as_chunks::<BYTES>();
    let mut group = [signs.first_sum(&integers) as u32; 1 + GROUP_WORDS];
    for (word, &bytes) in group[1..].iter_mut().zip(words) {
        *word = u32::from_ne_bytes(bytes);
    }
    group
}
