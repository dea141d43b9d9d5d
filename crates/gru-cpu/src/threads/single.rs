//! The pool of a build with one thread.

use core::ops::Range;

/// The number of threads that a call may use.
pub(crate) fn available() -> usize {
    1
}

/// Whether other threads may help.
pub(crate) fn offers() -> bool {
    false
}

/// Runs `own`. There are no helpers.
pub(crate) fn with_helpers(helpers: Range<usize>, _: impl Fn(usize) + Sync, own: impl FnOnce()) {
    assert!(helpers.is_empty(), "no plan has helpers");
    own();
}

/// Does `work` for all items.
pub(crate) fn for_each<T>(_: usize, items: impl Iterator<Item = T>, work: impl Fn(T)) {
    items.for_each(work);
}
