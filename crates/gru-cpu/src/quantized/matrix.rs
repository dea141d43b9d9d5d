//! A weight matrix of 16 or 8 bits, and its product.

use super::{
    bf16::{self, Bf16},
    dot::{ByteOrder, Dots, Storage},
    encode::Encode,
    integers::Integers,
    shape::{BYTES, MatrixShape, Multiplication},
};
use crate::{product::Buffer, simd::Machine, spec::Precision};
use core::ops::Range;

/// Columns of a row-major matrix.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) elements: &'a [f32],
    /// Elements from one row to the next.
    pub(crate) stride: usize,
    /// The first column, and the number of columns.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// Rows.
    pub(crate) k: usize,
}

impl Columns<'_> {
    pub(super) fn at(&self, k: usize, column: usize) -> f32 {
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
    /// The energy of two matrices.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            weights: self.weights + other.weights,
            errors: self.errors + other.errors,
        }
    }

    /// `10·log₁₀ Σw² / Σ(w − ŵ)²`, in dB, if there are errors.
    pub(crate) fn db(self) -> Option<f64> {
        (self.errors > 0.0).then(|| 10.0 * num_traits::Float::log10(self.weights / self.errors))
    }

    fn add(&mut self, exact: f32, rounded: f32) {
        let (exact, rounded) = (f64::from(exact), f64::from(rounded));
        self.weights += exact * exact;
        self.errors += (exact - rounded) * (exact - rounded);
    }
}

/// A matrix whose products with rows are written to memory. A trait, because quantized weights exist in float32 only, and
/// the passes do not know that their `E` is `f32`.
pub(crate) trait RowProduct<E>: Send + Sync {
    /// Elements of a row of the left side.
    fn k(&self) -> usize;

    /// Elements of a row of results: the columns with padding.
    fn columns(&self) -> usize;

    /// Words of an encoded row.
    fn row_words(&self) -> usize;

    /// Bytes of the weights.
    fn bytes(&self) -> usize;

    /// How much the weights were rounded.
    fn energy(&self) -> Energy;

    /// Writes the products of `count` rows, which `lhs` returns, to rows that are `stride` elements apart. `encoded` has
    /// room for so many rows.
    ///
    /// # Safety
    /// The rows of `lhs` have K elements, which no thread writes. The rows from `to` on have
    /// [`columns`](Self::columns) elements, and belong to this thread.
    unsafe fn multiply(
        &self,
        count: usize,
        lhs: &dyn Fn(usize) -> *const E,
        encoded: &mut [u32],
        to: *mut E,
        stride: usize,
    );
}

/// A matrix `[K, columns]`.
pub(crate) struct Matrix {
    machine: Machine,
    /// For int8.
    dots: Option<Dots>,
    k: usize,
    shape: MatrixShape,
    packed: Buffer<f32>,
    energy: Energy,
}

impl Matrix {
    /// # Panics
    /// For [`Precision::Full`].
    pub(crate) fn new(machine: Machine, precision: Precision, from: Columns<'_>) -> Self {
        match precision {
            Precision::Bf16 => Self::bf16(machine, from),
            Precision::Int8 => Self::int8(machine, Dots::of(&machine), from),
            other => panic!("gru_cpu: expected weights of 16 or 8 bits, got {other:?}"),
        }
    }

    fn bf16(machine: Machine, from: Columns<'_>) -> Self {
        let shape = MatrixShape::bf16(from.k, from.count, machine.lanes);
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
        assert!(dots.is_available(), "{dots:?} is not available");
        let all = Integers::of(&from);
        let dots = dots.of_weights(&all);
        let storage = dots.storage();
        let shape = MatrixShape::int8(from.k, from.count, storage, all.group);
        let width = shape.panel_columns();
        let of_group = (shape.group_words + shape.vectors_besides_words()) * width;
        Self::packed(machine, Some(dots), from, shape, |panel, to, energy| {
            for (group, to) in to.chunks_mut(of_group).enumerate() {
                let (words, scales) = to.split_at_mut(to.len() - width);
                let (sums, words) = words.split_at_mut(usize::from(shape.has_first_sums) * width);
                for (column, at) in columns_of(panel, width, from.count) {
                    let (integers, step) = all.group(column, group);
                    scales[at] = step.to_bits();
                    if let Some(sum) = sums.get_mut(at) {
                        *sum = storage.signs.first_sum_of_w(integers) as u32;
                    }
                    for (place, &q) in integers.iter().enumerate() {
                        let word = place / BYTES * width;
                        storage.store(&mut words[word..][..width], at, place % BYTES, q);
                        let exact = from.at(group * all.group + place, column);
                        energy.add(exact, f32::from(q) * step);
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
        shape: MatrixShape,
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

    /// Encodes a row of K elements for a product with this matrix.
    pub(super) fn encode(&self, x: &[f32], to: &mut [u32]) {
        assert_eq!(x.len(), self.k);
        assert_eq!(to.len(), self.row_words());
        match self.dots {
            None => bf16::encode(x, to),
            Some(dots) => self.machine.arch.dispatch(Encode {
                x,
                signs: dots.storage().signs,
                groups: self.shape.groups,
                to,
            }),
        }
    }

    /// Writes the products of encoded rows to rows that are `stride` floats apart.
    pub(super) fn product(&self, rows: &[u32], count: usize, to: &mut [f32], stride: usize) {
        let operands = Multiplication {
            shape: self.shape,
            weights: self.packed.words(),
            rows,
            count,
            to,
            stride,
        };
        match self.dots {
            None => self.machine.arch.dispatch(Bf16(operands)),
            // SAFETY: it is available, as `int8` checked.
            Some(dots) => unsafe { dots.product(operands) },
        }
    }
}

impl RowProduct<f32> for Matrix {
    fn k(&self) -> usize {
        self.k
    }

    fn columns(&self) -> usize {
        self.shape.columns()
    }

    fn row_words(&self) -> usize {
        self.shape.row_words()
    }

    fn bytes(&self) -> usize {
        size_of_val(self.packed.as_ref())
    }

    fn energy(&self) -> Energy {
        self.energy
    }

    unsafe fn multiply(
        &self,
        count: usize,
        lhs: &dyn Fn(usize) -> *const f32,
        encoded: &mut [u32],
        to: *mut f32,
        stride: usize,
    ) {
        let words = self.row_words();
        for at in 0..count {
            // SAFETY: the caller promises K elements.
            let row = unsafe { core::slice::from_raw_parts(lhs(at), self.k) };
            self.encode(row, &mut encoded[at * words..][..words]);
        }
        let len = count.saturating_sub(1) * stride + self.columns();
        // SAFETY: the caller promises these results.
        let to = unsafe { core::slice::from_raw_parts_mut(to, len) };
        self.product(encoded, count, to, stride);
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
        bytes[place % BYTES] = self.signs.byte_of_w(q);
        *word = u32::from_ne_bytes(bytes);
    }
}
