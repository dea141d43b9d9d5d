//! Where results go.

use crate::Element;
#[cfg(all(target_os = "linux", not(miri)))]
use crate::tuning::LARGE_PAGES_FROM;

/// A buffer of zeros, for states or gates.
///
/// A large one comes fresh from the system each time, and its first writes wait for every page. On
/// Linux one of 8 MiB or more asks for pages of 2 MiB, so that there are fewer.
pub fn buffer<E: Element>(len: usize) -> Vec<E> {
    let buffer = vec![E::zero(); len];
    #[cfg(all(target_os = "linux", not(miri)))]
    ask_for_large_pages(&buffer);
    buffer
}

#[cfg(all(target_os = "linux", not(miri)))]
fn ask_for_large_pages<E>(buffer: &[E]) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_any_size_are_zeros_that_can_be_written() {
        for len in [0, 1, 1 << 21, (1 << 22) + 12_345] {
            let mut zeros = buffer::<f32>(len);
            assert_eq!(zeros.len(), len);
            assert!(zeros.iter().all(|&v| v == 0.0));
            zeros.fill(1.0);
            assert!(zeros.iter().all(|&v| v == 1.0));
        }
    }
}
