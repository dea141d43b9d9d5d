//! The recurrence of the common GRU in float32: packed weights, register tiles, gates as the
//! epilogue.
//!
//! Common is: sigmoid, sigmoid, tanh, reset after the product, no clip, no mask, no skipped step.
//! Everything else takes the plain walk.
//!
//! A product per step would pack `w_hh` T times and send `q` through memory. Here `w_hh` is
//! packed once per call, into panels that hold the three gates of the same hidden columns side by
//! side; one tile of rows by columns gathers all three in registers and turns them into the new
//! state before anything is stored. Rows of a batch do not meet, so threads split the batch and
//! walk through all of time without a barrier.
//!
//! No closure stands between a dispatch and vector code: one that is not inlined is compiled
//! without the vector instructions, and runs some twenty times slower.

mod math;
mod rows;
mod tile;
mod walk;
mod walk_back;

use crate::{
    dims::{Dims, Inputs},
    spec::{Activations, GruSpec, Reset},
};
use pulp::Simd;

pub(crate) use self::{walk::walk, walk_back::walk_back};

/// Steps from which packing `w_hh` pays: it reads and writes what one step of one row reads.
const PACK_FROM: usize = 4;

/// Whether the kernels know this call, and it is long enough for them.
pub(crate) fn is_common<E>(dims: &Dims, spec: &GruSpec, inputs: &Inputs<'_, E>) -> bool {
    dims.t >= PACK_FROM
        && spec.reset == Reset::AfterMatmul
        && spec.activations == Activations::default()
        && spec.clip_gates.is_none()
        && spec.clip_state.is_none()
        && inputs.mask.is_none()
        && inputs.valid.is_none()
}

/// Multiply-adds below which a call stays on its thread: waking another costs some microseconds,
/// in which one core does about half a million of them.
const PARALLEL_FROM: usize = 1 << 19;

/// Rows of a full tile. Three accumulators for each row, one vector of weights for each gate and
/// one broadcast: 8 rows fill 32 registers, 4 rows fill 16.
const fn tile_rows<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 8 } else { 4 }
}

/// Cuts the batch into one range of rows for each thread, in whole tiles where there are enough.
fn shares(dims: &Dims, tile: usize) -> Vec<std::ops::Range<usize>> {
    let work = dims.rows() * dims.h * dims.h * 3;
    let threads = match work < PARALLEL_FROM {
        true => 1,
        false => rayon::current_num_threads().min(dims.n).max(1),
    };
    let tiles = dims.n.div_ceil(tile);
    let unit = if tiles >= threads { tile } else { 1 };
    let units = dims.n.div_ceil(unit);
    (0..threads)
        .map(|k| {
            let at = |k: usize| (k * units / threads * unit).min(dims.n);
            at(k)..at(k + 1)
        })
        .filter(|range| !range.is_empty())
        .collect()
}

/// Cuts a share into tiles, each a first row and a number of rows: full ones, then by halves.
fn tiles(rows: &std::ops::Range<usize>, full: usize) -> Vec<(usize, usize)> {
    let (mut row, mut size) = (rows.start, full);
    let mut tiles = Vec::with_capacity(rows.len() / full + 3);
    while row < rows.end {
        while row + size > rows.end {
            size /= 2;
        }
        tiles.push((row, size));
        row += size;
    }
    tiles
}

/// Runs `each` for every share, the first on the calling thread.
fn run<S: Send>(shares: Vec<S>, each: impl Fn(S) + Sync) {
    let mut shares = shares.into_iter();
    let first = shares.next();
    rayon::in_place_scope(|scope| {
        let each = &each;
        shares.for_each(|share| scope.spawn(move |_| each(share)));
        if let Some(first) = first {
            each(first);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_the_batch_once() {
        for n in 1..70 {
            for tile in [4, 8] {
                let dims = Dims {
                    n,
                    t: 100,
                    i: 8,
                    h: 64,
                };
                let rows: Vec<usize> = shares(&dims, tile).into_iter().flatten().collect();
                assert_eq!(rows, (0..n).collect::<Vec<_>>());
            }
        }
    }
}
