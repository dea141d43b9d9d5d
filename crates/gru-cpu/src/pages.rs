//! Pages of memory.

#[cfg(all(target_os = "linux", not(miri)))]
use crate::tuning::LARGE_PAGES_FROM;

/// Asks for pages of 2 MiB for a buffer that nobody has written to, if it is large.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn ask_for_large_pages<E>(buffer: &[E]) {
    /// Of all that Linux runs on, the largest usual page.
    const PAGE: usize = 1 << 16;

    let bytes = size_of_val(buffer);
    if bytes < LARGE_PAGES_FROM {
        return;
    }
    let start = buffer.as_ptr().cast::<u8>();
    let skip = start.align_offset(PAGE);
    let len = (bytes - skip) / PAGE * PAGE;
    let at = start.wrapping_add(skip).cast_mut().cast();
    // SAFETY: whole pages within the buffer, whose contents this advice leaves as they are. A kernel
    // that does not know it refuses, and nothing is lost.
    let _ = unsafe { rustix::mm::madvise(at, len, rustix::mm::Advice::LinuxHugepage) };
}

/// There is nobody to ask.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn ask_for_large_pages<E>(_: &[E]) {}
