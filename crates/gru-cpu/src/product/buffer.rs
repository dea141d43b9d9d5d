//! Scratch memory that starts on a cache line, so that no vector crosses a line.

use crate::{memory::request_large_pages, simd::Lanes};
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Bytes of a cache line, and of the widest vectors.
const LINE: usize = 64;

/// Zeroed elements that start on a cache line.
///
/// The zeros come from the system: no code writes them, and the first thread that writes to a page also causes
/// its page fault. Large buffers request large pages, because the rows of a panel and of its left side are on
/// more small pages than a core's page table cache holds.
pub(crate) struct Buffer<E> {
    words: Vec<u64>,
    /// Words before the first cache line.
    skip: usize,
    len: usize,
    element: PhantomData<E>,
}

impl<E: Lanes> Buffer<E> {
    pub(crate) fn new(len: usize) -> Self {
        const WORD: usize = size_of::<u64>();
        let words = match len {
            0 => Vec::new(),
            _ => vec![0; (len * size_of::<E>()).div_ceil(WORD) + LINE / WORD],
        };
        request_large_pages(&words);
        let past = words.as_ptr().addr() % LINE;
        Self {
            skip: if len == 0 || past == 0 {
                0
            } else {
                (LINE - past) / WORD
            },
            words,
            len,
            element: PhantomData,
        }
    }

    pub(crate) fn as_mut(&mut self) -> &mut [E] {
        let words = &mut self.words[self.skip..];
        // SAFETY: after the skipped words there is room for `len` elements, aligned for both float types. Zero
        // bits are the number 0, as `Lanes` promises.
        unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), self.len) }
    }

    pub(crate) fn as_ref(&self) -> &[E] {
        let words = &self.words[self.skip..];
        // SAFETY: after the skipped words there are `len` elements, which are initialized.
        unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), self.len) }
    }
}

impl Buffer<f32> {
    /// The elements as words of 32 bits, which may hold anything.
    pub(crate) fn words(&self) -> &[u32] {
        let floats = self.as_ref();
        // SAFETY: both types have the same size and alignment, and every bit pattern is valid.
        unsafe { core::slice::from_raw_parts(floats.as_ptr().cast(), floats.len()) }
    }

    /// [`words`](Self::words), to be written.
    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        let floats = self.as_mut();
        // SAFETY: both types have the same size and alignment, and every bit pattern is valid.
        unsafe { core::slice::from_raw_parts_mut(floats.as_mut_ptr().cast(), floats.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeros() {
        for len in (0..200).chain([1 << 16]) {
            let mut buffer = Buffer::<f32>::new(len);
            assert!(buffer.as_ref().iter().all(|&v| v == 0.0));
            assert_eq!(buffer.as_mut().len(), len);
            assert!(len == 0 || buffer.as_ref().as_ptr().addr().is_multiple_of(LINE));
            buffer.as_mut().fill(1.0);
            assert!(buffer.as_ref().iter().all(|&v| v == 1.0));
        }
    }
}
