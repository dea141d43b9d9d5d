//! Every threshold, with its reason. All are guesses of what some machine does best; no result
//! depends on them by more than the order of a sum. That no bit depends on the threads of a call is
//! the work of [`CUT`].

#![cfg_attr(
    not(all(feature = "threads", not(target_family = "wasm"))),
    allow(dead_code) // What only teams ask for.
)]

use pulp::Simd;
use std::time::Duration;

// Rows and hidden units between threads.

/// Multiply-adds below which a call stays on its thread: waking another costs some microseconds,
/// in which one core does about half a million of them.
pub(crate) const PARALLEL_FROM: usize = 1 << 19;

/// Bytes of recurrent weights that one core keeps in its second-level cache, between steps, beside
/// what else a step touches: 2 MiB on recent servers, less elsewhere. Above, threads share the
/// hidden units of the same rows, so that each reads a part of the weights only.
pub(crate) const CACHED_WEIGHTS: usize = 1 << 20;

/// Rows at whose multiples a batch, or the rows of a round, are cut between threads. Tiles of 8 and
/// of 4 rows add up in the same order, smaller ones do not; cut here, a row has the same sums
/// whoever computes it.
pub(crate) const CUT: usize = 4;

/// Rows below which a group is not split any more: its tiles would wait for weights, not for sums.
pub(crate) const ROWS_PER_GROUP: usize = CUT;

/// Multiply-adds per step and thread for which meeting after each step pays: a meeting costs about
/// a third of a microsecond. One row of 128 units: 0.27 ms on one thread, 0.23 on two.
pub(crate) const MEET_FROM: usize = 1 << 14;

/// The same in the backward pass, which also meets to share what follows a round. One row of 128
/// units: 0.37 ms on one thread, 0.39 on two.
pub(crate) const MEET_BACK_FROM: usize = 1 << 15;

// Steps of a round.

/// Rows of the input product of one round: enough to reuse each panel of `w_ih`, few enough for
/// the product to stay in the cache until the walk needs it.
pub(crate) const ROWS_PER_ROUND: usize = 64;

/// The same where all weights together leave the cache, so that each round brings `w_ih` anew.
pub(crate) const ROWS_PER_LARGE_ROUND: usize = 256;

/// Rows of one round of the backward pass, all of whose gradients are kept until its end: enough to
/// read and write the gradients of the weights not too often, few enough to stay in the cache.
pub(crate) const ROWS_PER_ROUND_BACK: usize = 128;

/// The same where the weights leave the cache.
pub(crate) const ROWS_PER_LARGE_ROUND_BACK: usize = 256;

// Meetings.

/// Rounds of spinning, some tens of microseconds, before the processor is offered to others: a
/// partner that shares it with this thread could not come otherwise. To a model checker the second
/// is an order more to try, and nothing new.
pub(crate) const SPINS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 1 << 11 };

/// How long the first round waits for helpers at most, and what part of a call's own time: a thread
/// of a pool that sleeps takes some tens of microseconds to come, and a round without it costs
/// as much as two.
pub(crate) const PATIENCE: Duration = Duration::from_micros(40);
pub(crate) const PATIENCE_PART: usize = 8;

/// Multiply-adds of one thread in a microsecond, roughly: what such a part is reckoned from.
pub(crate) const WORK_PER_MICROSECOND: usize = 40_000;

/// Time lost beyond spinning from which a team is judged, and the part of all time that it may
/// lose: a partner whose processor is given to others again and again costs more than it helps.
/// Then the leader goes on alone for a while, each time for twice as long: most often the processor
/// is given back after some milliseconds.
pub(crate) const LOST_FROM: Duration = Duration::from_millis(2);
pub(crate) const LOST_PART: u32 = 4;
pub(crate) const ALONE: Duration = Duration::from_millis(4);

// Packing.

/// Rows of weights from which packing pays: tiles times steps, each of which reads all of them.
pub(crate) const PACK_FROM: usize = 4;

/// Elements from which packing is shared between threads: some tens of microseconds of work.
pub(crate) const PACK_TOGETHER_FROM: usize = 1 << 17;

/// Panels that are packed together: as many lines of a row of the weight are read one after the other.
pub(crate) const PANELS_AT_A_TIME: usize = 4;

/// Rows of the weight that packing asks for ahead of the one it copies: they lie too far apart for a
/// machine to guess the next.
pub(crate) const PACK_AHEAD: usize = 8;

// Tiles.

/// Vector registers of `S`. WebAssembly has as many as one likes, of which an engine keeps what its
/// machine has: 16 on x86-64. (`pulp` says 32.)
pub(crate) const fn registers<S: Simd>() -> usize {
    if cfg!(target_family = "wasm") {
        16
    } else {
        S::REGISTER_COUNT
    }
}

/// Rows of a full tile. With three vectors of weights and one broadcast, 8 rows fill 32 registers
/// and 4 rows fill 16.
///
/// On AArch64 a step of 8 rows is 40 instructions, 24 of them multiply-adds that take their row's
/// element from a lane, and no sum leaves its register; of 4 rows 24, 12 of them.
///
/// WebAssembly has no multiply-add, so each sum needs a product beside it, and V8 keeps 15 registers
/// on x86-64: 2 rows took 8% less than 4 in a large batch's forward pass, and 6% in its training.
pub(crate) const fn tile_rows(registers: usize) -> usize {
    if cfg!(target_family = "wasm") {
        return 2;
    }
    if registers >= 32 { 8 } else { 4 }
}

/// Sums side by side of a tile of two rows and three vectors, in free order. On WebAssembly that is a
/// full tile.
pub(crate) const SUMS_2X3: usize = if cfg!(target_family = "wasm") { 1 } else { 2 };

/// The same of one row. In V8 three took 30 to 50% longer than two: some went to memory.
pub(crate) const SUMS_1X3: usize = if cfg!(target_family = "wasm") { 2 } else { 4 };

/// Panels of a single row whose gates are made together: a gate is a chain of operations that wait for
/// each other. With AVX-512 a step of 32 units took 0.58 of the time that it took panel by panel, of
/// 256 units 0.86.
pub(crate) const PANELS_OF_A_ROW: usize = 4;

/// Vectors of a panel of the backward pass, the last of which may have fewer: with the rows of a
/// full tile they make as many sums as there are registers for. With two, 16 sums, a step took 15
/// to 30% longer.
pub(crate) const VECTORS_BACK: usize = 3;

/// Vectors of a panel of the candidate's own product, where the reset gate acts before it.
pub(crate) const CANDIDATE_VECTORS: usize = 2;

/// Rows from which a tile asks for memory: with fewer it waits for its own weights.
pub(crate) const ASKS_FROM: usize = 4;

/// Steps of k between two rounds of asking for memory.
pub(crate) const ASKS_EVERY: usize = 8;

// Memory.

/// Bytes from which large pages are asked for, for results and for scratch: a few of them. Where weights
/// are packed into such pages (I = H = 1024), forward took 0.95 of the time on one thread and 0.93 on
/// two, backward 0.96 and 0.97.
#[cfg(target_os = "linux")]
pub(crate) const LARGE_PAGES_FROM: usize = 8 << 20;
