//! How work is split between threads, and how they synchronize. Rows of the batch are split first: their threads
//! have no barriers, except for two or three in each round of the backward pass. If there are few rows, or the weights
//! of one thread would exceed its cache, the hidden units are split, with a barrier after each step.
//!
//! Without the feature `threads`, and on WebAssembly, the caller's thread does all work: `single` replaces the
//! pool. That thread does not read the clock, which panics on `wasm32-unknown-unknown`.

mod plan;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
mod pool;
#[cfg(not(all(feature = "threads", not(target_family = "wasm"))))]
#[path = "single.rs"]
mod pool;
mod sync;
mod team;

use self::pool::{offers, with_helpers};
pub(crate) use self::{
    plan::{Plan, Tile, acting, split, tiles},
    pool::available,
    team::{Member, run_solo, run_team},
};
use std::sync::Mutex;

/// Does `work` for all items. Each of up to `threads` threads takes the next item until none are left.
pub(crate) fn for_each<T: Send>(
    threads: usize,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) + Sync,
) {
    let items = Mutex::new(items);
    let take = || items.lock().expect("no thread panics here").next();
    let run = || {
        while let Some(item) = take() {
            work(item);
        }
    };
    with_helpers(1..threads, |_| run(), run);
}

/// Work of a team in rounds.
pub(crate) trait Rounds: Sync {
    /// Does the share of `member` in a round. All members wait at the same number of barriers.
    fn round(&self, round: usize, member: &mut Member<'_>);
}
