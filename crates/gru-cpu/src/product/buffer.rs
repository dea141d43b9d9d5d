//! Scratch memory that starts on a cache line, so that no vector of it straddles two.

use crate::{pages::ask_for_large_pages, simd::Lanes};
use std::marker::PhantomData;

/// Bytes of a cache line, and of the widest vectors.
const LINE: usize = 64;

/// Zeroed elements that start on a cache line.
///
/// Zeros of the system's: nobody writes them, and each page is made by the thread that writes to it
/// first. Large ones ask for large pages: a panel's rows and those of its left side lie on more
/// small ones than a core remembers.
pub(crate) struct Buffer<E> {
    words: Vec<u64>,
    /// Words before the first line.
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
        ask_for_large_pages(&words);
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
        // SAFETY: behind what is skipped there is room for `len` elements, on a line that is aligned
        // for either float type; they are zeros at first by the promise of `Lanes`.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), self.len) }
    }

    pub(crate) fn as_ref(&self) -> &[E] {
        let words = &self.words[self.skip..];
        // SAFETY: behind what is skipped there are `len` elements, which are numbers from the start.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_on_lines_and_hold_zeros() {
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
