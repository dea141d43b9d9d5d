//! Rows of different lengths: the rows that are live at a step, and their places in memory.
//!
//! The passes run over *slots*, rows in another order. The slots of a group are sorted by length, longest first, so
//! the live rows of a step are the first slots. A round numbers its rows step by step, and each step has its live
//! rows only. So every loop of the dense passes remains: its number of rows shrinks from step to step. What is past
//! the end of a row is never addressed.
//!
//! Sequences are read and written in place. Only the tensors `[N,H]` are copied into the order of the slots.

use crate::{
    call::{Inputs, Sequence},
    spec::{Direction, Layout, Lengths, Order, Sizes},
    tuning::{ROW_GRANULE, UNEVEN_SHARE},
};
use alloc::vec::Vec;
use core::{cmp::Reverse, iter::repeat_n, ops::Range};

/// The rows of a call, in slots.
#[derive(Debug)]
pub(crate) struct Ragged {
    /// The row of the batch of each slot.
    rows: Vec<usize>,
    /// The row of memory of each slot's first step in the direction of time.
    first: Vec<usize>,
    /// Rows of memory from one step to the next. It wraps around for the reverse direction.
    per_step: usize,
    /// Rows of memory.
    places: usize,
    groups: Vec<LiveRows>,
}

/// The slots of a group of rows that are computed together.
#[derive(Debug)]
pub(crate) struct LiveRows {
    pub(crate) slots: Range<usize>,
    /// For each step, and for the end: the live rows of all steps before it.
    before: Vec<usize>,
    /// The step of each live row, numbered step by step.
    steps: Vec<usize>,
}

impl Ragged {
    /// Deals the rows to at most `groups` groups. The lengths were checked.
    pub(crate) fn new(sizes: &Sizes, order: Order, lengths: &Lengths, groups: usize) -> Self {
        let of_rows = lengths.of_rows().expect("rows of different lengths");
        let mut next = 0;
        let begin = |n: usize| match (lengths, order.layout) {
            (Lengths::Packed(_), _) => {
                next += of_rows[n];
                next - of_rows[n]
            }
            (_, Layout::BatchMajor) => n * sizes.t,
            (_, Layout::TimeMajor) => n,
        };
        let begin: Vec<usize> = (0..sizes.n).map(begin).collect();
        let per_time = match (lengths, order.layout) {
            (Lengths::Padded(_), Layout::TimeMajor) => sizes.n,
            _ => 1,
        };
        let (mut rows, mut all) = (Vec::with_capacity(sizes.n), Vec::with_capacity(groups));
        for group in deal(of_rows, groups) {
            let slots = rows.len()..rows.len() + group.len();
            all.push(LiveRows::new(slots, group.iter().map(|&n| of_rows[n])));
            rows.extend(group);
        }
        let (first, per_step) = match order.direction {
            Direction::Forward => (rows.iter().map(|&n| begin[n]).collect(), per_time),
            Direction::Reverse => {
                let last = |&n: &usize| begin[n] + of_rows[n].saturating_sub(1) * per_time;
                (rows.iter().map(last).collect(), per_time.wrapping_neg())
            }
        };
        Self {
            rows,
            first,
            per_step,
            places: lengths.in_memory(*sizes).places(),
            groups: all,
        }
    }

    /// The groups, of which there are one or more.
    pub(crate) fn groups(&self) -> &[LiveRows] {
        &self.groups
    }

    /// The row of memory of a slot at step `s`, which is live there.
    #[inline(always)]
    pub(crate) fn place(&self, slot: usize, s: usize) -> usize {
        self.first[slot].wrapping_add(self.offset(s))
    }

    /// Rows of memory from the first step to step `s`, in every slot. It wraps around.
    #[inline(always)]
    pub(crate) fn offset(&self, s: usize) -> usize {
        s.wrapping_mul(self.per_step)
    }

    /// The row of memory of the first step of some slots.
    #[inline(always)]
    pub(crate) fn first(&self, slots: Range<usize>) -> &[usize] {
        &self.first[slots]
    }

    /// Rows of memory.
    #[inline(always)]
    pub(crate) fn places(&self) -> usize {
        self.places
    }

    /// Rows of `h` elements in the order of the slots.
    pub(crate) fn sorted<E: Copy>(&self, rows: &[E], h: usize) -> Vec<E> {
        let of_slot = |&n: &usize| &rows[n * h..][..h];
        self.rows.iter().flat_map(of_slot).copied().collect()
    }

    /// The inverse of [`sorted`](Self::sorted).
    pub(crate) fn unsorted<E: Copy>(&self, sorted: &[E], rows: &mut [E], h: usize) {
        for (slot, &n) in self.rows.iter().enumerate() {
            rows[n * h..][..h].copy_from_slice(&sorted[slot * h..][..h]);
        }
    }
}

