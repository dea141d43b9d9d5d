//! The synchronization primitives of a team: from the standard library, or from a model checker, which tries the
//! orders of their effects (see `team/model.rs`). The checker is a dependency of tests only.

#[cfg(all(feature = "std", not(all(test, any(loom, shuttle)))))]
pub(super) use std::{hint::spin_loop, sync::atomic, thread::yield_now, time::Instant};

#[cfg(not(feature = "std"))]
pub(super) use self::alone::*;

#[cfg(all(test, any(loom, shuttle)))]
pub(super) use self::modelled::*;

/// Without `std` there is one thread, which does not wait.
#[cfg(not(feature = "std"))]
mod alone {
    use core::{ops::Add, time::Duration};

    pub(in crate::threads) use core::{
        hint::{spin_loop, spin_loop as yield_now},
        sync::atomic,
    };

    /// A clock that always reads zero.
    #[derive(Clone, Copy, PartialEq, PartialOrd)]
    pub(in crate::threads) struct Instant;

    impl Instant {
        pub(in crate::threads) fn now() -> Self {
            Self
        }

        pub(in crate::threads) fn elapsed(&self) -> Duration {
            Duration::ZERO
        }
    }

    impl Add<Duration> for Instant {
        type Output = Self;

        fn add(self, _: Duration) -> Self {
            self
        }
    }
}

#[cfg(all(test, any(loom, shuttle)))]
mod modelled {
    #[cfg(loom)]
    use loom as model;
    #[cfg(shuttle)]
    use shuttle as model;
    use std::{cell::Cell, ops::Add, time::Duration};

    pub(in crate::threads) use model::{hint::spin_loop, sync::atomic, thread::yield_now};

    model::thread_local! {
        static READS: Cell<u32> = Cell::new(0);
    }

    /// A clock that depends only on how often a thread reads it. A wait that does not end at once is long, and a
    /// leader works without helpers for one round.
    #[derive(Clone, Copy, PartialEq, PartialOrd)]
    pub(in crate::threads) struct Instant(Duration);

    impl Instant {
        pub(in crate::threads) fn now() -> Self {
            READS.with(|reads| {
                reads.set(reads.get() + 1);
                Self(Duration::from_millis(3) * reads.get())
            })
        }

        pub(in crate::threads) fn elapsed(&self) -> Duration {
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
