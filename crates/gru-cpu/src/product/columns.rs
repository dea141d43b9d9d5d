//! A matrix that is written by rows, and read by columns.

use super::{Lhs, Rows};
use crate::simd::Lanes;

/// Elements that are computed before they are written.
const AT_ONCE: usize = 64;

/// The left side of a product over rows. Its rows are split into columns as wide as a tile has rows, and each
/// column is stored from its first row to its last. The last column is padded with zeros.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a, E> {
    cells: Rows<'a, E>,
    rows: usize,
}

impl<'a, E: Lanes> Columns<'a, E> {
    /// The number of elements for so many rows of `len`.
    pub(crate) fn size(len: usize, rows: usize, width: usize) -> usize {
        len.div_ceil(width) * rows * width
    }

    /// `data` is zero. Columns are `width` wide.
    pub(crate) fn new(data: &'a mut [E], rows: usize, width: usize) -> Self {
        let cells = Rows::new(data, width);
        Self { cells, rows }
    }

    /// Writes some elements of rows that follow each other, from element `at` on. All have the same length.
    ///
    /// # Safety
    /// No other thread reads or writes these elements at the same time.
    #[inline(always)]
    pub(crate) unsafe fn write<const R: usize>(&self, row: usize, at: usize, from: [&[E]; R]) {
        let (width, end) = (self.cells.width(), at + from[0].len());
        let (mut at, mut done) = (at, 0);
        while at < end {
            let (column, within) = (at / width, at % width);
            let count = (width - within).min(end - at);
            for (r, from) in from.iter().enumerate() {
                let these = &from[done..done + count];
                let cells = within..within + count;
                // SAFETY: no other thread uses these elements.
                let to = unsafe { self.cells.cells_mut(column * self.rows + row + r, cells) };
                // Most columns are as wide as a full tile, and a constant size is copied as a vector.
                match count {
                    8 => to[..8].copy_from_slice(&these[..8]),
                    4 => to[..4].copy_from_slice(&these[..4]),
                    _ => to.iter_mut().zip(these).for_each(|(to, &v)| *to = v),
                }
            }
            at += count;
            done += count;
        }
    }

    /// Writes zeros to a row of `len` elements.
    ///
    /// # Safety
    /// No other thread reads or writes the row at the same time.
    pub(crate) unsafe fn clear(&self, row: usize, len: usize) {
        let zeros = [E::zero(); AT_ONCE];
        for at in (0..len).step_by(AT_ONCE) {
            // SAFETY: no other thread uses this row.
            unsafe { self.write(row, at, [&zeros[..AT_ONCE.min(len - at)]]) };
        }
    }

    /// Writes `a ⊙ b` to a row.
    ///
    /// # Safety
    /// No other thread reads or writes the row at the same time.
    pub(crate) unsafe fn write_product(&self, row: usize, a: &[E], b: &[E]) {
        let mut products = [E::zero(); AT_ONCE];
        for (k, (a, b)) in a.chunks(AT_ONCE).zip(b.chunks(AT_ONCE)).enumerate() {
            for (to, (&a, &b)) in products.iter_mut().zip(a.iter().zip(b)) {
                *to = a * b;
            }
            // SAFETY: no other thread uses this row.
            unsafe { self.write(row, k * AT_ONCE, [&products[..a.len()]]) };
        }
    }

    /// The elements of column `column`, from the first row on.
    #[inline(always)]
    pub(crate) fn column(&self, column: usize) -> *const E {
        self.cells.at(column * self.rows).cast_const()
    }

    /// A column as the left side of a tile.
    #[inline(always)]
    pub(crate) fn lhs(&self, column: usize) -> Lhs<E> {
        Lhs::columns(self.column(column), self.cells.width())
    }
}
