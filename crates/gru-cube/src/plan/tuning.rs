//! Every number that decides which schedule is inferred, with its reason.

/// Largest number of weight registers per unit for a resident weight. 512 units with 96 registers use three quarters of the 65 536 registers of an NVIDIA multiprocessor. A driver compiles that
/// many terms in half a second.
pub(crate) const RESIDENT_REGISTERS: usize = 96;

/// The same for a persistent kernel if its cubes fit on the device. The sums of four rows, the prefetched
/// lhs and the inputs of the gates need more registers than a sequence kernel. For sm_90, ptxas put up to 408 bytes
/// per unit on the stack with 96 registers, and up to 16 bytes with 64.
pub(crate) const PERSISTENT_REGISTERS: usize = 64;

/// Largest H for which a sequence kernel that reads the weight at every step is faster than one launch per
/// step.
/// At 256, 12·H² bytes from a cache with about 64 bytes per clock take 12 000 clocks.
pub(crate) const WALK_HIDDEN: usize = 256;

/// Largest number of units of a cube. With more units a barrier costs more than the units gain.
pub(crate) const WALK_UNITS: usize = 512;

/// Longest estimated time of a launch. Watchdogs of Windows, macOS and browsers end launches that take seconds, and
/// the display waits for a launch.
pub(crate) const LAUNCH_NANOSECONDS: usize = 100_000_000;

/// Multiplications with addition that a multiprocessor does in a nanosecond, for the estimate. Low on purpose: slower
/// than the cores of integrated GPUs, so that an estimate is seldom exceeded. A fast device gets launches of a few
/// milliseconds, each of which costs it microseconds.
pub(crate) const MULTIPLICATIONS_PER_NANOSECOND: usize = 8;

/// Time of a step without its multiplications, for the estimate: barriers, and the latency of loads.
pub(crate) const STEP_NANOSECONDS: usize = 5_000;

/// Columns per unit on a CPU, which loads a value of the lhs once for all of them. Measured on lavapipe,
/// with [`CPU_ROWS`].
pub(crate) const CPU_COLUMNS: usize = 4;

/// Smallest number of rows per cube for which a CPU reads the weight at every step. It loads a value of the
/// weight once for all rows.
pub(crate) const CPU_ROWS: usize = 8;
