//! Who does what, and how they meet: rows are split between threads, which then meet only after the
//! rounds of the backward pass; where rows are few or the weights of one thread would leave its
//! cache, hidden units are split between threads that meet after each step.

mod plan;
mod sync;
mod team;

pub(crate) use self::{
    plan::{Plan, Tiles, split, tiles},
    team::{Member, Rounds, alone, together},
};

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LARGEST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Bounds the threads of every call from now on, the caller's own included; `None` lifts the
/// bound. Within it a call uses the rayon pool it is called in. No bit of a result depends on it.
pub fn set_threads(largest: Option<usize>) {
    LARGEST.store(largest.unwrap_or(usize::MAX).max(1), Relaxed);
}

/// The threads a call may use here and now.
pub(crate) fn allowed() -> usize {
    match LARGEST.load(Relaxed) {
        1 => 1,
        largest => rayon::current_num_threads().clamp(1, largest),
    }
}
