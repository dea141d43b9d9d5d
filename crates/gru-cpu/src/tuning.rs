//! Every threshold, with its reason. All of them are estimates of what is fastest on some machine. They
//! change a result by no more than the order of a sum. [`ROW_GRANULE`] makes results independent of the
//! number of threads.

use core::time::Duration;
use pulp::Simd;

// How rows and hidden units are split between threads.

/// Multiply-adds below which a call stays on its thread. Waking another thread costs some microseconds,
/// and one core does about half a million multiply-adds in that time. A thread that only shares the input
/// products of a team has at least as many in each round.
pub(crate) const PARALLEL_FROM: usize = 1 << 19;

/// Bytes of recurrent weights that one core keeps in its second-level cache between steps, next to the
/// other data of a step. Recent servers have 2 MiB, other machines less. With more weights the threads
/// share the hidden units of the same rows, so that each thread reads a part of the weights only.
///
/// It does not follow the cache size of the machine, because that gained nothing. With AVX2, a second-level cache of
/// 512 KiB and two threads, half of this number took 0.99 to 1.08 of the time of forward passes, over five shapes.
pub(crate) const CACHED_WEIGHTS: usize = 1 << 20;

/// A batch, or the rows of a round, is split between threads at multiples of this. Tiles of 8 and 4 rows
/// add in the same order, smaller tiles do not. With splits at these multiples a row has the same sums
/// in every thread.
pub(crate) const ROW_GRANULE: usize = 4;

/// A group with fewer rows is not split further: its tiles would wait for weights, not for sums.
pub(crate) const ROWS_PER_GROUP: usize = ROW_GRANULE;

/// Multiply-adds per step and thread from which a barrier after each step pays. A barrier costs about a
/// third of a microsecond. With I = 64 and H = 128, 128 steps of one row took 0.27 ms on one thread and
/// 0.23 ms on two.
pub(crate) const BARRIER_FROM: usize = 1 << 14;

/// The same in the backward pass, which has further barriers in each round. The same row
/// takes 0.37 ms on one thread and 0.39 ms on two.
pub(crate) const BARRIER_BACK_FROM: usize = 1 << 15;

/// Groups of rows of different lengths are fewer if one has more than its share of the steps, by this part of the
/// share. More threads then share its hidden units. Their barriers took 3 to 6% of a forward pass (32 rows of 256
/// units, two threads).
pub(crate) const UNEVEN_SHARE: usize = 8;

// Steps of a round.

/// Rows of the input product of one round. They are enough to reuse each panel of `w_ih`, and few enough
/// for the product to stay in the cache until its step.
pub(crate) const ROWS_PER_ROUND: usize = 64;

/// The same where all weights together exceed the cache, so that each round loads `w_ih` again.
pub(crate) const ROWS_PER_LARGE_ROUND: usize = 256;

/// Rows of one round of the backward pass, which keeps the gradients of all its steps. They are enough to
/// read and write the weight gradients rarely, and few enough to stay in the cache. With AVX2 and a second-level cache
/// of 512 KiB, 128 rows took 1.00 to 1.08 of the time of these, over five shapes.
pub(crate) const ROWS_PER_ROUND_BACK: usize = 192;

/// The same where the weights exceed the cache. 256 rows took 1.02 to 1.06 of the time, over four shapes.
pub(crate) const ROWS_PER_LARGE_ROUND_BACK: usize = 384;

// Barriers.

/// Spins before a waiting thread yields its processor: some tens of microseconds. If two threads share a
/// processor, the other could not arrive without the yield. One spin is enough for a model checker: a
/// second one adds an order and no new behaviour.
pub(crate) const SPINS: usize = if cfg!(all(test, any(loom, shuttle))) {
    1
} else {
    1 << 11
};

/// The longest wait for helpers before the first round, and its share of the time that the round takes one thread. A
/// round that starts without a helper is done without it. On two virtual cores a sleeping thread of the pool took 42 µs
/// to start in the median, and more than 60 µs in a quarter of the calls. With waits of at most 40 µs, 20 steps of 64
/// rows with I = H = 1024 took 115 ms instead of 98. Their gradients took 258 instead of 205.
///
/// If all threads of the pool are busy, no helper comes: with two calls at the same time on two threads, calls of 20 ms
/// took 5 to 8% longer.
pub(crate) const HELPER_WAIT: Duration = Duration::from_millis(1);
pub(crate) const HELPER_WAIT_SHARE: usize = 4;

/// Multiply-adds of one thread in a microsecond, roughly: the base of that share.
pub(crate) const WORK_PER_MICROSECOND: usize = 40_000;

/// The wait beyond spinning from which a team is judged, and the share of all time that it may wait. A
/// helper that loses its processor again and again costs more than it helps. Then the leader works
/// without helpers for a while, each time for twice as long: most often the processor is returned after
/// some milliseconds.
pub(crate) const WAITED_FROM: Duration = Duration::from_millis(2);
pub(crate) const WAITED_SHARE: u32 = 4;
pub(crate) const SOLO: Duration = Duration::from_millis(4);

// Packing.

/// Rows (N·T) from which a forward pass packs its weights. With fewer rows it reads them in place. Two threads would
/// pack earlier, but the two add in different orders, and no bit may depend on the number of threads.
///
/// On AVX2, in place against packed, one row:
///
/// | I, H | T | threads | ms |
/// |---|---|---|---|
/// | 8, 32 | 16 | 1 | 0.0075, 0.0054 |
/// | 64, 128 | 32 | 1 | 0.127, 0.142 |
/// | 64, 128 | 64 | 1 | 0.26, 0.26 |
/// | 384, 384 | 64 | 1 | 4.0, 6.8 |
/// | 384, 384 | 64 | 2 | 2.5, 2.0 |
///
/// Only packed weights of layers with few units have the kernel without tiles.
pub(crate) fn pack_from(units: usize) -> usize {
    if units <= UNITS_OF_A_CHAIN { 8 } else { 64 }
}

