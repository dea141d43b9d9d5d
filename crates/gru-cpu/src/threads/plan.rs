//! How rows and hidden units are split between threads, and how many steps a round has. It is plain data,
//! computed from the sizes.

use super::{available, team::LARGEST};
use crate::{
    spec::Sizes,
    tuning::{
        CACHED_WEIGHTS, HELPER_WAIT, HELPER_WAIT_SHARE, PARALLEL_FROM, ROW_GRANULE, ROWS_PER_GROUP,
        ROWS_PER_LARGE_ROUND, ROWS_PER_LARGE_ROUND_BACK, ROWS_PER_ROUND, ROWS_PER_ROUND_BACK,
        WORK_PER_MICROSECOND,
    },
};
use core::{ops::Range, time::Duration};

/// How one pass is split.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Groups of rows. They have no common barrier in the forward pass. In each round of the backward pass they have
    /// two, or three if the gates are recomputed.
    pub(crate) groups: usize,
    /// Threads that share the hidden units of a group.
    pub(crate) members: usize,
    /// Rows of the batch.
    n: usize,
}

/// The share of one member of a team in every step.
pub(crate) struct Share {
    /// Its rows of the batch.
    pub(crate) rows: Range<usize>,
    /// The members that share these rows, and the position of this member in them.
    pub(crate) peers: Range<usize>,
    at: usize,
}

impl Share {
    /// This member's part of the hidden units of its rows, of `count` in all.
    pub(crate) fn of_units(&self, count: usize) -> Range<usize> {
        let cut = |k: usize| k * count / self.peers.len();
        cut(self.at)..cut(self.at + 1)
    }
}

impl Plan {
    /// The hidden units can be split into `panels` parts. An element has `size` bytes.
    /// `barrier_from` is one of the numbers in [`tuning`](crate::tuning).
    pub(crate) fn new(sizes: &Sizes, panels: usize, size: usize, barrier_from: usize) -> Self {
        Self::with_threads(sizes, panels, size, barrier_from, available)
    }

    fn with_threads(
        sizes: &Sizes,
        panels: usize,
        size: usize,
        barrier_from: usize,
        threads: impl FnOnce() -> usize,
    ) -> Self {
        let (weights, of_input) = (3 * sizes.h * sizes.h, 3 * sizes.h * sizes.i);
        // The number of multiply-adds may exceed a `usize`, other than the number of elements.
        let work = sizes.places().saturating_mul(weights + of_input);
        let threads = if work < PARALLEL_FROM { 1 } else { threads() };
        let sharing = (weights * size).div_ceil(CACHED_WEIGHTS).clamp(1, threads);
        let groups = (threads / sharing).min(sizes.n / ROWS_PER_GROUP).max(1);
        let per_group = sizes.n.div_ceil(groups);
        let of_round = sizes.places().min(ROWS_PER_ROUND.max(per_group));
        let of_input = of_round.saturating_mul(of_input) / PARALLEL_FROM;
        let members = (threads / groups)
            .min(acting(per_group, sizes.h, barrier_from).max(of_input))
            .min(panels)
            .clamp(1, LARGEST);
        Self {
            groups,
            members,
            n: sizes.n,
        }
    }

    /// A plan with this number of groups or fewer, and as many threads.
    pub(crate) fn with_groups(&self, groups: usize, panels: usize) -> Self {
        let members = (self.members * self.groups / groups).min(panels);
        Self {
            groups,
            members: members.clamp(1, LARGEST),
            ..*self
        }
    }

    /// The plan for the first `n` rows of the batch, with the same threads.
    pub(crate) fn for_rows(&self, n: usize) -> Self {
        let groups = self.groups.min(n / ROWS_PER_GROUP).max(1);
        Self { groups, n, ..*self }
    }

    /// Threads that have work.
    pub(crate) fn threads(&self) -> usize {
        (self.groups * self.members).min(LARGEST)
    }

    /// The rows of a group.
    pub(crate) fn rows(&self, group: usize) -> Range<usize> {
        split(self.n, self.groups, group)
    }

