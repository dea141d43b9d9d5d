//! A weight matrix of 16 or 8 bits, and its product.

use super::{
    bf16,
    dot::{BYTES, ByteOrder, Call, Dots, GROUP, GROUP_WORDS, Storage},
    rows::{Encode, LARGEST, NEGLIGIBLE, ROUND, Rows},
};
use crate::{product::Buffer, simd::Machine, spec::Precision};
use std::ops::Range;

/// Vectors of a panel: as many sums of a row as hide the latency of an addition, and few enough for four rows
/// to have their sums in 16 registers.
pub(super) const VECTORS: usize = 3;

/// The sizes of a packed matrix.
///
/// A panel has [`VECTORS`] vectors of columns. For each word of inputs it stores these vectors; a word holds
/// two bfloat16 or four int8 of successive inputs. int8 also has a vector of scales after each group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Columns of a vector.
    pub(super) lanes: usize,
    /// Words of a column.
    pub(super) words: usize,
    /// Scales of a column.
    pub(super) groups: usize,
    pub(super) panels: usize,
}

impl Shape {
    fn bf16(k: usize, columns: usize, lanes: usize) -> Self {
        Self {
            lanes,
            words: k.div_ceil(2),
            groups: 0,
            panels: columns.div_ceil(VECTORS * lanes),
        }
    }

    fn int8(k: usize, columns: usize, lanes: usize) -> Self {
        // A product reads pairs of words. Without inputs it reads zeros.
        let words = 2 * k.max(1).div_ceil(2 * BYTES);
        Self {
            lanes,
            words,
            groups: words.div_ceil(GROUP_WORDS),
            panels: columns.div_ceil(VECTORS * lanes),
        }
    }

    /// Columns of a panel.
    pub(super) fn panel_columns(&self) -> usize {
        VECTORS * self.lanes
    }

    /// Columns of all panels.
    pub(super) fn columns(&self) -> usize {
        self.panels * self.panel_columns()
    }

    /// Words of a panel.
    pub(super) fn panel_words(&self) -> usize {
        self.panel_columns() * (self.words + self.groups)
    }

    /// Words of an encoded row.
    pub(super) fn row_words(&self) -> usize {
        if self.groups == 0 {
            2 * self.words
        } else {
            1 + self.groups + self.words
        }
    }
}

/// Columns of a row-major matrix.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    pub(super) elements: &'a [f32],
    /// Elements from one row to the next.
    pub(super) stride: usize,
    /// The first column, and the number of columns.
    pub(super) first: usize,
    pub(super) count: usize,
    /// Rows.
    pub(super) k: usize,
}

impl Columns<'_> {
    fn at(&self, k: usize, column: usize) -> f32 {
        self.elements[k * self.stride + self.first + column]
    }
}

/// Squares of the weights and of their rounding errors, summed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Energy {
    pub(crate) weights: f64,
    pub(crate) errors: f64,
}

impl Energy {
    fn add(&mut self, exact: f32, rounded: f32) {
        let (exact, rounded) = (f64::from(exact), f64::from(rounded));
        self.weights += exact * exact;
        self.errors += (exact - rounded) * (exact - rounded);
    }
}

/// A matrix `[K, columns]`.
pub(super) struct Matrix {
    machine: Machine,
    /// For int8.
    dots: Option<Dots>,
    k: usize,
    shape: Shape,
    packed: Buffer<f32>,
    pub(super) energy: Energy,
}

impl Matrix {
    /// # Panics
    /// For [`Precision::Full`].
    pub(super) fn new(machine: Machine, precision: Precision, from: Columns<'_>) -> Self {
        match precision {
            Precision::Bf16 => Self::bf16(machine, from),
            Precision::Int8 => Self::int8(machine, Dots::of(&machine), from),
            other => panic!("gru_cpu: expected weights of 16 or 8 bits, got {other:?}"),
        }
    }

    fn bf16(machine: Machine, from: Columns<'_>) -> Self {
        let shape = Shape::bf16(from.k, from.count, machine.lanes);
        let width = shape.panel_columns();
        Self::packed(machine, None, from, shape, |panel, to, energy| {
            for k in 0..from.k {
                for (column, at) in columns_of(panel, width, from.count) {
                    let exact = from.at(k, column);
                    let bits = u32::from(bf16::round(exact));
                    to[k / 2 * width + at] |= bits << (k % 2 * 16);
                    energy.add(exact, f32::from_bits(bits << 16));
                }
            }
        })
    }

