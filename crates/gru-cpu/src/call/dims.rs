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

/// What a buffer is filled up to, at most: a vector of units or a tile of rows.
const FILL: usize = 64;
/// Room above a product of sizes that are filled up: the bytes of an element, and two matrices in one
/// allocation. On 32 bits that leaves 2²⁷ elements, half a gigabyte of float32.
const ROOM: usize = 16;

impl Dims {
    /// T·N, rows of every matrix that spans the sequence.
    pub fn rows(&self) -> usize {
        self.n * self.t
    }

    /// After this no buffer's length in bytes overflows. The number of multiplications still may:
    /// [`Plan`](crate::threads::Plan) saturates it.
    ///
    /// # Panics
    /// If one would.
    pub(crate) fn check(&self, op: &str) {
        or_panic(op, self.try_check());
    }

    /// [`check`](Self::check) without a panic.
    pub(crate) fn try_check(&self) -> Result<(), CallError> {
        let Self { n, t, i, h } = *self;
        let fill = |size: usize| size.checked_next_multiple_of(FILL);
        let times =
            |a: Option<usize>, b: Option<usize>| a.zip(b).and_then(|(a, b)| a.checked_mul(b));
        let fits = |product: Option<usize>| {
            times(product, Some(ROOM)).is_some_and(|bytes| bytes <= isize::MAX as usize)
        };
        let (features, units) = (fill(i), fill(h));
        let larger = |a: Option<usize>, b: Option<usize>| a.zip(b).map(|(a, b)| a.max(b));
        let widest = larger(times(units, Some(4)), features);
        let rows = n.checked_mul(t).and_then(fill);
        let sequence = times(rows, widest);
        let step = times(fill(n.max(1)), widest);
        let weights = times(times(units, Some(3)), larger(units, features));
        if [rows, sequence, step, weights].into_iter().all(fits) {
            Ok(())
        } else {
            Err(CallError::TooLarge { dims: *self })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// On 32 bits too.
    #[test]
    fn usual_sizes_are_held() {
        for (n, t, i, h) in [
            (0, 0, 0, 0),
            (1, 1, 0, 1),
            (64, 100, 256, 512),
            (16, 400, 80, 512),
            (8, 2048, 64, 64),
            (64, 50, 1024, 1024),
            (1, 1 << 18, 1, 32),
        ] {
            let dims = Dims { n, t, i, h };
            assert_eq!(dims.try_check(), Ok(()));
        }
    }

    #[test]
    fn no_size_hides_another() {
        let most = usize::MAX;
        for (n, t, i, h) in [
            (1, 1, most, 1),
            (1, 1, 1, most),
            (1, 1, most, most),
            (most, 1, 1, 1),
        ] {
            let dims = Dims { n, t, i, h };
            assert_eq!(dims.try_check(), Err(CallError::TooLarge { dims }));
        }
    }
}
