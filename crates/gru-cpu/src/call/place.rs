//! The place of a batch row in memory at a step.

use crate::spec::{Layout, Sizes};

/// The distances, in rows of memory, between batch rows and between steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) per_n: usize,
    per_t: usize,
}

impl Place {
    /// The distances in `x` and in the states.
    pub(super) fn new(sizes: &Sizes, layout: Layout) -> Self {
        match layout {
            Layout::BatchMajor => Self {
                per_n: sizes.t,
                per_t: 1,
            },
            Layout::TimeMajor => Self {
                per_n: 1,
                per_t: sizes.n,
            },
        }
    }

    #[inline(always)]
    pub(super) fn row(&self, n: usize, t: usize) -> usize {
        n * self.per_n + t * self.per_t
    }
}
