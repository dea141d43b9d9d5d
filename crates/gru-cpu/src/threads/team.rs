//! Threads that split the hidden units of the same rows, with a barrier after every step.
//!
//! A fork and join per step is too slow, so the threads spin at a barrier. Rayon does not guarantee when a task
//! starts: a helper may join late, or after the work is done, and two calls that wait for each other's threads
//! would never end. So the leader does not wait for helpers that have not joined, except for at most a millisecond
//! at the start. Work is split into rounds, and each round is shared by the threads that have joined when it
//! starts. The leader can do all work without helpers. It does so for a while if a helper is late too often.

use super::{
    Rounds, offers,
    sync::{
        Instant,
        atomic::{AtomicBool, AtomicUsize, Ordering::*},
        spin_loop, yield_now,
    },
    with_helpers,
};
use crate::tuning::{SOLO, SPINS, WAITED_FROM, WAITED_SHARE};
use alloc::vec::Vec;
use core::{mem::forget, ops::Range, time::Duration};

/// One of the threads of a round.
pub(crate) struct Member<'a> {
    /// `None` if there is only this thread.
    shared: Option<&'a Shared>,
    /// Its index. The leader is 0.
    pub(crate) index: usize,
    /// The number of members that share this round.
    pub(crate) team: usize,
    /// Barriers so far, in all rounds.
    barriers: usize,
    /// Time waited at barriers, beyond spinning.
    waited: Duration,
}

/// A value with cache lines of its own.
#[repr(align(128))]
struct Aligned<T>(T);

struct Shared {
    /// Helpers that have joined.
    joined: Aligned<AtomicUsize>,
    /// The current round and the size of its team, in one word, so that no thread sees one without the other.
    round: Aligned<AtomicUsize>,
    /// Barriers before the current round.
    barriers: AtomicUsize,
    /// Barriers that each member has reached.
    reached: Vec<Aligned<AtomicUsize>>,
    /// A member has panicked, so no other member may wait for it.
    panicked: AtomicBool,
}

/// In `round`: the last round is over.
const DONE: usize = usize::MAX;

/// The bits of `round` that hold the size of the team.
const TEAM_BITS: u32 = 12;

/// The largest size of a team.
pub(crate) const LARGEST: usize = if cfg!(all(feature = "threads", not(target_family = "wasm"))) {
    TEAM_MASK
} else {
    1
};

const TEAM_MASK: usize = (1 << TEAM_BITS) - 1;

/// Runs `rounds` of work with up to `threads` threads: this one, and helpers from its pool. It waits for the first
/// helper for `helper_wait` at most, and the less for others, the more have joined.
pub(crate) fn run_team(threads: usize, rounds: usize, helper_wait: Duration, work: &impl Rounds) {
    if threads == 1 || rounds == 0 || !offers() {
        return run_solo(rounds, work);
    }
    let shared = Shared::new(threads);
    let lead = || {
        let start = Instant::now();
        let waits = |team: usize| team < threads && start.elapsed() < helper_wait / team as u32;
        while waits(1 + shared.joined.0.load(Relaxed)) {
            spin_loop();
        }
        shared.lead(rounds, work);
    };
    with_helpers(1..threads, |_| shared.help(work), lead);
}

/// Runs `rounds` of work on this thread. It does not allocate, lock, wait or read the clock.
pub(crate) fn run_solo(rounds: usize, work: &impl Rounds) {
    let mut member = Member::new(None, 0, 1);
    (0..rounds).for_each(|round| work.round(round, &mut member));
}

impl Shared {
    fn new(threads: usize) -> Self {
        let zero = || Aligned(AtomicUsize::new(0));
        Self {
            joined: zero(),
            round: zero(),
            barriers: AtomicUsize::new(0),
            reached: (0..threads).map(|_| zero()).collect(),
            panicked: AtomicBool::new(false),
        }
    }

    fn lead(&self, rounds: usize, work: &impl Rounds) {
        let guard = OnPanic(self);
        let mut leader = Member::new(Some(self), 0, 1);
        let mut team_since = Instant::now();
        let (mut solo_until, mut solo) = (None, SOLO);
        for round in 0..rounds {
            if let Some(until) = solo_until {
                let now = Instant::now();
                if now < until {
                    leader.team = 1;
                    work.round(round, &mut leader);
                    continue;
                }
                (solo_until, team_since, leader.waited) = (None, now, Duration::ZERO);
            }
            leader.team = 1 + self.joined.0.load(Acquire);
            self.barriers.store(leader.barriers, Relaxed);
            let word = (round + 1) << TEAM_BITS | leader.team;
            self.round.0.store(word, Release);
            work.round(round, &mut leader);
            // The next round starts after all members have finished this one.
            leader.wait();
            if leader.waited > WAITED_FROM {
                if leader.waited > team_since.elapsed() / WAITED_SHARE {
                    solo_until = Some(Instant::now() + solo);
                    solo *= 2;
                } else {
                    (team_since, leader.waited) = (Instant::now(), Duration::ZERO);
                }
            }
        }
        self.round.0.store(DONE, Release);
        forget(guard);
    }

