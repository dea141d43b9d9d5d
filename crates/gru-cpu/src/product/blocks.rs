//! A matrix that is written by rows, and read both by rows and by columns.

use super::{Left, Rows};
use crate::simd::Lanes;

/// Columns of a block: a vector of the widest instruction set, or several of another.
pub(crate) const WIDTH: usize = 16;

/// Some gates of some rows, their units in blocks of [`WIDTH`] columns. A block holds one row after
/// the other: a product over rows reads it from first to last, a product over units reads one line
/// of each block.
pub(crate) struct Blocks<'a, E> {
    cells: Rows<'a, E>,
    /// Rows from one block to the next.
    stride: usize,
    /// Blocks of a gate.
    per_gate: usize,
}

impl<E> Clone for Blocks<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E> Copy for Blocks<'_, E> {}

/// Odd, so that the lines of one row in all blocks do not meet in one set of the cache.
fn stride(rows: usize) -> usize {
    rows | 1
}

impl<'a, E: Lanes> Blocks<'a, E> {
    /// Elements of so many gates of `h` units.
    pub(crate) fn size(gates: usize, h: usize, rows: usize) -> usize {
        gates * h.div_ceil(WIDTH) * stride(rows) * WIDTH
    }

    pub(crate) fn new(data: &'a mut [E], h: usize, rows: usize) -> Self {
        Self {
            cells: Rows::new(data, WIDTH),
            stride: stride(rows),
            per_gate: h.div_ceil(WIDTH),
        }
    }

    /// The address of a unit of a row; with it lie the rest of its block, and the same block of the
    /// rows after it.
    #[inline(always)]
    pub(crate) fn at(&self, gate: usize, unit: usize, row: usize) -> *mut E {
        let block = gate * self.per_gate + unit / WIDTH;
        self.cells
            .at(block * self.stride + row)
            .wrapping_add(unit % WIDTH)
    }

    /// Elements from a unit of one gate to the same of the next.
    #[inline(always)]
    pub(crate) fn gate_distance(&self) -> usize {
        self.per_gate * self.stride * WIDTH
    }

    /// Rows from `row` on, from the first unit of a gate on.
    #[inline(always)]
    pub(crate) fn left(&self, gate: usize, row: usize) -> Left<E> {
        Left::blocks(self.at(gate, 0, row), self.stride * WIDTH)
    }
}
