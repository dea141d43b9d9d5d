//! Buffers for results, and large pages.

use crate::element::Element;
#[cfg(all(target_os = "linux", not(miri)))]
use crate::tuning::LARGE_PAGES_FROM;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

/// A buffer of zeros, for states or gates.
///
/// A large buffer is new memory from the system, and its first writes wait for page faults. On Linux a
/// buffer of 2 MiB or more requests pages of 2 MiB, which reduces the number of faults.
pub fn buffer<E: Element>(len: usize) -> Vec<E> {
    let buffer = vec![E::zero(); len];
    request_large_pages(&buffer);
    buffer
}

/// A slice to be overwritten.
///
/// # Safety
/// Only initialized elements are written to the result.
pub(crate) unsafe fn overwritten<E>(slice: &mut [E]) -> &mut [MaybeUninit<E>] {
    // SAFETY: both types have the same layout, and by the caller's promise the slice stays valid.
    unsafe { &mut *(core::ptr::from_mut(slice) as *mut [MaybeUninit<E>]) }
}

/// Requests pages of 2 MiB for a large buffer that has not been written yet.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn request_large_pages<E>(buffer: &[E]) {
    /// The largest common page size on Linux.
    const PAGE: usize = 1 << 16;

    let bytes = size_of_val(buffer);
    if bytes < LARGE_PAGES_FROM {
        return;
    }
    let start = buffer.as_ptr().cast::<u8>();
    let skip = start.align_offset(PAGE);
    let len = (bytes - skip) / PAGE * PAGE;
    let at = start.wrapping_add(skip).cast_mut().cast();
    // SAFETY: the pages lie within the buffer, and the advice does not change their contents. An old
    // kernel returns an error, which is ignored.
    let _ = unsafe { rustix::mm::madvise(at, len, rustix::mm::Advice::LinuxHugepage) };
}

/// Does nothing: only Linux has this request.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn request_large_pages<E>(_: &[E]) {}
