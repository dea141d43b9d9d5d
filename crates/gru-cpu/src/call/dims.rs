//! Sizes, and how a (row, step) pair finds its place in memory.

use super::{CallError, or_panic};
use crate::spec::{Direction, GruSpec, Layout};

/// The sizes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    /// N, rows of the batch.
    pub n: usize,
    /// T, steps.
    pub t: usize,
    /// I, features of the input.
    pub i: usize,
    /// H, hidden units.
    pub h: usize,
}

/// Room above a product of sizes: the bytes of an element, the lanes and rows that a buffer is filled
/// up to, the buffers that one allocation may hold.
const ROOM: usize = 1 << 10;

impl Dims {
    /// T·N, rows of every matrix that spans the sequence.
    pub fn rows(&self) -> usize {
        self.n * self.t
    }

    /// After this no product of sizes within a call overflows.
    ///
    /// # Panics
    /// If one would.
    pub(crate) fn check(&self, op: &str) {
        or_panic(op, self.try_check());
    }

    /// [`check`](Self::check) without a panic.
    pub(crate) fn try_check(&self) -> Result<(), CallError> {
        let Self { n, t, i, h } = *self;
        let widest = h.checked_mul(4).map(|gates| gates.max(i));
        let fits = |product: Option<usize>| {
            let bytes = product.and_then(|elements| elements.checked_mul(ROOM));
            bytes.is_some_and(|bytes| bytes <= isize::MAX as usize)
        };
        let rows = n.checked_mul(t);
        let sequence = rows.zip(widest).and_then(|(rows, w)| rows.checked_mul(w));
        let step = widest.and_then(|w| w.checked_mul(n.max(1)));
        let weights = h.checked_mul(3).and_then(|w| w.checked_mul(i.max(h)));
        match [rows, sequence, step, weights].into_iter().all(fits) {
            true => Ok(()),
            false => Err(CallError::TooLarge { dims: *self }),
        }
    }

    /// Where row `n` of step `t` stands in the memory order of `x` and of the states.
    pub(crate) fn place(&self, layout: Layout) -> Place {
        match layout {
            Layout::BatchMajor => Place {
                per_n: self.t,
                per_t: 1,
            },
            Layout::TimeMajor => Place {
                per_n: 1,
                per_t: self.n,
            },
        }
    }
}

/// Row distances of one step in the batch and one step in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) per_n: usize,
    pub(crate) per_t: usize,
}

impl Place {
    pub(crate) fn row(&self, n: usize, t: usize) -> usize {
        n * self.per_n + t * self.per_t
    }
}

/// The order in which time is walked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    t: usize,
    direction: Direction,
}

impl Time {
    pub(crate) fn new(dims: &Dims, spec: &GruSpec) -> Self {
        Self {
            t: dims.t,
            direction: spec.direction,
        }
    }

    /// The time index of the `s`-th step walked.
    pub(crate) fn of(&self, s: usize) -> usize {
        self.direction.time(s, self.t)
    }
}
