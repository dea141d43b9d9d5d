//! Scratch memory that starts on a cache line, so that no vector of it straddles two.

use crate::simd::Lanes;

/// One cache line of the widest vectors.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; 64],
}

/// Zeroed elements on cache lines.
pub(crate) struct Buffer<E> {
    lines: Vec<Line>,
    len: usize,
    element: std::marker::PhantomData<E>,
}

impl<E: Lanes> Buffer<E> {
    pub(crate) fn new(len: usize) -> Self {
        let bytes = len * size_of::<E>();
        Self {
            lines: vec![Line { _bytes: [0; 64] }; bytes.div_ceil(64)],
            len,
            element: std::marker::PhantomData,
        }
    }

    pub(crate) fn as_mut(&mut self) -> &mut [E] {
        // SAFETY: the lines hold `len` elements, zeros at first by the promise of `Lanes`, and a line
        // is aligned for either float type.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }

    pub(crate) fn as_ref(&self) -> &[E] {
        // SAFETY: the lines hold `len` elements, which are numbers from the start: zeros.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}
