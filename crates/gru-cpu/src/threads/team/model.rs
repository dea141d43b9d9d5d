//! The barriers of a team under a model checker. Loom tries every order in which two threads run and see each
//! other's stores, up to a number of interruptions. It does not model fairness, so it cannot run three threads
//! that wait. Shuttle draws random orders of more threads.
//!
//!     RUSTFLAGS='--cfg loom' cargo test -p gru-cpu --lib model -- --nocapture
//!     RUSTFLAGS='--cfg shuttle' cargo test -p gru-cpu --lib model -- --nocapture

use super::*;
#[cfg(loom)]
use loom::{cell::UnsafeCell, sync::Arc, thread};
#[cfg(shuttle)]
use shuttle::{sync::Arc, thread};
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

/// Plain memory for loom, which reports a thread that writes while another one reads.
struct Cell(#[cfg(loom)] UnsafeCell<usize>, #[cfg(shuttle)] AtomicUsize);

#[cfg(loom)]
impl Cell {
    fn get(&self) -> usize {
        // SAFETY: loom checks that no thread writes it.
        self.0.with(|value| unsafe { *value })
    }

    fn set(&self, to: usize) {
        // SAFETY: loom checks that no other thread uses it.
        self.0.with_mut(|value| unsafe { *value = to });
    }
}

#[cfg(shuttle)]
impl Cell {
    fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn set(&self, to: usize) {
        self.0.store(to, Relaxed);
    }
}

/// Work that reads in each step what all members wrote in the previous step.
struct Steps {
    cells: [[Cell; 3]; 2],
    /// The member that panics in the second round.
    panics: Option<usize>,
    /// The size of the team in each round.
    teams: Mutex<Vec<usize>>,
}

// SAFETY: loom checks the use of the cells.
#[cfg(loom)]
unsafe impl Sync for Steps {}

impl Rounds for Steps {
    fn round(&self, round: usize, member: &mut Member<'_>) {
        let panics = round == 1 && self.panics == Some(member.index);
        assert!(!panics, "by itself");
        if member.index == 0 {
            let mut teams = self.teams.lock().expect("no panic so far");
            teams.push(member.team);
        }
        for step in 0..2 {
            let [from, to] = [step % 2, 1 - step % 2].map(|k| &self.cells[k]);
            let sum: usize = from.iter().map(Cell::get).sum();
            for cell in &to[member.share(to.len())] {
                cell.set(sum + 1);
            }
            if step == 0 {
                member.wait();
            }
        }
    }
}

/// Tries many orders of a leader and so many helpers. Returns the sizes of their teams, round by round.
fn check(helpers: usize, rounds: usize, panics: Option<usize>) -> BTreeSet<Vec<usize>> {
    let seen = std::sync::Arc::new(Mutex::new((0, BTreeSet::new())));
    let so_far = seen.clone();
    explore(move || {
        let cells = || [cell(), cell(), cell()];
        let work = Steps {
            cells: [cells(), cells()],
            panics,
            teams: Mutex::new(Vec::new()),
        };
        let team = Arc::new((Shared::new(1 + helpers), work));
        let helpers: Vec<_> = (0..helpers)
            .map(|_| {
                let team = team.clone();
                let help = move || team.0.help(&team.1);
                thread::spawn(move || catch_unwind(AssertUnwindSafe(help)).is_ok())
            })
            .collect();
        let (shared, work) = &*team;
        let led = catch_unwind(AssertUnwindSafe(|| shared.lead(rounds, work))).is_ok();
        let joined = helpers
            .into_iter()
            .map(|h| h.join().expect("the helper catches panics"));
        let helped = joined.fold(true, |all, one| all & one);
        match panics {
            None => {
                assert!(led && helped);
                let expected = (0..2 * rounds).fold(0, |cell, _| 3 * cell + 1);
                assert_eq!(work.cells[0][0].get(), expected);
            }
            Some(0) => assert!(!led),
            // A helper that did not join in time does not panic.
            Some(_) => assert_eq!(led, helped),
        }
        let (orders, teams) = &mut *so_far.lock().expect("no other user");
        *orders += 1;
        teams.insert(work.teams.lock().expect("no other user").clone());
    });
    let (orders, teams) = seen.lock().expect("no other user").clone();
    println!("{orders} orders; teams of the rounds {teams:?}");
    teams
}

#[cfg(loom)]
fn cell() -> Cell {
    Cell(UnsafeCell::new(0))
}

#[cfg(shuttle)]
fn cell() -> Cell {
    Cell(AtomicUsize::new(0))
}

#[cfg(loom)]
fn explore(run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 10_000;
    model.check(run);
}

#[cfg(shuttle)]
fn explore(run: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(run, 100_000);
}

#[cfg(loom)]
#[test]
fn a_leader_and_a_helper() {
    let teams = check(1, 3, None);
    // It never joins, joins at once, joins late, and is left out of a round because it is slow.
    for team in [[1, 1, 1], [2, 2, 2], [1, 1, 2], [2, 1, 2]] {
        assert!(teams.contains(&team[..]), "{team:?}");
    }
}

#[cfg(shuttle)]
#[test]
fn a_leader_and_two_helpers() {
    let teams = check(2, 4, None);
    // Both join at once, one joins late, and both are left out of a round.
    for team in [[3, 3, 3, 3], [2, 3, 3, 3], [3, 1, 3, 3]] {
        assert!(teams.contains(&team[..]), "{team:?}");
    }
}

#[cfg(loom)]
#[test]
fn a_leader_panics() {
    assert!(check(1, 2, Some(0)).contains(&[2][..]));
}

#[cfg(loom)]
#[test]
fn a_helper_panics() {
    assert!(check(1, 2, Some(1)).contains(&[2, 2][..]));
}
