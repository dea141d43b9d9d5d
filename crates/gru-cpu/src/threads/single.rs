//! The pool and the team of a build with one thread. It does not read the clock, which panics on
//! `wasm32-unknown-unknown`.

use super::Rounds;
use std::{marker::PhantomData, ops::Range, time::Duration};

/// The largest number of threads of a team.
pub(super) const LARGEST: usize = 1;

/// The number of threads that a call may use.
pub(crate) fn available() -> usize {
    LARGEST
}

/// Runs `own`. There are no helpers.
pub(crate) fn with_helpers(helpers: Range<usize>, _: impl Fn(usize) + Sync, own: impl FnOnce()) {
    assert!(helpers.is_empty(), "no plan has helpers");
    own();
}

/// The one thread of a round.
pub(crate) struct Member<'a> {
    pub(crate) index: usize,
    pub(crate) team: usize,
    shared: PhantomData<&'a ()>,
}

/// Runs `rounds` of work.
pub(crate) fn run_team(threads: usize, rounds: usize, _: Duration, work: &impl Rounds) {
    assert_eq!(threads, LARGEST, "no plan has helpers");
    run_solo(rounds, work);
}

/// Runs `rounds` of work.
pub(crate) fn run_solo(rounds: usize, work: &impl Rounds) {
    let mut member = Member {
        index: 0,
        team: LARGEST,
        shared: PhantomData,
    };
    (0..rounds).for_each(|round| work.round(round, &mut member));
}

impl Member<'_> {
    /// Returns at once.
    #[inline(always)]
    pub(crate) fn wait(&mut self) {}

    /// Returns at once.
    #[inline(always)]
    pub(crate) fn wait_for(&mut self, _: &Range<usize>) {}

    /// All of `count` items.
    pub(crate) fn share(&self, count: usize) -> Range<usize> {
        0..count
    }
}
