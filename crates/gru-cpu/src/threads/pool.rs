//! Other threads: the rayon pool in which a call is made, or the global one.

use crate::tuning::SPINS;
use std::{
    any::Any,
    hint::spin_loop,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, LazyLock, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::*},
    },
    thread::{self, Thread},
};

/// The number of threads that a call may use: the threads of the pool, but no more than this process has processors. A
/// team is as slow as its thread that waits for a processor. Outside of a pool, the first call starts the global pool.
///
/// With debug assertions the number of processors is ignored, so that tests have large teams on small machines.
pub(crate) fn available() -> usize {
    static PROCESSORS: LazyLock<usize> = LazyLock::new(|| match thread::available_parallelism() {
        Ok(count) if count.get() > 1 && !cfg!(debug_assertions) => count.get(),
        // One may be the processor to which this thread is bound.
        _ => usize::MAX,
    });
    rayon::current_num_threads().min(*PROCESSORS)
}

/// Offers `help` to other threads, once for each number in `helpers`, and runs `own` on this thread. It returns when
/// the helpers that have started have returned. A helper that starts later does nothing, so `own` must do all work that
/// is left.
///
/// A scope of rayon would wait for the start of every helper. If all threads of the pool wait for this one, they never
/// start.
pub(crate) fn with_helpers<F: Fn(usize) + Sync>(
    helpers: Range<usize>,
    help: F,
    own: impl FnOnce(),
) {
    if helpers.is_empty() {
        return own();
    }
    let Some(waiting) = waiting() else {
        return own();
    };
    waiting.fetch_add(helpers.len(), Relaxed);
    let offer = Arc::new(Offer {
        state: AtomicUsize::new(OPEN),
        help: (&raw const help).cast(),
        call: call::<F>,
        panic: Mutex::new(None),
        leader: thread::current(),
        waiting,
    });
    let end = End(&offer);
    for k in helpers {
        let offer = offer.clone();
        rayon::spawn(move || offer.accept(k));
    }
    own();
    drop(end);
    let mut panic = offer.panic.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(panic) = panic.take() {
        resume_unwind(panic);
    }
}

/// Does `work` for all items. Each of up to `threads` threads takes the next item until none are left.
pub(crate) fn for_each<T: Send>(
    threads: usize,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) + Sync,
) {
    let items = Mutex::new(items);
    let take = || items.lock().expect("no thread panics here").next();
    let run = || {
        while let Some(item) = take() {
            work(item);
        }
    };
    with_helpers(1..threads, |_| run(), run);
}

/// From this number on, a thread offers nothing. A pool whose threads are busy for long starts no helper, and keeps
/// each in its queue: without a limit, memory would grow with every call.
const MOST_WAITING: usize = 4096;

/// Whether calls of this thread offer work to others.
pub(crate) fn offers() -> bool {
    waiting().is_some()
}

/// [`WAITING`], if calls of this thread offer work. It is gone when the destructors of other thread-locals call.
fn waiting() -> Option<Arc<AtomicUsize>> {
    let waiting = WAITING.try_with(Arc::clone).ok()?;
    (waiting.load(Relaxed) < MOST_WAITING).then_some(waiting)
}

thread_local! {
    /// Helpers that calls of this thread have offered and no thread has started.
    static WAITING: Arc<AtomicUsize> = Arc::default();
}

/// Calls `help`.
///
/// # Safety
/// `help` is an `F`, which exists until this returns.
unsafe fn call<F: Fn(usize)>(help: *const (), k: usize) {
    // SAFETY: the caller keeps this promise.
    unsafe { (*help.cast::<F>())(k) }
}

/// Work for helpers. It may exist longer than the call, because rayon may start a helper later.
struct Offer {
    /// [`OPEN`] until the call ends, plus [`HELPER`] for each helper that has started and not returned.
    state: AtomicUsize,
    /// A function of the call, for [`call`](Self::call).
    help: *const (),
    call: unsafe fn(*const (), usize),
    /// The first panic of a helper.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// The thread of the call.
    leader: Thread,
    /// [`WAITING`] of that thread.
    waiting: Arc<AtomicUsize>,
}