    fn help(&self, work: &impl Rounds) {
        if self.round.0.load(Acquire) == DONE {
            return;
        }
        let index = 1 + self.joined.0.fetch_add(1, AcqRel);
        let guard = OnPanic(self);
        let mut seen = 0;
        loop {
            let mut waited = Duration::ZERO;
            let word = self.wait_until(&mut waited, || {
                let word = self.round.0.load(Acquire);
                (word != seen).then_some(word)
            });
            if word == DONE {
                return forget(guard);
            }
            seen = word;
            let (round, team) = (word >> TEAM_BITS, word & TEAM_MASK);
            // If the leader did not see this helper join, the round runs without it.
            if index < team {
                let mut member = Member::new(Some(self), index, team);
                member.barriers = self.barriers.load(Relaxed);
                work.round(round - 1, &mut member);
                member.wait();
            }
        }
    }

    /// Spins until there is a value. After [`SPINS`] it yields between the tries, and adds that time to `waited`.
    #[inline(always)]
    fn wait_until<T>(&self, waited: &mut Duration, ready: impl Fn() -> Option<T>) -> T {
        for _ in 0..SPINS {
            if let Some(value) = ready() {
                return value;
            }
            spin_loop();
        }
        let start = Instant::now();
        loop {
            if let Some(value) = ready() {
                *waited += start.elapsed();
                return value;
            }
            assert!(
                !self.panicked.load(Relaxed),
                "another thread of this GRU has panicked"
            );
            yield_now();
        }
    }
}

impl<'a> Member<'a> {
    fn new(shared: Option<&'a Shared>, index: usize, team: usize) -> Self {
        Self {
            shared,
            index,
            team,
            barriers: 0,
            waited: Duration::ZERO,
        }
    }

    /// A barrier: waits until every member has reached it. After it, all members see what any of them wrote before.
    #[inline(always)]
    pub(crate) fn wait(&mut self) {
        self.wait_for(&(0..self.team));
    }

    /// A barrier of some members. Between two barriers of all members, all of them wait at the same number of these.
    #[inline(always)]
    pub(crate) fn wait_for(&mut self, members: &Range<usize>) {
        self.barriers += 1;
        let (Some(shared), 2..) = (self.shared, self.team) else {
            return;
        };
        let barriers = self.barriers;
        shared.reached[self.index].0.store(barriers, Release);
        for other in members.clone().filter(|&k| k != self.index) {
            let reached = &shared.reached[other].0;
            shared.wait_until(&mut self.waited, || {
                (reached.load(Acquire) >= barriers).then_some(())
            });
        }
    }

    /// This member's share of `count` items.
    pub(crate) fn share(&self, count: usize) -> Range<usize> {
        self.share_of(self.team, count)
    }

    /// The same if only the first `acting` members have a share.
    pub(crate) fn share_of(&self, acting: usize, count: usize) -> Range<usize> {
        if acting == 1 {
            // Without the divisions, which take a part of the shortest steps.
            return if self.index == 0 {
                0..count
            } else {
                count..count
            };
        }
        let at = |k: usize| k.min(acting) * count / acting;
        at(self.index)..at(self.index + 1)
    }

    /// The members that wait for each other while the first `acting` members work. The others do not wait.
    pub(crate) fn peers(&self, acting: usize) -> Range<usize> {
        if self.index < acting {
            0..acting
        } else {
            self.index..self.index + 1
        }
    }
}

/// Reports a panic in the work of this thread to the other members. It is forgotten at the end of the work. (It
/// does not use `std::thread::panicking`: the thread may already be unwinding, if a destructor made the call.)
struct OnPanic<'a>(&'a Shared);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        self.0.panicked.store(true, Relaxed);
        self.0.round.0.store(DONE, Release);
    }
}

#[cfg(all(test, any(loom, shuttle)))]
mod model;

#[cfg(all(
    test,
    feature = "threads",
    not(any(target_family = "wasm", loom, shuttle))
))]
mod tests;
