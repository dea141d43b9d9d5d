//! Every number that decides which schedule is inferred, with its reason.

use cubecl::ir::PciVendor;

/// What wgpu does not report about a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Largest number of weight registers per unit for a resident weight, in cubes of 512 units. About 40 more
    /// registers have the other values of a unit. With too many, a unit reads its weights from memory at every step.
    pub(crate) resident_registers: usize,
    /// Multiprocessors of a common device.
    pub(crate) cubes: usize,
}

/// The same number for a CPU, whose units have no registers of their own. A driver compiles that many terms in half a
/// second.
pub(crate) const CPU_REGISTERS: usize = 96;

/// The budget for the devices of a vendor, from public numbers.
pub(crate) fn budget(vendor: Option<PciVendor>) -> Budget {
    // wgpu reports no vendor with Metal.
    let vendor = match vendor {
        None if cfg!(target_vendor = "apple") => Some(PciVendor::Apple),
        vendor => vendor,
    };
    let (resident_registers, cubes) = match vendor {
        // 65 536 registers per multiprocessor are 128 per unit. From 14 to 170 multiprocessors.
        Some(PciVendor::Nvidia) => (96, 64),
        // 256 registers per unit. From 6 to 48 pairs of compute units.
        Some(PciVendor::Amd) => (96, 32),
        // About 208 KiB of registers per core are 104 per unit. From 7 to 80 cores.
        Some(PciVendor::Apple) => (48, 16),
        // 4 KiB of registers per thread are 64 per unit, if a thread has 16 units. From 4 to 32 cores.
        Some(PciVendor::Intel) => (24, 16),
        // 64 registers per unit at most, half of them with all threads of a core. From 1 to 16 cores.
        Some(PciVendor::Arm | PciVendor::Qualcomm) => (24, 8),
        // A browser reports no vendor.
        Some(PciVendor::Other(_)) | None => (48, 32),
    };
    Budget {
        resident_registers,
        cubes,
    }
}

/// Weight registers per unit of a persistent kernel: few, or more if the device has too few cubes otherwise. The sums
/// of four rows, the prefetched lhs and the inputs of the gates need more registers than a sequence kernel. For sm_90,
/// ptxas put up to 408 bytes per unit on the stack with 96 registers, and up to 16 bytes with 64.
pub(crate) const PERSISTENT_REGISTERS: [usize; 2] = [64, 96];

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
