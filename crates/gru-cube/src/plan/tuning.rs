//! Every number that decides which schedule is inferred, with its reason.

use cubecl::ir::PciVendor;

/// What wgpu does not report about a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Largest number of weight registers per thread for a resident weight. About 40 more registers have the other values
    /// of a thread. With too many, a thread reads its weights from memory at every step.
    pub(crate) resident_registers: usize,
    /// Threads of the cube of a sequence kernel: at least this number.
    pub(crate) sequence_threads: usize,
    /// Threads of a cube that have these registers.
    pub(crate) most_sequence_threads: usize,
    /// Multiprocessors of a common device.
    pub(crate) cubes: usize,
    /// Persistent kernels are inferred: they were right and faster on a device of the vendor.
    pub(crate) persistent: bool,
}

/// The budget of a CPU, whose threads have no registers of their own. A driver compiles that many terms in half a second.
/// It iterates over the threads, so few are best.
pub(crate) fn cpu_budget(cores: usize) -> Budget {
    Budget {
        resident_registers: 96,
        sequence_threads: 1,
        most_sequence_threads: SEQUENCE_THREADS,
        cubes: cores,
        persistent: false,
    }
}

/// The budget for the devices of a vendor, from public numbers.
pub(crate) fn budget(vendor: Option<PciVendor>) -> Budget {
    // wgpu reports no vendor with Metal.
    let vendor = match vendor {
        None if cfg!(target_vendor = "apple") => Some(PciVendor::Apple),
        vendor => vendor,
    };
    let (resident_registers, cubes) = match vendor {
        // 65 536 registers per multiprocessor are 256 per thread of 256. From 14 to 170 multiprocessors. An H200 takes 7
        // to 23% less time with 256 threads than with 512.
        Some(PciVendor::Nvidia) => {
            return Budget {
                resident_registers: 192,
                sequence_threads: 128,
                most_sequence_threads: 256,
                cubes: 64,
                persistent: true,
            };
        }
        // 256 registers per thread. From 6 to 48 pairs of compute units.
        Some(PciVendor::Amd) => (96, 32),
        // About 208 KiB of registers per core are 104 per thread. From 7 to 80 cores.
        Some(PciVendor::Apple) => (48, 16),
        // 4 KiB of registers per hardware thread are 64 per lane, if it has 16 lanes. From 4 to 32 cores.
        Some(PciVendor::Intel) => (24, 16),
        // 64 registers per thread at most, half of them with all threads of a core. From 1 to 16 cores.
        Some(PciVendor::Arm | PciVendor::Qualcomm) => (24, 8),
        // A browser reports no vendor.
        Some(PciVendor::Other(_)) | None => (48, 32),
    };
    Budget {
        resident_registers,
        sequence_threads: SEQUENCE_THREADS,
        most_sequence_threads: SEQUENCE_THREADS,
        cubes,
        persistent: false,
    }
}

/// Threads of a cube of a persistent kernel. With 512, each would have half of the registers, and an H200 took 10 to 30%
/// longer.
pub(crate) const PERSISTENT_THREADS: usize = 256;

/// Clocks for a tile of a persistent kernel without its products: barriers, and the latency of loads. Measured on an
/// H200.
pub(crate) const TILE_CLOCKS: usize = 1000;

/// The same for a tile by matrix units, which has more rows.
pub(crate) const MATRIX_TILE_CLOCKS: usize = 3500;

/// Largest H for which a sequence kernel that reads the weight at every step is faster than one launch per
/// step.
/// At 256, 12·H² bytes from a cache with about 64 bytes per clock take 12 000 clocks.
pub(crate) const SEQUENCE_HIDDEN: usize = 256;

/// Threads of the cube of a sequence kernel. With more threads a barrier costs more than the threads gain.
pub(crate) const SEQUENCE_THREADS: usize = 512;

/// Longest estimated time of a launch. Watchdogs of Windows, macOS and browsers end launches that take seconds, and
/// the display waits for a launch.
pub(crate) const LAUNCH_NANOSECONDS: usize = 100_000_000;

/// Multiplications with addition that a multiprocessor does in a nanosecond, for the estimate. Low on purpose: slower
/// than the cores of integrated GPUs, so that an estimate is seldom exceeded. A fast device gets launches of a few
/// milliseconds, each of which costs it microseconds.
pub(crate) const MULTIPLICATIONS_PER_NANOSECOND: usize = 8;

/// Time of a step without its multiplications, for the estimate: barriers, and the latency of loads.
pub(crate) const STEP_NANOSECONDS: usize = 5_000;

/// Columns per thread on a CPU, which loads a value of the lhs once for all of them. Measured on lavapipe,
/// with [`CPU_ROWS`].
pub(crate) const CPU_COLUMNS: usize = 4;

/// Most pairs of row and column per thread on a CPU, as in the largest tile that was measured. A kernel has unrolled
/// code for each pair.
pub(crate) const CPU_PAIRS: usize = 16 * CPU_COLUMNS;

/// Smallest number of rows per cube for which a CPU reads the weight at every step. It loads a value of the
/// weight once for all rows.
pub(crate) const CPU_ROWS: usize = 8;
