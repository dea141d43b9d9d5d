//! A matrix that several threads write, each its own cells.

use std::{marker::PhantomData, ops::Range};

/// Rows of `width` elements, shared between threads that never touch the same cell.
pub(crate) struct Rows<'a, E> {
    data: *mut E,
    rows: usize,
    width: usize,
    lifetime: PhantomData<&'a mut [E]>,
}

impl<E> Clone for Rows<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E> Copy for Rows<'_, E> {}

// SAFETY: a `Rows` gives out nothing by itself; its methods ask their callers to keep writers of
// one cell apart from everybody else.
unsafe impl<E: Send> Send for Rows<'_, E> {}
// SAFETY: two threads that use one `Rows` reach other cells, by their word, or only read: the first
// sends elements from thread to thread, the second shares them.
unsafe impl<E: Send + Sync> Sync for Rows<'_, E> {}

impl<'a, E> Rows<'a, E> {
    pub(crate) fn new(data: &'a mut [E], width: usize) -> Self {
        Self {
            rows: data.len().checked_div(width).unwrap_or(0),
            data: data.as_mut_ptr(),
            width,
            lifetime: PhantomData,
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The address of a row: `width` elements within the slice given to `new`.
    #[inline(always)]
    pub(crate) fn at(&self, row: usize) -> *mut E {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: the row lies within the slice given to `new`.
        unsafe { self.data.add(row * self.width) }
    }

    /// # Safety
    /// While the slice lives, nobody writes these cells.
    #[inline(always)]
    pub(crate) unsafe fn cells(&self, row: usize, cols: Range<usize>) -> &'a [E] {
        assert!(cols.start <= cols.end && cols.end <= self.width);
        // SAFETY: the cells lie within the row; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.at(row).add(cols.start), cols.len()) }
    }

    /// # Safety
    /// While the slice lives, nobody else reads or writes these cells.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // That is what this type is for.
    pub(crate) unsafe fn cells_mut(&self, row: usize, cols: Range<usize>) -> &'a mut [E] {
        assert!(cols.start <= cols.end && cols.end <= self.width);
        // SAFETY: the cells lie within the row; the caller keeps everybody else away.
        unsafe { std::slice::from_raw_parts_mut(self.at(row).add(cols.start), cols.len()) }
    }
}

/// Rows so many elements apart, of any matrix: addresses that are worked out once for many rows.
#[derive(Clone, Copy)]
pub(crate) struct Strided<E> {
    first: *mut E,
    stride: usize,
}

impl<E> Strided<E> {
    /// Rows of `cells`: `count` of them from `first` on, each `per_row` rows after the one before.
    #[inline(always)]
    pub(crate) fn of(cells: &Rows<'_, E>, first: usize, per_row: usize, count: usize) -> Self {
        // All of them are there.
        cells.at(first + (count - 1) * per_row);
        Self {
            first: cells.at(first),
            stride: per_row * cells.width,
        }
    }

    /// Rows of a slice that is only read, `width` elements each; or always the first, if there is
    /// one only.
    #[inline(always)]
    pub(crate) fn reading(slice: &[E], width: usize, count: usize) -> Self {
        let is_one = slice.len() == width;
        assert!(is_one || count * width <= slice.len());
        Self {
            first: slice.as_ptr().cast_mut(),
            stride: if is_one { 0 } else { width },
        }
    }

    /// The address of a row.
    #[inline(always)]
    pub(crate) fn at(&self, row: usize) -> *mut E {
        self.first.wrapping_add(row * self.stride)
    }

    /// # Safety
    /// The row is one of those, as wide, and nobody writes these cells meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn cells<'a>(&self, row: usize, cols: &Range<usize>) -> &'a [E] {
        // SAFETY: the cells lie within the row; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.at(row).add(cols.start), cols.len()) }
    }

    /// # Safety
    /// The row is one of those, as wide, was not made by [`reading`](Self::reading), and nobody else
    /// reads or writes these cells meanwhile.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // As of the rows that this stands for.
    pub(crate) unsafe fn cells_mut<'a>(&self, row: usize, cols: &Range<usize>) -> &'a mut [E] {
        // SAFETY: the cells lie within the row; the caller keeps everybody else away.
        unsafe { std::slice::from_raw_parts_mut(self.at(row).add(cols.start), cols.len()) }
    }
}
