//! Prefetching. On targets without such an instruction nothing is done.

use super::Panel;

/// Cache lines to prefetch, at most `N`.
pub(crate) struct Lines<E, const N: usize> {
    lines: [*const E; N],
    count: usize,
}

impl<E, const N: usize> Lines<E, N> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        let lines = [core::ptr::null(); N];
        Self { lines, count: 0 }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, line: *const E) {
        self.lines[self.count] = line;
        self.count += 1;
    }
}

/// What a tile prefetches while it multiplies, spread over its k: all requests at the same time would fill the
/// queue through which its own weights arrive.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch<'a, E> {
    /// The next panel, for the second-level cache.
    far: Option<Far<E>>,
    /// Lines that are written during the product or directly after it.
    pub(super) near: &'a [*const E],
}

/// A tile's part of a packed panel.
#[derive(Clone, Copy)]
struct Far<E> {
    panel: *const E,
    elements: usize,
    tile: usize,
    tiles: usize,
}

impl<'a, E> Prefetch<'a, E> {
    /// Tile `tile` of `tiles` prefetches its part of a packed panel with so many elements.
    #[inline(always)]
    pub(crate) fn next(panel: Panel<E>, elements: usize, (tile, tiles): (usize, usize)) -> Self {
        let far = Far {
            panel: panel.at,
            elements,
            tile,
            tiles,
        };
        Self {
            far: Some(far),
            ..Self::NOTHING
        }
    }

    /// The same and these lines, for the first-level cache.
    #[inline(always)]
    pub(crate) fn with_near<const N: usize>(self, near: &'a Lines<E, N>) -> Self {
        Self {
            near: &near.lines[..near.count],
            ..self
        }
    }

    pub(crate) const NOTHING: Self = Self {
        far: None,
        near: &[],
    };

    /// The first line of the next panel that this tile prefetches, and the number of lines.
    #[inline(always)]
    pub(super) fn far(&self) -> (*const E, usize) {
        let Some(Far {
            panel,
            elements,
            tile,
            tiles,
        }) = self.far
        else {
            return (core::ptr::null(), 0);
        };
        let lines = (elements * size_of::<E>()).div_ceil(64).div_ceil(tiles);
        let at = panel.cast::<u8>().wrapping_add(tile * lines * 64);
        (at.cast(), lines)
    }
}

/// Prefetches the line at `at`, which will be written.
#[inline(always)]
pub(super) fn to_write<E>(at: *const E) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(at.cast()) };
    }
    let _ = at;
}

/// Prefetches the line at `at`, which will be read soon.
#[inline(always)]
pub(crate) fn to_read<E>(at: *const E) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    let _ = at;
}

/// Prefetches the line at `at` into the second-level cache.
#[inline(always)]
pub(super) fn for_later<E>(at: *const E) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
    }
    let _ = at;
}
