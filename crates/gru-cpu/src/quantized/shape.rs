//! The sizes of a packed matrix, and what its product reads and writes.

use super::dot::{Signs, Storage};

/// Vectors of a panel: few enough for four rows, or for one row and two panels, to have their sums in 16 registers.
pub(super) const VECTORS: usize = 3;

/// Inputs of int8 that share a scale, unless a column has one scale.
pub(super) const GROUP: usize = 64;

/// Bytes of a word: inputs that one instruction multiplies.
pub(super) const BYTES: usize = 4;

/// Words of a full group.
pub(super) const GROUP_WORDS: usize = GROUP / BYTES;

/// The sizes of a packed matrix.
///
/// A panel has [`VECTORS`] vectors of columns. For each word of inputs it stores these vectors; a word holds
/// two bfloat16 or four int8 of successive inputs. int8 also has a vector of scales after each group, and may have a
/// vector of first sums before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatrixShape {
    /// Columns of a vector.
    pub(super) lanes: usize,
    /// Words of a column.
    pub(super) words: usize,
    /// Words of a group. The last one may have fewer.
    pub(super) group_words: usize,
    /// Scales of a column.
    pub(super) groups: usize,
    /// Whether a column has the sums at which the dot products of its groups start.
    pub(super) has_first_sums: bool,
    pub(super) panels: usize,
}

impl MatrixShape {
    pub(super) fn bf16(k: usize, columns: usize, lanes: usize) -> Self {
        Self {
            lanes,
            words: k.div_ceil(2),
            group_words: 0,
            groups: 0,
            has_first_sums: false,
            panels: columns.div_ceil(VECTORS * lanes),
        }
    }

    /// `group` inputs share a scale.
    pub(super) fn int8(k: usize, columns: usize, storage: Storage, group: usize) -> Self {
        let Storage { lanes, signs, .. } = storage;
        // Without inputs a product reads zeros.
        let words = k.max(1).div_ceil(BYTES);
        Self {
            lanes,
            words,
            group_words: group.div_ceil(BYTES),
            groups: words.div_ceil(group.div_ceil(BYTES)),
            has_first_sums: signs == Signs::Offset,
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
        self.panel_columns() * (self.words + self.groups * self.vectors_besides_words())
    }

    /// Vectors of a group for each vector of columns, besides its words: scales and first sums.
    pub(super) fn vectors_besides_words(&self) -> usize {
        1 + usize::from(self.has_first_sums)
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

/// The panels of a matrix, encoded rows, and where their products go.
pub(super) struct Multiplication<'a> {
    pub(super) shape: MatrixShape,
    /// The panels.
    pub(super) weights: &'a [u32],
    /// Encoded rows, each of `shape.row_words()` words.
    pub(super) rows: &'a [u32],
    pub(super) count: usize,
    /// A row of results for each row, with `shape.columns()` elements.
    pub(super) to: &'a mut [f32],
    /// Elements from one row of results to the next.
    pub(super) stride: usize,
}

impl Multiplication<'_> {
    /// # Panics
    /// If a slice is too short for vectors of so many lanes.
    pub(super) fn check(&self, lanes: usize) {
        let (shape, last) = (&self.shape, self.count.saturating_sub(1));
        assert_eq!(shape.lanes, lanes);
        assert!(self.weights.len() >= shape.panels * shape.panel_words());
        assert!(self.rows.len() >= self.count * shape.row_words());
        assert!(self.count == 0 || self.to.len() >= last * self.stride + shape.columns());
    }

    /// The addresses of a panel, of a row, and of the results of both. The panel and the row exist.
    #[inline(always)]
    pub(super) fn at(&mut self, panel: usize, row: usize) -> Addresses {
        let shape = &self.shape;
        let (weights, rows) = (self.weights.as_ptr(), self.rows.as_ptr());
        let to = row * self.stride + panel * shape.panel_columns();
        Addresses {
            weights: weights.wrapping_add(panel * shape.panel_words()),
            row: rows.wrapping_add(row * shape.row_words()),
            to: self.to.as_mut_ptr().wrapping_add(to),
            stride: self.stride,
        }
    }
}

/// What a tile reads and writes: a panel, and the first of its rows.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    pub(super) weights: *const u32,
    pub(super) row: *const u32,
    pub(super) to: *mut f32,
    /// Elements from one row of results to the next.
    pub(super) stride: usize,
}
