//! The meetings of a team under a model checker: every order in which helpers come and stores are
//! seen, up to a number of times that a thread is interrupted.
//!
//!     RUSTFLAGS='--cfg loom' cargo test -p gru-cpu --lib model -- --nocapture

use super::*;
use loom::{cell::UnsafeCell, model::Builder, sync::Arc, thread};
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

/// Work that reads in each step what all members wrote in the step before: without a barrier
/// between them a cell would be read while it is written, which the checker does not let pass.
struct Steps {
    cells: [[UnsafeCell<usize>; 3]; 2],
    /// Who panics, in the second round.
    panics: Option<usize>,
    /// How many shared each round.
    teams: Mutex<Vec<usize>>,
}

impl Rounds for Steps {
    fn round(&self, round: usize, member: &mut Member<'_>) {
        assert!(
            !(round == 1 && self.panics == Some(member.index)),
            "by itself"
        );
        if member.index == 0 {
            self.teams
                .lock()
                .expect("no panic so far")
                .push(member.team);
        }
        for step in 0..2 {
            let [from, to] = [step % 2, 1 - step % 2].map(|k| &self.cells[k]);
            // SAFETY: nobody writes these cells in this step.
            let read = |cell: &UnsafeCell<usize>| cell.with(|cell| unsafe { *cell });
            let sum: usize = from.iter().map(read).sum();
            for cell in &to[member.share(to.len())] {
                // SAFETY: in this step this cell is this member's own.
                cell.with_mut(|cell| unsafe { *cell = sum + 1 });
            }
            if step == 0 {
                member.meet();
            }
        }
    }
}

// SAFETY: the cells are what the checker watches.
unsafe impl Sync for Steps {}

/// All orders of a leader and so many helpers in which threads are interrupted so often; how many
/// shared each round in them.
fn check(
    helpers: usize,
    rounds: usize,
    interrupted: usize,
    panics: Option<usize>,
) -> BTreeSet<Vec<usize>> {
    let seen = std::sync::Arc::new(Mutex::new((0, BTreeSet::new())));
    let so_far = seen.clone();
    let mut model = Builder::new();
    model.preemption_bound = Some(interrupted);
    model.max_branches = 10_000;
    model.check(move || {
        let cell = || UnsafeCell::new(0);
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
                thread::spawn(move || {
                    catch_unwind(AssertUnwindSafe(|| team.0.help(&team.1))).is_ok()
                })
            })
            .collect();
        let (shared, work) = &*team;
        let led = catch_unwind(AssertUnwindSafe(|| shared.lead(rounds, work))).is_ok();
        let joined = helpers.into_iter().map(|h| h.join().expect("it catches"));
        let helped = joined.fold(true, |all, one| all & one);
        match panics {
            None => {
                assert!(led && helped);
                let expected = (0..2 * rounds).fold(0, |cell, _| 3 * cell + 1);
                // SAFETY: all others have left.
                work.cells[0][0].with(|cell| assert_eq!(unsafe { *cell }, expected));
            }
            Some(0) => assert!(!led),
            // One that did not come in time does not panic.
            Some(_) => assert_eq!(led, helped),
        }
        let (orders, teams) = &mut *so_far.lock().expect("nobody else");
        *orders += 1;
        teams.insert(work.teams.lock().expect("nobody else").clone());
    });
    let (orders, teams) = seen.lock().expect("nobody else").clone();
    println!("{orders} orders; teams of the rounds {teams:?}");
    teams
}

#[test]
fn a_leader_and_a_helper() {
    let teams = check(1, 3, 3, None);
    // It never comes, comes at once, comes late; and is left alone for a round, being slow.
    for team in [[1, 1, 1], [2, 2, 2], [1, 1, 2], [2, 1, 2]] {
        assert!(teams.contains(&team[..]), "{team:?}");
    }
}

#[test]
fn a_leader_and_two_helpers() {
    let teams = check(2, 2, 1, None);
    for team in [[1, 1], [3, 3], [1, 3], [2, 3]] {
        assert!(teams.contains(&team[..]), "{team:?}");
    }
}

#[test]
fn a_leader_panics() {
    assert!(check(1, 2, 3, Some(0)).contains(&[2][..]));
}

#[test]
fn a_helper_panics() {
    assert!(check(1, 2, 3, Some(1)).contains(&[2, 2][..]));
}
