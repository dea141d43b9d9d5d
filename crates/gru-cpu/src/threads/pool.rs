//! Other threads: those of the rayon pool that a call is made in.

use super::LARGEST;
use std::{ops::Range, sync::atomic::Ordering::Relaxed};

/// The threads a call may use here and now.
pub(crate) fn allowed() -> usize {
    match LARGEST.load(Relaxed) {
        1 => 1,
        largest => rayon::current_num_threads().clamp(1, largest),
    }
}

/// Offers `help` to other threads, once for each number in `helpers`, and does `own` on this one;
/// done when all are.
pub(crate) fn beside(helpers: Range<usize>, help: impl Fn(usize) + Sync, own: impl FnOnce()) {
    let help = &help;
    rayon::in_place_scope(|scope| {
        helpers.for_each(|k| scope.spawn(move |_| help(k)));
        own();
    });
}
