use super::*;
use std::{
    sync::{
        Mutex,
        mpsc::{Sender, channel},
    },
    thread::sleep,
};

/// In each round every cell becomes the sum of all cells of the previous round, plus one. Members write their
/// share of the cells, and read all of them.
struct Sums<F> {
    cells: [Vec<AtomicUsize>; 2],
    /// What a member does in addition, before its share of a round.
    before: F,
}

impl<F: Fn(usize, &Member<'_>) + Sync> Rounds for Sums<F> {
    fn round(&self, round: usize, member: &mut Member<'_>) {
        (self.before)(round, member);
        let [from, to] = [round % 2, 1 - round % 2].map(|k| &self.cells[k]);
        let sum: usize = from.iter().map(|cell| cell.load(Relaxed)).sum();
        for k in member.share(to.len()) {
            to[k].store(sum % 1000 + 1, Relaxed);
        }
        member.wait();
        // No member has started the next round.
        assert!(to.iter().all(|cell| cell.load(Relaxed) == sum % 1000 + 1));
    }
}

fn check(threads: usize, rounds: usize, before: impl Fn(usize, &Member<'_>) + Sync) {
    let zeros = || (0..7).map(|_| AtomicUsize::new(0)).collect();
    let work = Sums {
        cells: [zeros(), zeros()],
        before,
    };
    run_team(threads, rounds, Duration::from_micros(40), &work);
    let expected = (0..rounds).fold(0, |cell, _| cell * 7 % 1000 + 1);
    assert_eq!(work.cells[rounds % 2][3].load(Relaxed), expected);
}

/// Runs `f` in a pool of two threads. The other thread is busy until it gets a message.
fn with_a_busy_thread(f: impl FnOnce(Sender<()>) + Send) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    pool.expect("a pool").install(|| {
        let ((busy, is_busy), (done, is_done)) = (channel(), channel());
        rayon::spawn(move || {
            busy.send(()).expect("the receiver waits");
            is_done.recv().expect("a message before the end");
        });
        is_busy.recv().expect("the other thread starts");
        f(done);
    });
}

#[test]
fn every_round_is_complete_with_any_helpers() {
    let rounds = if cfg!(miri) { 20 } else { 5000 };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    pool.expect("a pool").install(|| {
        for threads in [1, 2, 3] {
            check(threads, rounds, |_, _| ());
        }
    });
}

#[test]
fn the_leader_does_not_wait_for_a_helper_that_never_joins() {
    with_a_busy_thread(|done| {
        check(2, 50, |_, member| assert_eq!(member.team, 1));
        let none = Sums {
            cells: [Vec::new(), Vec::new()],
            before: |_, _: &Member<'_>| (),
        };
        run_team(2, 0, Duration::from_secs(3600), &none);
        done.send(()).expect("the other thread is still busy");
    });
}

#[test]
fn a_helper_that_joins_late_shares_the_rest() {
    const JOINS: usize = 20;
    with_a_busy_thread(|done| {
        let done = Mutex::new(done);
        check(2, 50, |round, member| match round {
            ..JOINS => assert_eq!(member.team, 1),
            JOINS => {
                let done = done.lock().expect("only the leader uses it");
                done.send(()).expect("the other thread is still busy");
                while member.shared.unwrap().joined.0.load(Acquire) == 0 {
                    sleep(Duration::from_micros(10));
                }
            }
            _ if round == JOINS + 1 => assert_eq!(member.team, 2),
            _ => {}
        });
    });
}

/// The helper is late from a round on. The rounds before take a second.
fn the_leader_works_without_a_helper_that_is_late_from(late_from: usize, rounds: usize) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    pool.expect("a pool").install(|| {
        let solo = AtomicUsize::new(0);
        check(2, rounds, |round, member| {
            match (member.index, member.team) {
                (_, 1) if round == 0 => {
                    while member.shared.unwrap().joined.0.load(Acquire) == 0 {
                        sleep(Duration::from_micros(10));
                    }
                }
                _ if round < late_from => sleep(Duration::from_secs(1) / late_from as u32),
                // Longer than the wait from which a team is judged.
                (1, _) => sleep(2 * WAITED_FROM),
                (_, team) => {
                    solo.fetch_add(usize::from(team == 1), Relaxed);
                    sleep(Duration::from_micros(100));
                }
            }
        });
        assert!(solo.into_inner() > 0, "the leader waits in every round");
    });
}

#[test]
fn the_leader_works_without_a_helper_that_is_often_late() {
    the_leader_works_without_a_helper_that_is_late_from(1, 100);
}

#[test]
fn the_leader_works_without_a_helper_that_was_in_time_for_long() {
    the_leader_works_without_a_helper_that_is_late_from(10, 40);
}

/// No member has panicked: the thread was already unwinding.
#[test]
fn a_team_in_a_destructor_while_its_thread_unwinds() {
    struct Calls<'a>(&'a Shared);

    impl Drop for Calls<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            let zeros = || (0..7).map(|_| AtomicUsize::new(0)).collect();
            let work = Sums {
                cells: [zeros(), zeros()],
                before: |_, _: &Member<'_>| (),
            };
            self.0.lead(3, &work);
        }
    }

    let shared = Shared::new(2);
    let unwinds = std::panic::AssertUnwindSafe(|| {
        let _calls = Calls(&shared);
        panic!("before the call");
    });
    assert!(std::panic::catch_unwind(unwinds).is_err());
    let panicked = shared.panicked.load(Relaxed);
    assert!(!panicked, "a panic outside of the team was reported");
}

/// A panic of one member ends the call, and the pool works afterwards.
fn a_panic_of(who: usize) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    pool.expect("a pool").install(|| {
        let panics = |round, member: &Member<'_>| {
            let now = round > 10 && member.team == 2 && member.index == who;
            assert!(!now, "by itself");
        };
        // Enough rounds for the helper to join.
        let rounds = usize::MAX >> TEAM_BITS;
        let all = std::panic::AssertUnwindSafe(|| check(2, rounds, panics));
        assert!(std::panic::catch_unwind(all).is_err());
        check(2, 100, |_, _| ());
    });
}

#[test]
fn a_panic_of_a_helper_ends_the_call() {
    a_panic_of(1);
}

#[test]
fn a_panic_of_the_leader_ends_the_call() {
    a_panic_of(0);
}
