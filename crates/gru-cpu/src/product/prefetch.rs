//! Asking for memory before it is needed. Where there is no such instruction, nothing.

/// Asks for the line at `at`, to be written.
#[inline(always)]
pub(crate) fn to_write<E>(at: *const E) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(at.cast()) };
    }
    let _ = at;
}

/// Asks for the line at `at`, to be read soon.
#[inline(always)]
pub(crate) fn to_read<E>(at: *const E) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    let _ = at;
}

/// Asks for the line at `at`, to be read later, into the second-level cache.
#[inline(always)]
pub(crate) fn for_later<E>(at: *const E) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
    }
    let _ = at;
}
