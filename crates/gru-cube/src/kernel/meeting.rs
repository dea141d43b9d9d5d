//! Cubes of one launch that wait for each other: a barrier between cubes, of those that have the same
//! rows of the batch.
//!
//! Valid where one cube's writes reach another within a launch, and only among cubes that all run
//! at the same time: one that waits keeps its place on the device. The plan and the turns of streams
//! see to both, as far as can be known. What they cannot see is another program that holds places for
//! ever; then a cube gives up, its numbers become NaN, and the call returns an error, rather than hang
//! or be wrong in silence.

use cubecl::prelude::*;

/// Looks at a counter before a cube gives up: on a GPU, some seconds.
const PATIENCE: u32 = 1 << 24;

/// Bit of a counter that says that somebody has given up. Larger than any count.
pub(crate) const GIVEN_UP: u32 = 1 << 31;

/// Waits until `expected` cubes have come here since the counter was zero. What any of them wrote
/// before is seen by all after. `lost[0]` becomes 1 if somebody has given up, and is 0 elsewhere.
#[cube]
pub(crate) fn meet(met: &Atomic<u32>, expected: u32, lost: &mut Shared<[u32]>) {
    // Release: this cube's writes, before it is counted.
    sync_storage();
    if UNIT_POS == 0 {
        met.fetch_add(1u32);
        let mut looks = 0u32.runtime();
        while met.load() < expected && looks < PATIENCE {
            looks += 1;
        }
        if looks == PATIENCE {
            met.fetch_or(GIVEN_UP);
        }
        lost[0] = met.load() / GIVEN_UP;
    }
    // Acquire: the others' writes, for every unit.
    sync_storage();
}

/// 0, or NaN if somebody has given up: added to all that a step writes from then on.
#[cube]
pub(crate) fn doubt(lost: u32) -> f32 {
    f32::reinterpret(lost * 0x7fc0_0000u32)
}