    /// The share of member `index` if the first `team` members have one. That may be fewer than planned.
    pub(crate) fn share(&self, index: usize, team: usize) -> Share {
        if index >= team {
            return Share {
                rows: 0..0,
                at: 0,
                peers: index..index + 1,
            };
        }
        let groups = self.groups.min(team);
        let group = index * groups / team;
        let first = |group: usize| (group * team).div_ceil(groups);
        let peers = first(group)..first(group + 1);
        Share {
            rows: split(self.n, groups, group),
            at: index - peers.start,
            peers,
        }
    }

    /// How long a call waits for helpers before its first round, which has so many rows.
    pub(crate) fn helper_wait(sizes: &Sizes, rows: usize) -> Duration {
        let weights = 3 * sizes.h * (sizes.i + sizes.h);
        let work = rows.saturating_mul(weights);
        let time = work / WORK_PER_MICROSECOND / HELPER_WAIT_SHARE;
        Duration::from_micros(time as u64).min(HELPER_WAIT)
    }

    /// Steps of a round of the backward pass.
    pub(crate) fn steps_back(sizes: &Sizes, size: usize) -> usize {
        let weights = (sizes.i + sizes.h) * 3 * sizes.h * size;
        let rows = if weights > CACHED_WEIGHTS {
            ROWS_PER_LARGE_ROUND_BACK
        } else {
            ROWS_PER_ROUND_BACK
        };
        rows.div_ceil(sizes.n).min(sizes.t)
    }

    /// Steps of a round for a group of `group` rows.
    pub(crate) fn steps_per_round(sizes: &Sizes, group: usize, size: usize) -> usize {
        let weights = (sizes.i + sizes.h) * 3 * sizes.h * size;
        let rows = if weights > 2 * CACHED_WEIGHTS {
            ROWS_PER_LARGE_ROUND
        } else {
            ROWS_PER_ROUND
        };
        match sizes.t {
            1 => 1,
            t => rows.div_ceil(group.max(1)).min(t),
        }
    }
}

/// Members of a group for which barriers after each step pay. In the steps of fewer rows than planned, the other
/// members only share the products of a round.
pub(crate) fn acting(rows: usize, h: usize, barrier_from: usize) -> usize {
    (rows.saturating_mul(3 * h * h) / barrier_from).max(1)
}

/// Part `k` of `n` rows in `parts`.
pub(crate) fn split(n: usize, parts: usize, k: usize) -> Range<usize> {
    let units = n.div_ceil(ROW_GRANULE);
    let at = |k: usize| (k * units / parts * ROW_GRANULE).min(n);
    at(k)..at(k + 1)
}

/// Some rows that are computed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) first: usize,
    pub(crate) rows: usize,
}

impl Tile {
    #[inline(always)]
    pub(crate) fn range(self) -> Range<usize> {
        self.first..self.first + self.rows
    }
}

/// Rows split into tiles: full tiles, then halves of the size.
#[derive(Clone)]
pub(crate) struct Tiles {
    rows: Range<usize>,
    size: usize,
}

pub(crate) fn tiles(rows: Range<usize>, full: usize) -> Tiles {
    Tiles { rows, size: full }
}

impl Iterator for Tiles {
    type Item = Tile;

    #[inline(always)]
    fn next(&mut self) -> Option<Tile> {
        if self.rows.is_empty() {
            return None;
        }
        while self.size > self.rows.len() {
            self.size /= 2;
        }
        let (first, rows) = (self.rows.start, self.size);
        self.rows.start += rows;
        Some(Tile { first, rows })
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let (full, rest) = (self.rows.len() / self.size, self.rows.len() % self.size);
        let count = full + rest.count_ones() as usize;
        (count, Some(count))
    }
}

impl ExactSizeIterator for Tiles {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::BARRIER_FROM;

    fn plan(n: usize, h: usize, threads: usize) -> Plan {
        let sizes = Sizes { n, t: 100, i: 8, h };
        Plan::with_threads(&sizes, h.div_ceil(16), 4, BARRIER_FROM, || threads)
    }