    pub(super) fn int8(machine: Machine, dots: Dots, from: Columns<'_>) -> Self {
        let storage = dots.storage();
        let shape = Shape::int8(from.k, from.count, storage.lanes);
        let width = shape.panel_columns();
        Self::packed(machine, Some(dots), from, shape, |panel, to, energy| {
            // A group is its words and its scales.
            for (group, to) in to.chunks_mut((GROUP_WORDS + 1) * width).enumerate() {
                let ks = group * GROUP..from.k.min((group + 1) * GROUP);
                let (words, scales) = to.split_at_mut(to.len() - width);
                for (column, at) in columns_of(panel, width, from.count) {
                    let weight = |k| from.at(k, column);
                    let scale = Scale::of(ks.clone().map(weight));
                    scales[at] = scale.step.to_bits();
                    for (place, k) in ks.clone().enumerate() {
                        let q = scale.round(weight(k));
                        let word = place / BYTES * width;
                        storage.store(&mut words[word..][..width], at, place % BYTES, q);
                        energy.add(weight(k), f32::from(q) * scale.step);
                    }
                }
            }
        })
    }

    /// `pack` fills a panel.
    fn packed(
        machine: Machine,
        dots: Option<Dots>,
        from: Columns<'_>,
        shape: Shape,
        pack: impl Fn(usize, &mut [u32], &mut Energy),
    ) -> Self {
        let mut packed = Buffer::new(shape.panels * shape.panel_words());
        let mut energy = Energy::default();
        // Without inputs there is nothing to pack.
        let panels = packed
            .words_mut()
            .chunks_exact_mut(shape.panel_words().max(1));
        for (panel, to) in panels.enumerate() {
            pack(panel, to, &mut energy);
        }
        Self {
            machine,
            dots,
            k: from.k,
            shape,
            packed,
            energy,
        }
    }

    /// Floats of a row of results: the columns with padding.
    pub(super) fn columns(&self) -> usize {
        self.shape.columns()
    }

    /// Words of an encoded row.
    pub(super) fn row_words(&self) -> usize {
        self.shape.row_words()
    }

    /// Bytes of the packed weights.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.packed.as_ref())
    }

    /// Encodes a row of K elements for a product with this matrix.
    pub(super) fn encode(&self, x: &[f32], to: &mut [u32]) {
        assert_eq!(x.len(), self.k);
        assert_eq!(to.len(), self.row_words());
        match self.dots {
            None => bf16::encode(x, to),
            Some(dots) => self.machine.arch.dispatch(Encode {
                x,
                is_biased: dots.storage().is_biased,
                to,
            }),
        }
    }

    /// Writes the products of encoded rows to rows of [`columns`](Self::columns) floats.
    pub(super) fn product(&self, rows: &[u32], to: &mut [f32]) {
        let stride = self.row_words();
        let count = to.len().checked_div(self.columns()).unwrap_or(0);
        let call = Call {
            shape: self.shape,
            weights: self.packed.words(),
            rows: Rows {
                words: rows,
                stride,
                count,
            },
            to,
        };
        match self.dots {
            None => self.machine.arch.dispatch(bf16::Product(call)),
            Some(dots) => dots.product(call),
        }
    }
}

/// The scale of some weights.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// The size of a step.
    pub(super) step: f32,
    per_unit: f32,
}

impl Scale {
    /// The largest weight is 127 steps. With a weight that is not finite, the step is NaN. Negligible weights
    /// are zero.
    fn of(weights: impl Iterator<Item = f32>) -> Self {
        // Sizes without a sign have the order of their bits, and a NaN is the largest.
        let largest = weights.map(|w| w.to_bits() & !(1 << 31)).max();
        Self::for_largest(f32::from_bits(largest.unwrap_or(0)))
    }

    /// For numbers whose size is at most `largest`.
    #[inline(always)]
    pub(super) fn for_largest(largest: f32) -> Self {
        if !largest.is_finite() {
            return Self {
                step: f32::NAN,
                per_unit: 0.0,
            };
        }
        if largest < NEGLIGIBLE {
            return Self {
                step: 0.0,
                per_unit: 0.0,
            };
        }
        Self {
            step: largest / LARGEST,
            per_unit: LARGEST / largest,
        }
    }

    /// The nearest integer, half to even. The step is NaN or 0 if this is not between −127 and 127.
    #[inline(always)]
    pub(super) fn round(self, v: f32) -> i8 {
        (v * self.per_unit + ROUND).to_bits() as i8
    }
}

/// The columns of a panel that exist, each with its place in a word's vectors.
fn columns_of(panel: usize, width: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    let columns: Range<usize> = panel * width..count.min((panel + 1) * width);
    columns.zip(0..)
}

impl Storage {
    /// Stores a byte of the word at `at` in some vectors.
    fn store(self, vectors: &mut [u32], at: usize, byte: usize, q: i8) {
        let (vector, lane) = (at / self.lanes * self.lanes, at % self.lanes);
        let place = match self.order {
            ByteOrder::Words => BYTES * lane + byte,
            ByteOrder::Pairs => byte / 2 * 2 * self.lanes + 2 * lane + byte % 2,
            ByteOrder::Planes => byte * self.lanes + lane,
        };
        let word = &mut vectors[vector + place / BYTES];
        let mut bytes = word.to_ne_bytes();
        bytes[place % BYTES] = if self.is_biased {
            (q as u8).wrapping_add(128)
        } else {
            q as u8
        };
        *word = u32::from_ne_bytes(bytes);
    }
}
