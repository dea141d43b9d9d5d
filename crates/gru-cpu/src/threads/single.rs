//! What stands for a pool and a team where there is one thread: nobody is asked, waited for or
//! timed. (Asking for the time panics on `wasm32-unknown-unknown`.)

use super::Rounds;
use std::{marker::PhantomData, ops::Range, time::Duration};

/// Threads of a team.
pub(super) const LARGEST: usize = 1;

/// The threads a call may use.
pub(crate) fn allowed() -> usize {
    LARGEST
}

/// Does `own`; there is nobody to help.
pub(crate) fn beside(helpers: Range<usize>, _: impl Fn(usize) + Sync, own: impl FnOnce()) {
    assert!(helpers.is_empty(), "no plan has helpers");
    own();
}

/// The one thread of a round.
pub(crate) struct Member<'a> {
    pub(crate) index: usize,
    pub(crate) team: usize,
    shared: PhantomData<&'a ()>,
}

/// Does `rounds` of work.
pub(crate) fn together(threads: usize, rounds: usize, _: Duration, work: &impl Rounds) {
    assert_eq!(threads, LARGEST, "no plan has helpers");
    alone(rounds, work);
}

/// Does `rounds` of work.
pub(crate) fn alone(rounds: usize, work: &impl Rounds) {
    let mut member = Member {
        index: 0,
        team: LARGEST,
        shared: PhantomData,
    };
    (0..rounds).for_each(|round| work.round(round, &mut member));
}

impl Member<'_> {
    /// All are here.
    #[inline(always)]
    pub(crate) fn meet(&mut self) {}

    /// All of some are here.
    #[inline(always)]
    pub(crate) fn meet_some(&mut self, _: &Range<usize>) {}

    /// All of `count` things.
    pub(crate) fn share(&self, count: usize) -> Range<usize> {
        0..count
    }
}
