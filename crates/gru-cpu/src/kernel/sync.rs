//! What a team meets by: the standard library, or its like in a model checker, which tries every
//! order of their effects (see `team/model.rs`).

#[cfg(not(loom))]
pub(super) use std::{hint::spin_loop, sync::atomic, thread::yield_now, time::Instant};

#[cfg(loom)]
pub(super) use self::modelled::*;

#[cfg(loom)]
mod modelled {
    pub(in crate::kernel) use loom::{hint::spin_loop, sync::atomic, thread::yield_now};
    use std::{cell::Cell, ops::Add, time::Duration};

    loom::thread_local! {
        static READS: Cell<u32> = Cell::new(0);
    }

    /// A clock that depends on nothing but how often a thread reads it: a wait that is not over at
    /// once is long, and being alone ends after a round.
    #[derive(Clone, Copy, PartialEq, PartialOrd)]
    pub(in crate::kernel) struct Instant(Duration);

    impl Instant {
        pub(in crate::kernel) fn now() -> Self {
            READS.with(|reads| {
                reads.set(reads.get() + 1);
                Self(Duration::from_millis(3) * reads.get())
            })
        }

        pub(in crate::kernel) fn elapsed(&self) -> Duration {
            Self::now().0 - self.0
        }
    }

    impl Add<Duration> for Instant {
        type Output = Self;

        fn add(self, time: Duration) -> Self {
            Self(self.0 + time)
        }
    }
}