/// Reads of a weight (tiles times steps) from which the backward pass packs it.
pub(crate) const PACK_BACK_FROM: usize = 24;

/// Elements from which threads share the packing. That is little work, but it wakes the helpers before the first step:
/// with I = 64 and H = 128, 128 steps of one row took 0.32 instead of 0.46 ms.
pub(crate) const PACK_IN_PARALLEL_FROM: usize = 1 << 15;

/// Panels that are packed at the same time: so many cache lines of a weight row are read in sequence.
pub(crate) const PANELS_AT_A_TIME: usize = 4;

/// Rows that a product of quantized weights multiplies at once: encoded, they stay in the first-level cache next to a panel.
pub(crate) const QUANTIZED_ROWS: usize = 32;

/// Packing prefetches the weight row that is so many rows ahead. The rows are too far apart for a
/// hardware prefetcher.
pub(crate) const PACK_AHEAD: usize = 8;

// Tiles.

/// Vector registers of `S`. A WebAssembly engine keeps as many values in registers as its machine has:
/// 16 on x86-64. (`pulp` states 32.)
pub(crate) const fn registers<S: Simd>() -> usize {
    if cfg!(target_family = "wasm") {
        16
    } else {
        S::REGISTER_COUNT
    }
}

/// Rows of a full tile. With three vectors of weights and one broadcast, 8 rows fill 32 registers and
/// 4 rows fill 16.
///
/// On AArch64 a step of k is 40 instructions for 8 rows: 24 of them are multiply-adds that take their
/// row's element from a lane, and every sum stays in its register. For 4 rows it is 24 instructions with
/// 12 multiply-adds.
///
/// WebAssembly does not have a multiply-add, so each sum needs a register for its product, and V8 keeps 15
/// registers on x86-64. Compared with 4 rows, 2 rows took 8% less in a large batch's forward pass and 6%
/// less in its training.
pub(crate) const fn tile_rows(registers: usize) -> usize {
    if cfg!(target_family = "wasm") {
        return 2;
    }
    if registers >= 32 { 8 } else { 4 }
}

/// Partial sums of a tile of two rows and three vectors, in free order. On WebAssembly this is a full
/// tile.
pub(crate) const SUMS_2X3: usize = if cfg!(target_family = "wasm") { 1 } else { 2 };

/// The same for one row. In V8 three partial sums took 30 to 50% longer than two: some were spilled.
pub(crate) const SUMS_1X3: usize = if cfg!(target_family = "wasm") { 2 } else { 4 };

/// Panels of a single row whose gates are computed together. A gate is a chain of dependent operations.
/// With AVX-512 a step of 32 units took 0.58 of the time of one panel after the other, and 256 units
/// took 0.86.
pub(crate) const PANELS_OF_A_ROW: usize = 4;

/// Inference of a single row with packed weights is computed without tiles and rounds, if the layer has at most so many
/// panels, units and inputs. With AVX2, steps of 8, 16, 32 and 64 units (I = H) took 0.43, 0.55, 0.57 and 0.75 of the
/// time of tiles.
///
/// With more inputs, a round of several steps multiplies them faster: 100 steps of I = 64, H = 16 took 0.83 of the time
/// of rounds, and I = 256, H = 8 1.7 times as long.
///
/// A single step has no limit of units and inputs but [`PARALLEL_FROM`]. I = 64, H = 128 took 0.79 of the time of tiles
/// with AVX2 and 0.86 with AVX-512, I = 128, H = 256 with AVX-512 0.87. With 32 panels, steps of few units took 1.07 of
/// the time.
pub(crate) const PANELS_OF_A_CHAIN: usize = 16;
pub(crate) const UNITS_OF_A_CHAIN: usize = 64;
pub(crate) const INPUTS_OF_A_CHAIN: usize = 64;

/// Vectors of a panel of the backward pass; the last panel may have fewer. With the rows of a full tile
/// the sums fill the registers. With two vectors, that is 16 sums, a step took 15 to 30% longer.
pub(crate) const VECTORS_BACK: usize = 3;

/// Vectors of a panel of the candidate's product, where the reset gate acts before it.
pub(crate) const CANDIDATE_VECTORS: usize = 2;

/// The backward pass prefetches the gates of the row that is so many rows ahead. If tiles prefetch them in the product
/// before, one step ahead, the product takes 15% longer (N = 128, H = 256).
pub(crate) const ROWS_AHEAD: usize = 2;

/// Rows of a round up to which weight gradients are computed row by row. Their tiles would be a few multiply-adds each.
/// With I = H = 384 and one thread, one row took 0.31 of the time, 8 rows 0.49, 16 rows 0.73 and 32 rows 1.4.
pub(crate) const FEW_ROWS: usize = 16;

/// Rows from which a tile prefetches: a smaller tile waits for its own weights.
pub(crate) const PREFETCH_FROM: usize = 4;

/// Steps of k between two groups of prefetches.
pub(crate) const PREFETCH_EVERY: usize = 8;

// Memory.

/// Bytes from which results and scratch request large pages. Smaller buffers contain none. From 8 MiB on instead, with
/// I = H = 512, a call of 8 rows and 8 steps took 7.4 instead of 6.1 ms, most of it for packing. With 64 rows and 20
/// steps forward and backward took 56 and 111 instead of 53 and 106 ms.
#[cfg(target_os = "linux")]
pub(crate) const LARGE_PAGES_FROM: usize = 2 << 20;
