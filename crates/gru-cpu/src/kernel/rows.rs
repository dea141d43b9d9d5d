//! A matrix whose rows several threads write, each its own.

use std::marker::PhantomData;

/// Rows of `width` elements, shared between threads that never touch the same row.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    data: *mut f32,
    rows: usize,
    width: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

// SAFETY: a `Rows` gives out nothing by itself; `row` and `row_mut` ask their callers to keep
// writers of one row apart from everybody else.
unsafe impl Send for Rows<'_> {}
// SAFETY: as above.
unsafe impl Sync for Rows<'_> {}

impl<'a> Rows<'a> {
    pub(super) fn new(data: &'a mut [f32], width: usize) -> Self {
        Self {
            rows: data.len() / width,
            data: data.as_mut_ptr(),
            width,
            lifetime: PhantomData,
        }
    }

    /// # Safety
    /// While the slice lives, nobody writes this row.
    #[inline(always)]
    pub(super) unsafe fn row(&self, row: usize) -> &'a [f32] {
        assert!(row < self.rows);
        // SAFETY: the row lies within the slice given to `new`, which is borrowed for 'a; that
        // nobody writes it meanwhile is the caller's word.
        unsafe { std::slice::from_raw_parts(self.data.add(row * self.width), self.width) }
    }

    /// # Safety
    /// While the slice lives, nobody else reads or writes this row.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // That is what this type is for.
    pub(super) unsafe fn row_mut(&self, row: usize) -> &'a mut [f32] {
        assert!(row < self.rows);
        // SAFETY: the row lies within the slice given to `new`, which is borrowed mutably for 'a;
        // that nobody else holds this row is the caller's word.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(row * self.width), self.width) }
    }
}
