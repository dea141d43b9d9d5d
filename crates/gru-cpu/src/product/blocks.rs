//! A matrix that is written by rows, and read both by rows and by columns.

use super::{Lhs, Rows};
use crate::simd::Lanes;

/// Columns of a block: one vector of the widest instruction set, or several of a narrower one.
pub(crate) const WIDTH: usize = 16;

/// Some gates of some rows, with the units in blocks of [`WIDTH`] columns. A block stores its rows one after the
/// other. A product over rows reads a block from first to last; a product over units reads one line of each
/// block.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<'a, E> {
    cells: Rows<'a, E>,
    /// Rows from one block to the next.
    stride: usize,
    /// Blocks of a gate.
    per_gate: usize,
}

/// Odd, so that the lines of one row in all blocks do not share a cache set.
fn stride(rows: usize) -> usize {
    rows | 1
}

impl<'a, E: Lanes> Blocks<'a, E> {
    /// The number of elements for so many gates of `h` units.
    pub(crate) fn size(gates: usize, h: usize, rows: usize) -> usize {
        gates * h.div_ceil(WIDTH) * stride(rows) * WIDTH
    }

    /// `cells` are rows of [`WIDTH`] elements.
    pub(crate) fn new(cells: Rows<'a, E>, h: usize, rows: usize) -> Self {
        assert_eq!(cells.width(), WIDTH);
        Self {
            cells,
            stride: stride(rows),
            per_gate: h.div_ceil(WIDTH),
        }
    }

    /// The address of a unit of a row. The rest of its block follows, then the same block of the next rows.
    #[inline(always)]
    pub(crate) fn at(&self, gate: usize, unit: usize, row: usize) -> *mut E {
        let block = gate * self.per_gate + unit / WIDTH;
        self.cells
            .at(block * self.stride + row)
            .wrapping_add(unit % WIDTH)
    }

    /// Elements from a unit of one gate to the same unit of the next gate.
    #[inline(always)]
    pub(crate) fn gate_distance(&self) -> usize {
        self.per_gate * self.stride * WIDTH
    }

    /// Rows from `row` on, from the first unit of a gate on.
    #[inline(always)]
    pub(crate) fn lhs(&self, gate: usize, row: usize) -> Lhs<E> {
        Lhs::blocks(self.at(gate, 0, row), self.stride * WIDTH)
    }
}
