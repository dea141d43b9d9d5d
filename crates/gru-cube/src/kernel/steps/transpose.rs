//! Transposes the weight for the backward pass.

use cubecl::prelude::*;

/// `w_hh_t [3H,H]` from `w_hh [H,3H]`, through a tile of shared memory, so that both reads and writes
/// coalesce. Cubes have `TRANSPOSE × TRANSPOSE` threads.
#[cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")]
pub(crate) fn gru_transpose<F: Float>(
    w_hh: &[F],
    w_hh_t: &mut [F],
    hidden: u32,
    #[define(F)] _dtype: ElemType,
) {
    let side = comptime!(TRANSPOSE as usize);
    // One column of padding distributes a column of the tile over the banks.
    let mut tile = Shared::<[F]>::new_slice(comptime!(side * (side + 1)));
    let (rows, columns) = (hidden as usize, hidden as usize * 3);
    let (x, y) = (UNIT_POS_X as usize, UNIT_POS_Y as usize);
    let (row0, column0) = (CUBE_POS_Y as usize * side, CUBE_POS_X as usize * side);
    if row0 + y < rows && column0 + x < columns {
        tile[y * comptime!(side + 1) + x] = w_hh[(row0 + y) * columns + column0 + x];
    }
    sync_cube();
    if row0 + x < rows && column0 + y < columns {
        w_hh_t[(column0 + y) * rows + row0 + x] = tile[x * comptime!(side + 1) + y];
    }
}

/// Side of a tile. Its square is 256, the smallest limit of threads per cube in WebGPU.
pub(crate) const TRANSPOSE: u32 = 16;
