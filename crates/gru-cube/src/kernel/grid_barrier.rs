//! A barrier between the cubes of a persistent kernel that work on the same rows of the batch.
//!
//! The barrier requires that one cube's writes are visible to the others within a launch, and that all
//! cubes run at the same time. The plan checks both as far as a device reports them. If the device does
//! not run all cubes, the barrier times out, and results become NaN.

use cubecl::prelude::*;

/// Reads of the counter before a cube times out, because CubeCL has no clock. By an estimate of 200 to 400 nanoseconds
/// per read, a cube waits about a second: longer than most kernels of other programs, and less than the two seconds after
/// which Windows resets a device.
const SPIN_LIMIT: u32 = 1 << 22;

/// Bit of a counter that is set when a cube times out. Larger than any count.
pub(crate) const TIMED_OUT: u32 = 1 << 31;

/// Waits until `counter`, which starts at zero, has counted `expected` cubes. Afterwards this cube sees
/// all earlier writes of the others. Sets `timed_out[0]` to 1 if any of the cubes timed out, else to 0.
#[cube]
pub(crate) fn grid_barrier(counter: &Atomic<u32>, expected: u32, timed_out: &mut Shared<[u32]>) {
    // Release: this cube's writes become visible before it is counted.
    sync_storage();
    if UNIT_POS == 0 {
        counter.fetch_add(1u32);
        let mut spins = 0u32.runtime();
        let mut count = 0u32.runtime();
        // The only load, because CubeCL's optimizer may replace a second one by the result of the first.
        while count < expected && spins < SPIN_LIMIT {
            count = counter.load();
            spins += 1;
        }
        if count < expected {
            counter.fetch_or(TIMED_OUT);
            count = TIMED_OUT.runtime();
        }
        timed_out[0] = count / TIMED_OUT;
    }
    // Acquire: the writes of the other cubes, for every thread.
    sync_storage();
}

/// NaN if the barrier timed out, else 0. Every later result adds it.
#[cube]
pub(crate) fn poison(timed_out: u32) -> f32 {
    f32::reinterpret(timed_out * 0x7fc0_0000u32)
}
