//! Who does what: how rows and hidden units are split between threads, and how many steps make a
//! round. Plain data, made from the sizes alone.

use super::team::LARGEST;
use crate::{dims::Dims, settings};
use std::ops::Range;

/// Multiply-adds below which a call stays on its thread: waking another costs some microseconds,
/// in which one core does about half a million of them.
const PARALLEL_FROM: usize = 1 << 19;

/// Bytes of recurrent weights that one core keeps in its second-level cache, between steps, beside
/// what else a step touches: 2 MiB on recent servers, less elsewhere. Above, threads share the
/// hidden units of the same rows, so that each reads a part of the weights only.
const CACHED_WEIGHTS: usize = 1 << 20;

/// Rows below which a group is not split any more: its tiles would wait for weights, not for sums.
const ROWS_PER_GROUP: usize = 4;

/// Multiply-adds per step and thread for which meeting after each step pays: a meeting costs about
/// a third of a microsecond.
const MEET_FROM: usize = 1 << 15;

/// Rows of the input product of one round: enough to reuse each panel of `w_ih`, few enough for
/// the product to stay in the cache until the walk needs it.
const ROWS_PER_ROUND: usize = 64;

/// The same where all weights together leave the cache, so that each round brings `w_ih` anew.
const ROWS_PER_LARGE_ROUND: usize = 256;

/// The split of one walk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Rows of each group; groups do not meet.
    pub(super) groups: Vec<Range<usize>>,
    /// Threads that share the hidden units of a group.
    pub(super) members: usize,
}

impl Plan {
    /// `panels` is how many parts the hidden units can be split into, `tile` the rows of a tile,
    /// `size` the bytes of an element.
    pub(super) fn new(dims: &Dims, panels: usize, tile: usize, size: usize) -> Self {
        Self::with_threads(dims, panels, tile, size, settings::threads())
    }

    fn with_threads(dims: &Dims, panels: usize, tile: usize, size: usize, threads: usize) -> Self {
        let weights = 3 * dims.h * dims.h;
        let threads = match dims.rows() * weights < PARALLEL_FROM {
            true => 1,
            false => threads,
        };
        let sharing = (weights * size).div_ceil(CACHED_WEIGHTS).clamp(1, threads);
        let groups = (threads / sharing).min(dims.n / ROWS_PER_GROUP).max(1);
        let per_group = dims.n.div_ceil(groups);
        let members = (threads / groups)
            .min(per_group * weights / MEET_FROM)
            .min(panels)
            .clamp(1, LARGEST);
        Self {
            groups: split(dims.n, groups, tile),
            members,
        }
    }

    /// Steps of a round for a group of so many rows.
    pub(super) fn steps_per_round(dims: &Dims, rows: usize, size: usize) -> usize {
        let weights = (dims.i + dims.h) * 3 * dims.h * size;
        let wanted = match weights > 2 * CACHED_WEIGHTS {
            true => ROWS_PER_LARGE_ROUND,
            false => ROWS_PER_ROUND,
        };
        wanted.div_ceil(rows.max(1)).min(dims.t)
    }
}

/// Cuts `n` rows into `parts`, in whole tiles where there are enough.
fn split(n: usize, parts: usize, tile: usize) -> Vec<Range<usize>> {
    let unit = if n.div_ceil(tile) >= parts { tile } else { 1 };
    let units = n.div_ceil(unit);
    let at = |k: usize| (k * units / parts * unit).min(n);
    (0..parts)
        .map(|k| at(k)..at(k + 1))
        .filter(|range| !range.is_empty())
        .collect()
}

/// Cuts a group into tiles, each a first row and a number of rows: full ones, then by halves.
pub(super) fn tiles(rows: usize, full: usize) -> Vec<(usize, usize)> {
    let (mut row, mut size) = (0, full);
    let mut tiles = Vec::with_capacity(rows / full + 3);
    while row < rows {
        while row + size > rows {
            size /= 2;
        }
        tiles.push((row, size));
        row += size;
    }
    tiles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(n: usize, h: usize, threads: usize) -> Plan {
        let dims = Dims { n, t: 100, i: 8, h };
        Plan::with_threads(&dims, h.div_ceil(16), 8, 4, threads)
    }

    #[test]
    fn groups_cover_the_batch_once() {
        for n in 1..70 {
            for threads in [1, 2, 3, 8] {
                let rows: Vec<usize> = plan(n, 64, threads).groups.into_iter().flatten().collect();
                assert_eq!(rows, (0..n).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn rows_are_split_while_the_weights_fit_a_cache_and_units_beyond() {
        let many = plan(32, 256, 2);
        assert_eq!((many.groups.len(), many.members), (2, 1));
        let large = plan(32, 1024, 2);
        assert_eq!((large.groups.len(), large.members), (1, 2));
        let one_row = plan(1, 512, 4);
        assert_eq!((one_row.groups.len(), one_row.members), (1, 4));
        let small = plan(1, 32, 4);
        assert_eq!((small.groups.len(), small.members), (1, 1));
    }

    #[test]
    fn tiles_cover_a_group_once() {
        for rows in 1..40 {
            let mut next = 0;
            for (row, size) in tiles(rows, 8) {
                assert_eq!(row, next);
                next += size;
            }
            assert_eq!(next, rows);
        }
    }
}
