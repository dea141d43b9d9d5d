//! Rounding to int8.

use super::{matrix::Columns, shape::GROUP};
use alloc::vec::Vec;

/// 1.5 · 2²³. Adding it rounds to an integer, half to even, in the low bits.
const ROUND: f32 = 12_582_912.0;

/// The largest integer.
pub(super) const LARGEST: u8 = 127;

/// How far a weight may be from a multiple of a step, in steps: four times the rounding errors of float32.
const EXACT: f32 = 1.0 / 16384.0;

/// Numbers below this size count as zero, because the inverse of their step could be infinite: 2⁻¹⁰⁰.
const NEGLIGIBLE: f32 = f32::from_bits(27 << 23);

/// A sum of so many products has 32 bits.
const LONGEST_GROUP: usize = 1 << 16;

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
    pub(super) fn of(numbers: impl Iterator<Item = f32>) -> Self {
        Self::with(LARGEST.into(), largest(numbers))
    }

    /// The largest step of which all numbers are multiples, if there is one: of weights that were rounded to 8 bits before.
    fn exact(numbers: impl Iterator<Item = f32> + Clone) -> Option<Self> {
        let largest = largest(numbers.clone());
        let counts = (1..=LARGEST).map(f32::from);
        let mut scales = counts.map(|steps| Self::with(steps, largest));
        scales.find(|scale| numbers.clone().all(|v| scale.is_exact(v)))
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

    fn is_exact(self, v: f32) -> bool {
        let steps = v * self.per_unit;
        (steps - (steps + ROUND - ROUND)).abs() <= EXACT
    }

    /// The nearest integer, half to even, between −127 and 127. It is another one if the step is NaN.
    #[inline(always)]
    pub(super) fn round(self, v: f32) -> i8 {
        // The lowest byte of `ROUND` is zero.
        (v * self.per_unit + ROUND).to_bits() as i8
    }
}

#[inline(always)]
fn largest(numbers: impl Iterator<Item = f32>) -> f32 {
    // Sizes without a sign have the order of their bits, and a NaN is the largest.
    let sizes = numbers.map(|v| v.to_bits() & !(1 << 31));
    f32::from_bits(sizes.fold(0, u32::max))
}

/// Weights as integers, with a scale for each group of a column. Weights that are integers times a scale for each
/// column, as another program rounded them, keep their integers, and a column is one group.
pub(super) struct Integers {
    /// By column.
    integers: Vec<i8>,
    /// By column and group.
    steps: Vec<f32>,
    k: usize,
    /// Weights of a group.
    pub(super) group: usize,
}

impl Integers {
    pub(super) fn of(from: &Columns<'_>) -> Self {
        let weights = |column: usize, first: usize, len: usize| {
            (first..from.k.min(first + len)).map(move |k| from.at(k, column))
        };
        let is_one_group = |column| Scale::exact(weights(column, 0, from.k)).is_some();
        let group = if from.k <= LONGEST_GROUP && (0..from.count).all(is_one_group) {
            from.k.max(GROUP)
        } else {
            GROUP
        };
        let mut integers = Vec::with_capacity(from.count * from.k);
        let mut steps = Vec::new();
        for column in 0..from.count {
            for first in (0..from.k.max(1)).step_by(group) {
                let weights = weights(column, first, group);
                let scale =
                    Scale::exact(weights.clone()).unwrap_or_else(|| Scale::of(weights.clone()));
                integers.extend(weights.map(|v| scale.round(v)));
                steps.push(scale.step);
            }
        }
        Self {
            integers,
            steps,
            k: from.k,
            group,
        }
    }

    /// The integers of a group and their step.
    pub(super) fn group(&self, column: usize, group: usize) -> (&[i8], f32) {
        let groups = self.k.max(1).div_ceil(self.group);
        let ks = group * self.group..self.k.min((group + 1) * self.group);
        let integers = &self.integers[column * self.k..][ks];
        (integers, self.steps[column * groups + group])
    }

    /// Whether the products of two neighbours with bytes up to 254 have a sum of 16 bits.
    pub(super) fn pairs_are_small(&self) -> bool {
        const LARGEST_PAIR: i32 = i16::MAX as i32 / (2 * LARGEST as i32);
        let mut columns = self.integers.chunks(self.k.max(1));
        columns.all(|column| {
            column.chunks(2).all(|pair| {
                let sum = |sign: i32| {
                    pair.iter()
                        .map(|&q| (sign * i32::from(q)).max(0))
                        .sum::<i32>()
                };
                sum(1) <= LARGEST_PAIR && sum(-1) <= LARGEST_PAIR
            })
        })
    }
}
