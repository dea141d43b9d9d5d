//! What a process can set: how many threads a call may use.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LARGEST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Bounds the threads of every call from now on, the caller's own included; `None` lifts the
/// bound. Within it a call uses the rayon pool it is called in. No bit of a result depends on it.
pub fn set_threads(largest: Option<usize>) {
    LARGEST.store(largest.unwrap_or(usize::MAX).max(1), Relaxed);
}

/// The threads a call may use here and now.
pub(crate) fn threads() -> usize {
    match LARGEST.load(Relaxed) {
        1 => 1,
        largest => rayon::current_num_threads().clamp(1, largest),
    }
}