const OPEN: usize = 1;
const HELPER: usize = 2;

// SAFETY: only `help` is not already `Send` and `Sync`. It points to a function that is `Sync`, and is called while the
// call waits for it.
unsafe impl Send for Offer {}
// SAFETY: as above.
unsafe impl Sync for Offer {}

impl Offer {
    /// Helps if the call has not ended.
    fn accept(&self, k: usize) {
        self.waiting.fetch_sub(1, Relaxed);
        let join = |state: usize| (state & OPEN != 0).then_some(state + HELPER);
        if self.state.fetch_update(Acquire, Relaxed, join).is_err() {
            return;
        }
        // SAFETY: the state counts this helper, so the call, which owns the function, does not return before.
        let result = catch_unwind(AssertUnwindSafe(|| unsafe { (self.call)(self.help, k) }));
        if let Err(panic) = result {
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(panic);
        }
        if self.state.fetch_sub(HELPER, Release) == HELPER {
            self.leader.unpark();
        }
    }
}

/// Ends an offer when it is dropped, also in a panic.
struct End<'a>(&'a Offer);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_and(!OPEN, AcqRel);
        let mut spins = 0;
        while self.0.state.load(Acquire) != 0 {
            if spins < SPINS {
                spins += 1;
                spin_loop();
            } else {
                thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::{Member, Rounds, run_team};
    use std::{sync::mpsc::channel, time::Duration};

    struct Nothing;

    impl Rounds for Nothing {
        fn round(&self, _: usize, _: &mut Member<'_>) {}
    }

    /// Of the global pool, from a thread outside of it.
    #[test]
    fn a_call_does_not_wait_for_threads_that_wait_for_it() {
        let count = available();
        let ((busy, is_busy), (done, is_done)) = (channel(), channel::<()>());
        let is_done = Arc::new(Mutex::new(is_done));
        for _ in 0..count {
            let (busy, is_done) = (busy.clone(), is_done.clone());
            rayon::spawn(move || {
                busy.send(()).expect("the receiver waits");
                // Ends when the sender is dropped.
                let _ = is_done.lock().expect("no thread panics").recv();
            });
        }
        (0..count).for_each(|_| is_busy.recv().expect("each thread starts"));
        // So many calls that the last ones offer nothing.
        let mut calls = 0;
        for _ in 0..MOST_WAITING {
            with_helpers(1..3, |_| panic!("no thread is free"), || calls += 1);
        }
        assert_eq!(calls, MOST_WAITING);
        let waiting = WAITING.with(Arc::clone);
        assert_eq!(waiting.load(Relaxed), MOST_WAITING);
        run_team(2, 1, Duration::from_secs(3600), &Nothing);
        drop(done);
        // The threads forget them when they are free.
        while waiting.load(Relaxed) > 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn a_call_returns_after_its_helpers() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        pool.expect("a pool").install(|| {
            for k in 0..if cfg!(miri) { 20 } else { 2000 } {
                let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let help = |_| {
                    started.fetch_add(1, Relaxed);
                    thread::yield_now();
                    ended.fetch_add(1, Relaxed);
                };
                // Sometimes the helper starts before the end of the call, and sometimes it does not.
                let own = || (0..k % 7 * 100).for_each(|_| spin_loop());
                with_helpers(1..3, help, own);
                assert_eq!(started.load(Relaxed), ended.load(Relaxed));
            }
        });
    }

    #[test]
    fn a_panic_of_a_helper_reaches_the_call() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        let panic = pool.expect("a pool").install(|| {
            let started = AtomicUsize::new(0);
            let help = |_| {
                started.fetch_add(1, Relaxed);
                panic!("of a helper");
            };
            let own = || {
                while started.load(Relaxed) == 0 {
                    thread::yield_now();
                }
            };
            catch_unwind(AssertUnwindSafe(|| with_helpers(1..2, help, own)))
        });
        let panic = panic.expect_err("the helper has panicked");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"of a helper"));
    }
}