    #[test]
    fn shares_cover_rows_and_units_once_in_a_team_of_any_size() {
        for (n, h, threads) in [(33, 300, 12), (64, 64, 8), (5, 600, 7), (1, 512, 3)] {
            let plan = plan(n, h, threads);
            for team in 1..=plan.threads() {
                let mut done = vec![0; n * 20];
                for index in 0..team {
                    let share = plan.share(index, team);
                    assert!(share.peers.contains(&index));
                    assert!(plan.share(team + index, team).rows.is_empty());
                    for row in share.rows.clone() {
                        for unit in share.of_units(20) {
                            done[row * 20 + unit] += 1;
                        }
                    }
                }
                assert!(done.iter().all(|&d| d == 1), "{plan:?} {team}");
            }
        }
    }

    #[test]
    fn groups_cover_the_batch_once() {
        for n in 1..70 {
            for threads in [1, 2, 3, 8] {
                let plan = plan(n, 64, threads);
                let rows = (0..plan.groups).flat_map(|group| plan.rows(group));
                assert!(rows.eq(0..n), "{plan:?}");
            }
        }
    }

    #[test]
    fn a_batch_is_split_evenly() {
        let parts = |n, count| (0..count).map(move |k| split(n, count, k).len());
        assert!(parts(24, 2).eq([12, 12]));
        assert!(parts(30, 3).eq([8, 12, 10]));
    }

    #[test]
    #[cfg_attr(
        not(all(feature = "threads", not(target_family = "wasm"))),
        ignore = "no threads"
    )]
    fn rows_are_split_while_the_weights_fit_a_cache_and_units_beyond() {
        let many = plan(32, 256, 2);
        assert_eq!((many.groups, many.members), (2, 1));
        let large = plan(32, 1024, 2);
        assert_eq!((large.groups, large.members), (1, 2));
        let one_row = plan(1, 512, 4);
        assert_eq!((one_row.groups, one_row.members), (1, 4));
        let small = plan(1, 32, 4);
        assert_eq!((small.groups, small.members), (1, 1));
    }

    #[test]
    #[cfg_attr(
        not(all(feature = "threads", not(target_family = "wasm"))),
        ignore = "no threads"
    )]
    fn a_large_input_product_has_a_team_and_a_short_step_has_none() {
        let plan = |n, t, i, h: usize| {
            let sizes = Sizes { n, t, i, h };
            Plan::with_threads(&sizes, h.div_ceil(16), 4, BARRIER_FROM, || 8)
        };
        assert_eq!(plan(1, 500, 1024, 64).members, 4);
        assert_eq!(plan(16, 8, 2048, 32).groups, 4);
        assert_eq!(
            [1, 2, 64].map(|rows| acting(rows, 64, BARRIER_FROM)),
            [1, 1, 48]
        );
    }

    /// Rows times weights exceed a `usize` at sizes that a call may have.
    #[test]
    fn sizes_that_a_call_may_have_overflow_nothing() {
        let (rows, h) = if usize::BITS == 32 {
            (1 << 12, 1 << 10)
        } else {
            (1 << 40, 1 << 14)
        };
        for (n, t) in [(64, rows / 64), (rows, 1)] {
            let sizes = Sizes { n, t, i: h, h };
            assert!(sizes.fit_in_memory());
            let plan = Plan::with_threads(&sizes, h / 16, 4, BARRIER_FROM, || 2);
            assert_eq!((plan.groups, plan.members), (1, LARGEST.min(2)));
            assert_eq!(Plan::helper_wait(&sizes, sizes.places()), HELPER_WAIT);
        }
    }

    #[test]
    fn tiles_cover_a_group_once() {
        for rows in 1..40 {
            let mut next = 3;
            let tiles = tiles(3..3 + rows, 8);
            assert_eq!(tiles.len(), tiles.clone().count());
            for tile in tiles {
                assert_eq!(tile.first, next);
                next += tile.rows;
            }
            assert_eq!(next, 3 + rows);
        }
    }
}
