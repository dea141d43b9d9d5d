use super::*;
use std::{
    sync::{
        Mutex,
        mpsc::{Sender, channel},
    },
    thread::sleep,
};

/// Each round every cell becomes the sum of all cells of the round before, plus one; members
/// write their share of the cells, and read all.
struct Sums<F> {
    cells: [Vec<AtomicUsize>; 2],
    /// What a member does besides, before its share of a round.
    besides: F,
}

impl<F: Fn(usize, &Member<'_>) + Sync> Rounds for Sums<F> {
    fn round(&self, round: usize, member: &mut Member<'_>) {
        (self.besides)(round, member);
        let [from, to] = [round % 2, 1 - round % 2].map(|k| &self.cells[k]);
        let sum: usize = from.iter().map(|cell| cell.load(Relaxed)).sum();
        for k in member.share(to.len()) {
            to[k].store(sum % 1000 + 1, Relaxed);
        }
        member.meet();
        // Nobody is a round ahead.
        assert!(to.iter().all(|cell| cell.load(Relaxed) == sum % 1000 + 1));
    }
}

fn check(threads: usize, rounds: usize, besides: impl Fn(usize, &Member<'_>) + Sync) {
    let zeros = || (0..7).map(|_| AtomicUsize::new(0)).collect();
    let work = Sums {
        cells: [zeros(), zeros()],
        besides,
    };
    together(threads, rounds, Duration::from_micros(40), &work);
    let expected = (0..rounds).fold(0, |cell, _| cell * 7 % 1000 + 1);
    assert_eq!(work.cells[rounds % 2][3].load(Relaxed), expected);
}

/// Runs `f` in a pool of two threads, the other of which is busy until it is told not to be.
fn beside_a_busy_thread(f: impl FnOnce(Sender<()>) + Send) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    pool.expect("a pool").install(|| {
        let ((busy, is_busy), (done, is_done)) = (channel(), channel());
        rayon::spawn(move || {
            busy.send(()).expect("somebody waits for it");
            is_done.recv().expect("told before all is over");
        });
        is_busy.recv().expect("it begins");
        f(done);
    });
}

#[test]
fn every_round_is_whole_whoever_comes() {
    let rounds = if cfg!(miri) { 20 } else { 5000 };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    pool.expect("a pool").install(|| {
        for threads in [1, 2, 3] {
            check(threads, rounds, |_, _| ());
        }
    });
}

#[test]
fn nobody_waits_for_a_helper_that_never_comes() {
    beside_a_busy_thread(|done| {
        check(2, 50, |_, member| assert_eq!(member.team, 1));
        done.send(()).expect("it is still busy");
    });
}

#[test]
fn a_helper_that_comes_late_shares_the_rest() {
    const COMES: usize = 20;
    beside_a_busy_thread(|done| {
        let done = Mutex::new(done);
        check(2, 50, |round, member| match round {
            ..COMES => assert_eq!(member.team, 1),
            COMES => {
                let done = done.lock().expect("the leader is alone");
                done.send(()).expect("it is still busy");
                while member.shared.came.0.load(Acquire) == 0 {
                    sleep(Duration::from_micros(10));
                }
            }
            _ if round == COMES + 1 => assert_eq!(member.team, 2),
            _ => {}
        });
    });
}

#[test]
fn a_helper_that_is_away_again_and_again_is_left_alone() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    pool.expect("a pool").install(|| {
        let alone = AtomicUsize::new(0);
        check(2, 100, |round, member| match (member.index, member.team) {
            // Longer than is lost before the team is judged.
            (1, _) => sleep(2 * LOST_FROM),
            (_, 1) if round == 0 => {
                while member.shared.came.0.load(Acquire) == 0 {
                    sleep(Duration::from_micros(10));
                }
            }
            (_, team) => {
                alone.fetch_add(usize::from(team == 1), Relaxed);
                sleep(Duration::from_micros(100));
            }
        });
        assert!(alone.into_inner() > 0, "the leader waits in every round");
    });
}

/// Nobody has panicked here: the thread was unwinding before.
#[test]
fn a_team_in_a_destructor_while_its_thread_unwinds() {
    struct Calls<'a>(&'a Shared);

    impl Drop for Calls<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            let zeros = || (0..7).map(|_| AtomicUsize::new(0)).collect();
            let work = Sums {
                cells: [zeros(), zeros()],
                besides: |_, _: &Member<'_>| (),
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
    let broken = shared.broken.load(Relaxed);
    assert!(
        !broken,
        "helpers are told of a panic that is not of the team"
    );
}

/// Whose panic is told, and whether the pool is good for other work behind it.
fn a_panic_of(who: usize) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    pool.expect("a pool").install(|| {
        let panics = |round, member: &Member<'_>| {
            let now = round > 10 && member.team == 2 && member.index == who;
            assert!(!now, "by itself");
        };
        // As many rounds as it takes the helper to come.
        let rounds = usize::MAX >> TEAM_BITS;
        let all = std::panic::AssertUnwindSafe(|| check(2, rounds, panics));
        assert!(std::panic::catch_unwind(all).is_err());
        check(2, 100, |_, _| ());
    });
}

#[test]
fn a_panic_of_a_helper_is_a_panic_of_all() {
    a_panic_of(1);
}

#[test]
fn a_panic_of_the_leader_is_a_panic_of_all() {
    a_panic_of(0);
}
