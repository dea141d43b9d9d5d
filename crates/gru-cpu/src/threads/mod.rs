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

pub(crate) use self::pool::for_each;
use self::pool::{offers, with_helpers};
pub(crate) use self::{
    plan::{Plan, Tile, acting, split, tiles},
    pool::available,
    team::{Member, run_solo, run_team},
};

/// Work of a team in rounds.
pub(crate) trait Rounds: Sync {
    /// Does the share of `member` in a round. All members wait at the same number of barriers.
    fn round(&self, round: usize, member: &mut Member<'_>);
}
