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
