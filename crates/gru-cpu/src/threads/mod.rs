//! Who does what, and how they meet: rows are split between threads, which then meet only after the
//! rounds of the backward pass; where rows are few or the weights of one thread would leave its
//! cache, hidden units are split between threads that meet after each step.
//!
//! Without the feature `threads`, and on WebAssembly, all of it is the caller's: `single` stands for
//! the pool and the team.

mod plan;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
mod pool;
#[cfg(not(all(feature = "threads", not(target_family = "wasm"))))]
mod single;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
mod sync;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
mod team;

#[cfg(not(all(feature = "threads", not(target_family = "wasm"))))]
use self::single as team;

#[cfg(all(feature = "threads", not(target_family = "wasm")))]
pub(crate) use self::pool::{allowed, beside};
#[cfg(not(all(feature = "threads", not(target_family = "wasm"))))]
pub(crate) use self::single::{allowed, beside};
pub(crate) use self::{
    plan::{Plan, Tiles, split, tiles},
    team::{Member, alone, together},
};

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Work that a team does in rounds.
pub(crate) trait Rounds: Sync {
    /// Does the share of `member` in a round. All members meet the same number of times.
    fn round(&self, round: usize, member: &mut Member<'_>);
}

static LARGEST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Bounds the threads of every call from now on, the caller's own included; `None` lifts the
/// bound. Within it a call uses the rayon pool it is called in. No bit of a result depends on it.
///
/// Without the feature `threads`, and on WebAssembly, every call has one thread anyway.
pub fn set_threads(largest: Option<usize>) {
    LARGEST.store(largest.unwrap_or(usize::MAX).max(1), Relaxed);
}