/// The rows of each group, sorted by length. Blocks of [`ROW_GRANULE`] rows are dealt, the longest first, each to the
/// group that has the fewest steps. If one group would still have many more steps than the others, there are fewer
/// groups, with more threads each.
///
/// A row is in a tile of the same size for every number of groups, because its block decides it. So its sums do not
/// depend on the number of threads.
fn deal(lengths: &[usize], groups: usize) -> Vec<Vec<usize>> {
    let mut sorted: Vec<usize> = (0..lengths.len()).collect();
    sorted.sort_by_key(|&n| Reverse(lengths[n]));
    let mut count = groups;
    loop {
        let mut dealt = vec![(0, Vec::new()); count];
        for block in sorted.chunks(ROW_GRANULE) {
            let fewest = dealt.iter_mut().min_by_key(|(steps, _)| *steps);
            let (steps, rows) = fewest.expect("there is a group");
            *steps += lengths[block[0]];
            rows.extend(block);
        }
        let most = dealt.iter().map(|(steps, _)| steps).max();
        let all: usize = dealt.iter().map(|(steps, _)| steps).sum();
        if count == 1 || most.is_some_and(|most| most * count <= all + all / UNEVEN_SHARE) {
            return dealt.into_iter().map(|(_, rows)| rows).collect();
        }
        count /= 2;
    }
}

impl LiveRows {
    fn new(slots: Range<usize>, lengths: impl Iterator<Item = usize>) -> Self {
        let lengths: Vec<usize> = lengths.collect();
        let longest = lengths.first().copied().unwrap_or(0);
        let mut before = Vec::with_capacity(longest + 1);
        let (mut sum, mut live) = (0, lengths.len());
        for s in 0..longest {
            before.push(sum);
            while lengths[live - 1] <= s {
                live -= 1;
            }
            sum += live;
        }
        before.push(sum);
        let of_step = |s: usize| repeat_n(s, before[s + 1] - before[s]);
        Self {
            slots,
            steps: (0..longest).flat_map(of_step).collect(),
            before,
        }
    }

    /// The number of live rows at step `s`: the first slots.
    #[inline(always)]
    pub(crate) fn live(&self, s: usize) -> usize {
        self.rows(&(s..s + 1))
    }

    /// The live rows of some steps.
    #[inline(always)]
    pub(crate) fn rows(&self, steps: &Range<usize>) -> usize {
        self.before[steps.end] - self.before[steps.start]
    }

    /// The slot, counted from the group's first, and the step of a row of the round that starts at step `first`.
    #[inline(always)]
    pub(crate) fn place(&self, first: usize, row: usize) -> (usize, usize) {
        let row = self.before[first] + row;
        let s = self.steps[row];
        (row - self.before[s], s)
    }

    /// Rounds of consecutive steps with at most `most` rows, which is enough for one step. A last single row has its
    /// own rounds.
    pub(crate) fn rounds(&self, most: usize) -> Vec<Range<usize>> {
        let (mut rounds, mut start) = (Vec::new(), 0);
        let longest = self.before.len() - 1;
        for s in 1..=longest {
            let is_full = s < longest && self.rows(&(start..s + 1)) > most;
            let is_last = s < longest && self.live(s) == 1 && self.live(s - 1) > 1;
            if is_full || is_last || s == longest {
                rounds.push(start..s);
                start = s;
            }
        }
        rounds
    }
}

/// The tensors `[N,H]` of a sequence.
fn of_rows<'s, 'a, E>(sequence: &'s mut Sequence<'a, E>) -> [&'s mut Option<&'a [E]>; 3] {
    // Without `..`, so that the compiler names a new tensor.
    let Sequence {
        x: _,
        h0,
        recurrent_mask,
        step_mask: _,
        zoneout: _,
        starts: _,
        start_state,
    } = sequence;
    [h0, recurrent_mask, start_state]
}

/// The tensors `[N,H]` of a call in the order of the slots.
pub(crate) struct Sorted<E>([Option<Vec<E>>; 3]);

impl<E: Copy> Sorted<E> {
    pub(crate) fn new(ragged: &Ragged, inputs: &Inputs<'_, E>, h: usize) -> Self {
        let mut sequence = inputs.sequence;
        Self(of_rows(&mut sequence).map(|rows| rows.map(|rows| ragged.sorted(rows, h))))
    }

    /// The inputs with these tensors.
    pub(crate) fn inputs<'a>(&'a self, of: &Inputs<'a, E>) -> Inputs<'a, E> {
        let mut inputs = *of;
        for (rows, sorted) in of_rows(&mut inputs.sequence).into_iter().zip(&self.0) {
            *rows = sorted.as_deref();
        }
        inputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_row_is_shared_by_all_threads() {
        let mut lengths = vec![1; 32];
        lengths[5] = 90;
        assert_eq!(deal(&lengths, 4).len(), 1);
        assert_eq!(deal(&[3; 32], 4).len(), 4);
        assert_eq!(deal(&[0; 8], 2).len(), 2);
    }

    #[test]
    fn the_last_row_has_its_own_rounds() {
        let (n, t, i, h) = (3, 9, 1, 1);
        let lengths = Lengths::Padded([2, 9, 4].into());
        let ragged = Ragged::new(&Sizes { n, t, i, h }, Order::default(), &lengths, 1);
        let group = &ragged.groups()[0];
        assert_eq!(group.rounds(100), [0..4, 4..9]);
        assert_eq!(group.rounds(4), [0..1, 1..2, 2..4, 4..8, 8..9]);
    }
}
