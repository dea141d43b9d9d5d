//! How work is split between threads, and how they synchronize. Rows of the batch are split first: their threads
//! have barriers only after the rounds of the backward pass. If there are few rows, or the weights of one thread
//! would exceed its cache, the hidden units are split, with a barrier after each step.
//!
//! Without the feature `threads`, and on WebAssembly, the caller's thread does all work: `single` replaces the
//! pool and the team.

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
pub(crate) use self::pool::{available, with_helpers};
#[cfg(not(all(feature = "threads", not(target_family = "wasm"))))]
pub(crate) use self::single::{available, with_helpers};
pub(crate) use self::{
    plan::{Plan, Tile, Tiles, split, tiles},
    team::{Member, run_solo, run_team},
};

/// Work of a team in rounds.
pub(crate) trait Rounds: Sync {
    /// Does the share of `member` in a round. All members wait at the same number of barriers.
    fn round(&self, round: usize, member: &mut Member<'_>);
}
