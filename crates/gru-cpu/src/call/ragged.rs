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
    tuning::ROW_GRANULE,
};
use std::ops::Range;

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
    /// Deals the rows to `groups` groups. The lengths were checked.
    pub(crate) fn new(sizes: &Sizes, order: Order, lengths: &Lengths, groups: usize) -> Self {
        let of_rows = lengths.of_rows().expect("rows of different lengths");
        let per_time = match (lengths, order.layout) {
            (Lengths::Padded(_), Layout::TimeMajor) => sizes.n,
            _ => 1,
        };
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
        let mut sorted: Vec<usize> = (0..sizes.n).collect();
        sorted.sort_by_key(|&n| std::cmp::Reverse(of_rows[n]));
        let (mut rows, mut all) = (Vec::with_capacity(sizes.n), Vec::with_capacity(groups));
        for group in 0..groups {
            let start = rows.len();
            rows.extend(deal(&sorted, groups, group));
            let slots = start..rows.len();
            all.push(LiveRows::new(&rows, slots, of_rows));
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
            places: lengths.in_memory(*sizes).rows(),
            groups: all,
        }
    }

    pub(crate) fn group(&self, group: usize) -> &LiveRows {
        &self.groups[group]
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

/// The rows of a group, sorted by length. Blocks of [`ROW_GRANULE`] rows are dealt back and forth, so that all groups
/// have about the same number of steps. A row is in a tile of the same size for every number of groups: its block
/// decides it.
fn deal(sorted: &[usize], groups: usize, group: usize) -> impl Iterator<Item = usize> {
    let blocks = sorted.chunks(ROW_GRANULE).enumerate();
    let own = blocks.filter(move |(block, _)| {
        let at = block % (2 * groups);
        at == group || at == 2 * groups - 1 - group
    });
    own.flat_map(|(_, block)| block.iter().copied())
}

impl LiveRows {
    fn new(rows: &[usize], slots: Range<usize>, lengths: &[usize]) -> Self {
        let of_slots: Vec<usize> = rows[slots.clone()].iter().map(|&n| lengths[n]).collect();
        let longest = of_slots.first().copied().unwrap_or(0);
        let mut before = Vec::with_capacity(longest + 1);
        let (mut sum, mut live) = (0, of_slots.len());
        for s in 0..longest {
            before.push(sum);
            while of_slots[live - 1] <= s {
                live -= 1;
            }
            sum += live;
        }
        before.push(sum);
        let live = |s: usize| before[s + 1] - before[s];
        let steps = (0..longest).flat_map(|s| std::iter::repeat_n(s, live(s)));
        let steps = steps.collect();
        Self {
            slots,
            before,
            steps,
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

/// The tensors `[N,H]` of a call in the order of the slots.
pub(crate) struct Sorted<E> {
    h0: Option<Vec<E>>,
    recurrent_mask: Option<Vec<E>>,
    start_state: Option<Vec<E>>,
}

impl<E: Copy> Sorted<E> {
    pub(crate) fn new(ragged: &Ragged, inputs: &Inputs<'_, E>, h: usize) -> Self {
        let sorted = |rows: Option<&[E]>| rows.map(|rows| ragged.sorted(rows, h));
        Self {
            h0: sorted(inputs.sequence.h0),
            recurrent_mask: sorted(inputs.sequence.recurrent_mask),
            start_state: sorted(inputs.sequence.start_state),
        }
    }

    /// The inputs with these tensors.
    pub(crate) fn inputs<'a>(&'a self, of: &Inputs<'a, E>) -> Inputs<'a, E> {
        Inputs {
            sequence: Sequence {
                h0: self.h0.as_deref(),
                recurrent_mask: self.recurrent_mask.as_deref(),
                start_state: self.start_state.as_deref(),
                ..of.sequence
            },
            ..*of
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ragged(lengths: &[usize], groups: usize) -> Ragged {
        let (n, t) = (lengths.len(), 9);
        let sizes = Sizes { n, t, i: 1, h: 1 };
        let lengths = Lengths::Padded(lengths.into());
        Ragged::new(&sizes, Order::default(), &lengths, groups)
    }

    #[test]
    fn every_valid_step_once_for_any_number_of_groups() {
        let lengths: Vec<usize> = (0..23).map(|n| n * 7 % 10).collect();
        for groups in 1..=5 {
            let ragged = ragged(&lengths, groups);
            let mut count = vec![0; lengths.len() * 9];
            for group in (0..groups).map(|group| ragged.group(group)) {
                for most in [1, 8, 30, 1000].map(|most| most.max(group.slots.len())) {
                    let (mut next, mut last) = (0, usize::MAX);
                    for steps in group.rounds(most) {
                        assert_eq!(steps.start, next);
                        assert!(!steps.is_empty() && group.rows(&steps) <= most);
                        next = steps.end;
                        for row in 0..group.rows(&steps) {
                            let (slot, s) = group.place(steps.start, row);
                            assert!(steps.contains(&s) && slot < group.live(s));
                            count[ragged.place(group.slots.start + slot, s)] += 1;
                        }
                        assert!(group.live(steps.start) <= last);
                        last = group.live(steps.start);
                    }
                    assert_eq!(next, group.before.len() - 1);
                }
            }
            for (n, &len) in lengths.iter().enumerate() {
                let (valid, padding) = count[n * 9..][..9].split_at(len);
                assert!(valid.iter().all(|&count| count == 4), "{groups} {n}");
                assert!(padding.iter().all(|&count| count == 0), "{groups} {n}");
            }
        }
    }

    #[test]
    fn a_row_has_the_same_block_in_any_number_of_groups() {
        let lengths: Vec<usize> = (0..23).map(|n| n * 7 % 10).collect();
        let blocks = |groups: usize| {
            let ragged = ragged(&lengths, groups);
            let of_group = |group: usize| {
                let slots = ragged.group(group).slots.clone();
                let blocks = ragged.rows[slots].chunks(ROW_GRANULE);
                blocks.map(<[usize]>::to_vec).collect::<Vec<_>>()
            };
            let mut blocks: Vec<_> = (0..groups).flat_map(of_group).collect();
            blocks.sort();
            blocks
        };
        for groups in 2..=5 {
            assert_eq!(blocks(groups), blocks(1), "{groups}");
        }
    }

    #[test]
    fn sorting_rows_and_back() {
        let ragged = ragged(&[3, 0, 9, 9, 1], 1);
        let rows: Vec<usize> = (0..10).collect();
        let sorted = ragged.sorted(&rows, 2);
        assert_eq!(sorted, [4, 5, 6, 7, 0, 1, 8, 9, 2, 3]);
        let mut back = vec![0; 10];
        ragged.unsorted(&sorted, &mut back, 2);
        assert_eq!(back, rows);
    }
}
