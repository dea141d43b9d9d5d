//! Other threads: the rayon pool in which a call is made.

use std::ops::Range;

/// The number of threads that a call may use.
pub(crate) fn available() -> usize {
    rayon::current_num_threads()
}

/// Offers `help` to other threads, once for each number in `helpers`, and runs `own` on this thread. It returns
/// when all of them have returned.
pub(crate) fn with_helpers(helpers: Range<usize>, help: impl Fn(usize) + Sync, own: impl FnOnce()) {
    let help = &help;
    rayon::in_place_scope(|scope| {
        helpers.for_each(|k| scope.spawn(move |_| help(k)));
        own();
    });
}
