//! A matrix that several threads write, each in its own cells.

use super::WIDTH;
use crate::simd::Lanes;
use core::{marker::PhantomData, mem::MaybeUninit, ops::Range};
use pulp::Simd;

/// Rows of `width` elements, shared between threads that never use the same cell at the same time.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, E> {
    data: *mut E,
    rows: usize,
    width: usize,
    /// Elements from one row to the next, at least `width`.
    stride: usize,
    lifetime: PhantomData<&'a mut [E]>,
}

// SAFETY: safe methods return addresses only. The callers of the unsafe methods promise that a cell which is
// written is used by one thread only.
unsafe impl<E: Send> Send for Rows<'_, E> {}
// SAFETY: by the same promise two threads use different cells, which sends elements between threads, or only
// read, which shares them.
unsafe impl<E: Send + Sync> Sync for Rows<'_, E> {}

impl<'a, E> Rows<'a, E> {
    pub(crate) fn new(data: &'a mut [E], width: usize) -> Self {
        let len = data.len();
        Self::at_address(data.as_mut_ptr(), len, width)
    }

    /// Rows of which a cell is read only after it was written.
    pub(crate) fn unwritten(data: &'a mut [MaybeUninit<E>], width: usize) -> Self {
        let len = data.len();
        Self::at_address(data.as_mut_ptr().cast(), len, width)
    }

    fn at_address(data: *mut E, len: usize, width: usize) -> Self {
        let rows = match len {
            0 => 0,
            // Most steps have one row, and a division is a part of the shortest steps.
            len if len == width => 1,
            len => len.checked_div(width).unwrap_or(0),
        };
        Self {
            rows,
            data,
            width,
            stride: width,
            lifetime: PhantomData,
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The same memory in rows of another width.
    pub(crate) fn with_width(self, width: usize) -> Self {
        assert_eq!(self.width, self.stride);
        Self {
            rows: self.rows * self.width / width,
            width,
            stride: width,
            ..self
        }
    }

    /// Some columns of all rows.
    pub(crate) fn columns(self, columns: Range<usize>) -> Self {
        assert!(columns.start <= columns.end && columns.end <= self.width);
        Self {
            data: self.data.wrapping_add(columns.start),
            width: columns.len(),
            ..self
        }
    }

    /// The address of a row, which has `width` elements.
    #[inline(always)]
    pub(crate) fn at(&self, row: usize) -> *mut E {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: the row lies within the slice given to `new`.
        unsafe { self.data.add(row * self.stride) }
    }

    /// # Safety
    /// The cells were written, and no thread writes them while the slice is in use.
    #[inline(always)]
    pub(crate) unsafe fn cells(&self, row: usize, cols: Range<usize>) -> &'a [E] {
        assert!(cols.start <= cols.end && cols.end <= self.width);
        // SAFETY: the cells are within the row, and no thread writes them.
        unsafe { core::slice::from_raw_parts(self.at(row).add(cols.start), cols.len()) }
    }

    /// Writes cells of a row, at most a vector, without reading them.
    ///
    /// # Safety
    /// No other code reads or writes these cells at the same time.
    #[inline(always)]
    pub(crate) unsafe fn write<S: Simd>(&self, simd: S, row: usize, cols: Range<usize>, v: E::V<S>)
    where
        E: Lanes,
    {
        assert!(cols.start <= cols.end && cols.end <= self.width);
        let lanes = E::lanes::<S>();
        // SAFETY: the cells are within the row, and only the caller uses them. A vector has at most `WIDTH` lanes.
        unsafe {
            let to = self.at(row).add(cols.start);
            if cols.len() >= lanes {
                return E::store(simd, to, v);
            }
            let mut part = [E::zero(); WIDTH];
            E::store(simd, part.as_mut_ptr(), v);
            to.copy_from_nonoverlapping(part.as_ptr(), cols.len());
        }
    }

    /// # Safety
    /// The cells were written, and no other code reads or writes them while the slice is in use.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // The purpose of this type.
    pub(crate) unsafe fn cells_mut(&self, row: usize, cols: Range<usize>) -> &'a mut [E] {
        assert!(cols.start <= cols.end && cols.end <= self.width);
        // SAFETY: the cells are within the row, and only the caller uses them.
        unsafe { core::slice::from_raw_parts_mut(self.at(row).add(cols.start), cols.len()) }
    }
}

/// Rows of any matrix: at a constant distance, whose address computation is shared by all of them, or listed.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a, E> {
    first: *mut E,
    stride: usize,
    /// The index of each row, in strides; the row itself if absent.
    list: Option<&'a [usize]>,
}

impl<'a, E> Strided<'a, E> {
    /// `count` rows of `cells`, from `first` on and `per_row` rows apart.
    #[inline(always)]
    pub(crate) fn of(cells: &Rows<'a, E>, first: usize, per_row: usize, count: usize) -> Self {
        // The last row exists.
        cells.at(first + (count - 1) * per_row);
        Self {
            first: cells.at(first),
            stride: per_row * cells.stride,
            list: None,
        }
    }

    /// The rows `offset + list[·]` of `cells`, which has `rows` rows. The sum may wrap around.
    #[inline(always)]
    pub(crate) fn listed(
        cells: &Rows<'a, E>,
        rows: usize,
        offset: usize,
        list: &'a [usize],
    ) -> Self {
        assert!(rows == cells.rows, "{rows} rows of {}", cells.rows);
        Self {
            first: cells.data.wrapping_add(offset.wrapping_mul(cells.stride)),
            stride: cells.stride,
            list: Some(list),
        }
    }

    /// `count` rows of `width` elements in a slice that is only read. A slice of one row is used for all rows.
    #[inline(always)]
    pub(crate) fn reading(slice: &'a [E], width: usize, count: usize) -> Self {
        let is_one = slice.len() == width;
        assert!(is_one || count * width <= slice.len());
        Self {
            first: slice.as_ptr().cast_mut(),
            stride: if is_one { 0 } else { width },
            list: None,
        }
    }

    /// The address of a row.
    #[inline(always)]
    pub(crate) fn at(&self, row: usize) -> *mut E {
        let index = match self.list {
            None => row,
            Some(list) => list[row],
        };
        self.first.wrapping_add(index.wrapping_mul(self.stride))
    }

    /// # Safety
    /// The row and the cells exist, and no thread writes the cells while the slice is in use.
    #[inline(always)]
    pub(crate) unsafe fn cells<'c>(&self, row: usize, cols: &Range<usize>) -> &'c [E] {
        // SAFETY: the cells are within the row, and no thread writes them.
        unsafe { core::slice::from_raw_parts(self.at(row).add(cols.start), cols.len()) }
    }

    /// # Safety
    /// The row and the cells exist, `self` does not come from [`reading`](Self::reading), and no other code reads
    /// or writes the cells while the slice is in use.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // As for `Rows`.
    pub(crate) unsafe fn cells_mut<'c>(&self, row: usize, cols: &Range<usize>) -> &'c mut [E] {
        // SAFETY: the cells are within the row, and only the caller uses them.
        unsafe { core::slice::from_raw_parts_mut(self.at(row).add(cols.start), cols.len()) }
    }
}
