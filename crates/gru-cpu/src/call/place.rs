//! Where a row of the batch is stored at a step.

use crate::spec::{Layout, Sizes};

/// Row distances of one step in the batch and one step in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) per_n: usize,
    per_t: usize,
}

impl Place {
    /// In `x` and in the states.
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
