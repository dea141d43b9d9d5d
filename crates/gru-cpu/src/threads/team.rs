//! Threads that split the hidden units of the same rows and meet after every step.
//!
//! A fork and join per step is too slow, so the threads meet at a barrier they spin on. A pool
//! owes nobody its threads at once: a helper may come late, or not before the work is done, and
//! two calls that each wait for the other's thread would wait for ever. So nobody is waited for
//! before having come, but for a few microseconds at first: work is cut into rounds, and each round
//! is shared by those who are there when it begins. Alone, the leader does everything; and it goes on alone for a while when a
//! partner is away too often.

use super::{
    Rounds, beside,
    sync::{
        Instant,
        atomic::{AtomicBool, AtomicUsize, Ordering::*},
        spin_loop, yield_now,
    },
};
use crate::tuning::{ALONE, LOST_FROM, LOST_PART, SPINS};
use std::{mem::forget, ops::Range, time::Duration};

/// One of the threads of a round.
pub(crate) struct Member<'a> {
    shared: &'a Shared,
    /// Which one, the leader being 0.
    pub(crate) index: usize,
    /// How many share this round.
    pub(crate) team: usize,
    /// Meetings so far, of all rounds.
    met: usize,
    /// Time lost at meetings, beyond spinning.
    lost: Duration,
}

#[repr(align(128))]
struct Apart<T>(T);

struct Shared {
    /// Helpers that have come.
    came: Apart<AtomicUsize>,
    /// Which round has begun, and how many share it: one word, so that nobody sees one without
    /// the other.
    begun: Apart<AtomicUsize>,
    /// Meetings before the round that has begun.
    met: AtomicUsize,
    /// Meetings that each member has come to.
    at: Vec<Apart<AtomicUsize>>,
    /// A member has panicked: nobody may wait for it.
    broken: AtomicBool,
}

/// In `begun`: there is no other round to come.
const OVER: usize = usize::MAX;

/// Bits of `begun` that count the team.
const TEAM_BITS: u32 = 12;

/// More threads than these bits can count do not share one row's units anyway.
pub(crate) const LARGEST: usize = (1 << TEAM_BITS) - 1;

/// Does `rounds` of work with up to `threads` threads, this one and others of its pool, for which it
/// waits no longer than `patience`.
pub(crate) fn together(threads: usize, rounds: usize, patience: Duration, work: &impl Rounds) {
    if threads == 1 {
        return alone(rounds, work);
    }
    let shared = Shared::new(threads);
    let lead = || {
        let start = Instant::now();
        while shared.came.0.load(Relaxed) + 1 < threads && start.elapsed() < patience {
            spin_loop();
        }
        shared.lead(rounds, work);
    };
    beside(1..threads, |_| shared.help(work), lead);
}

/// Does `rounds` of work with this thread: nothing is allocated, locked or waited for.
pub(crate) fn alone(rounds: usize, work: &impl Rounds) {
    Shared::new(0).lead(rounds, work);
}

impl Shared {
    fn new(threads: usize) -> Self {
        let zero = || Apart(AtomicUsize::new(0));
        Self {
            came: zero(),
            begun: zero(),
            met: AtomicUsize::new(0),
            at: (0..threads).map(|_| zero()).collect(),
            broken: AtomicBool::new(false),
        }
    }

    fn lead(&self, rounds: usize, work: &impl Rounds) {
        let guard = Broken(self);
        let mut leader = Member {
            shared: self,
            index: 0,
            team: 1,
            met: 0,
            lost: Duration::ZERO,
        };
        let mut together_since = Instant::now();
        let (mut alone_until, mut alone) = (None, ALONE);
        for round in 0..rounds {
            if let Some(until) = alone_until {
                let now = Instant::now();
                if now < until {
                    leader.team = 1;
                    work.round(round, &mut leader);
                    continue;
                }
                (alone_until, together_since, leader.lost) = (None, now, Duration::ZERO);
            }
            leader.team = 1 + self.came.0.load(Acquire);
            self.met.store(leader.met, Relaxed);
            let begun = (round + 1) << TEAM_BITS | leader.team;
            self.begun.0.store(begun, Release);
            work.round(round, &mut leader);
            // Until all are done nothing may be said of the next round.
            leader.meet();
            if leader.lost > LOST_FROM && leader.lost > together_since.elapsed() / LOST_PART {
                alone_until = Some(Instant::now() + alone);
                alone *= 2;
            }
        }
        self.begun.0.store(OVER, Release);
        forget(guard);
    }

    fn help(&self, work: &impl Rounds) {
        if self.begun.0.load(Acquire) == OVER {
            return;
        }
        let index = 1 + self.came.0.fetch_add(1, AcqRel);
        let guard = Broken(self);
        let mut seen = 0;
        loop {
            let mut lost = Duration::ZERO;
            let begun = self.wait(&mut lost, || {
                let begun = self.begun.0.load(Acquire);
                (begun != seen).then_some(begun)
            });
            if begun == OVER {
                return forget(guard);
            }
            seen = begun;
            let (round, team) = (begun >> TEAM_BITS, begun & LARGEST);
            // A round whose leader did not see this helper come goes on without it.
            if index < team {
                let mut member = Member {
                    shared: self,
                    index,
                    team,
                    met: self.met.load(Relaxed),
                    lost: Duration::ZERO,
                };
                work.round(round - 1, &mut member);
                member.meet();
            }
        }
    }

    /// Spins until there is a value, then yields between the tries, and counts that time.
    #[inline(always)]
    fn wait<T>(&self, lost: &mut Duration, ready: impl Fn() -> Option<T>) -> T {
        for _ in 0..SPINS {
            if let Some(value) = ready() {
                return value;
            }
            spin_loop();
        }
        let start = Instant::now();
        loop {
            if let Some(value) = ready() {
                *lost += start.elapsed();
                return value;
            }
            assert!(
                !self.broken.load(Relaxed),
                "another thread of this GRU has panicked"
            );
            yield_now();
        }
    }
}

impl Member<'_> {
    /// Waits until every member has come here. What any of them wrote before is seen by all after.
    #[inline(always)]
    pub(crate) fn meet(&mut self) {
        self.meet_some(&(0..self.team));
    }

    /// The same for some of them, who meet nobody else in between that these do not meet too.
    #[inline(always)]
    pub(crate) fn meet_some(&mut self, members: &Range<usize>) {
        self.met += 1;
        let (shared, met) = (self.shared, self.met);
        if self.team == 1 {
            return;
        }
        shared.at[self.index].0.store(met, Release);
        for other in members.clone().filter(|&k| k != self.index) {
            let at = &shared.at[other].0;
            shared.wait(&mut self.lost, || (at.load(Acquire) >= met).then_some(()));
        }
    }

    /// This member's share of `count` things.
    pub(crate) fn share(&self, count: usize) -> Range<usize> {
        let at = |k: usize| k * count / self.team;
        at(self.index)..at(self.index + 1)
    }
}

/// Tells the others that a panic has left the work of this thread. Forgotten at the end of the work: the
/// thread itself may be unwinding all the while, if the call was made by a destructor.
struct Broken<'a>(&'a Shared);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        self.0.broken.store(true, Relaxed);
        self.0.begun.0.store(OVER, Release);
    }
}

#[cfg(all(test, any(loom, shuttle)))]
mod model;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
